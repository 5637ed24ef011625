#include "contrib/lower/observed_regions.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace nodewise {
namespace {

class ObservedRegionFinder {
 public:
  ObservedRegionFinder(const Network& network, const IsObserved& is_observed)
      : network_(network),
        is_seen_(network.data().values.size()),
        parents_(network.data().operations.size()) {
    for (const auto& value : network.data().values) {
      if (!value.has_value()) continue;
      is_seen_[Index(value->id)] = is_observed(network, value->id);
    }
    for (const ValueId id : network.outputs()) is_seen_[Index(id)] = true;
    for (uint32_t i = 0; i < parents_.size(); ++i) parents_[i] = i;
  }

  std::vector<ObservedRegion> Find() {
    JoinByUnseen();
    std::vector<uint32_t> order;
    // Parts that read each other, in a circle, can only run as one.
    while (true) {
      order.clear();
      const std::vector<uint32_t> rest = Sort(&order);
      if (rest.empty()) break;
      JoinCircle(rest);
    }
    return Collect(order);
  }

 private:
  using Readers = std::map<uint32_t, std::set<uint32_t>>;

  uint32_t RootOf(OperationId id) const {
    uint32_t root = Index(id);
    while (parents_[root] != root) root = parents_[root];
    return root;
  }

  void Join(uint32_t a, uint32_t b) {
    a = RootOf(OperationId{a});
    b = RootOf(OperationId{b});
    parents_[std::max(a, b)] = std::min(a, b);
  }

  void JoinByUnseen() {
    for (const OperationId id : network_.order()) {
      for (const ValueId output : network_.operation(id).outputs) {
        if (output == kNoValue || is_seen_[Index(output)]) continue;
        for (const Use& use : network_.value(output).uses) {
          Join(Index(id), Index(use.user));
        }
      }
    }
  }

  // By part, the parts that read what it makes, or wait for it.
  Readers FindPartReaders() const {
    Readers readers;
    const auto add = [&](OperationId from, OperationId to) {
      const uint32_t a = RootOf(from), b = RootOf(to);
      if (a != b) readers[a].insert(b);
    };
    for (const OperationId id : network_.order()) {
      const Operation& operation = network_.operation(id);
      for (const ValueId output : operation.outputs) {
        if (output == kNoValue) continue;
        for (const Use& use : network_.value(output).uses) add(id, use.user);
      }
      for (const ValueId barrier : operation.after) {
        add(network_.value(barrier).producer, id);
      }
    }
    return readers;
  }

  // Puts parts into `order`, those that are read first; returns what is left
  // because it lies on or behind a circle.
  std::vector<uint32_t> Sort(std::vector<uint32_t>* order) {
    readers_ = FindPartReaders();
    std::map<uint32_t, size_t> open;  // How many parts each still waits for.
    for (const OperationId id : network_.order()) open[RootOf(id)];
    for (const auto& [part, list] : readers_) {
      for (const uint32_t reader : list) ++open[reader];
    }
    std::set<uint32_t> ready;
    for (const auto& [part, count] : open) {
      if (count == 0) ready.insert(part);
    }
    while (!ready.empty()) {
      const uint32_t part = *ready.begin();
      ready.erase(ready.begin());
      order->push_back(part);
      open.erase(part);
      const auto list = readers_.find(part);
      if (list == readers_.end()) continue;
      for (const uint32_t reader : list->second) {
        if (--open[reader] == 0) ready.insert(reader);
      }
    }
    std::vector<uint32_t> rest;
    for (const auto& [part, count] : open) rest.push_back(part);
    return rest;
  }

  // Each part that is left waits for another one that is left, so the way back
  // from any of them ends in a circle.
  void JoinCircle(const std::vector<uint32_t>& rest) {
    std::map<uint32_t, uint32_t> before;
    for (const uint32_t part : rest) {
      for (const uint32_t reader : readers_[part]) before[reader] = part;
    }
    std::set<uint32_t> passed;
    uint32_t at = rest[0];
    while (passed.insert(at).second) at = before.at(at);
    for (uint32_t next = before.at(at); next != at; next = before.at(next)) {
      Join(at, next);
    }
  }

  std::vector<ObservedRegion> Collect(const std::vector<uint32_t>& order) {
    std::map<uint32_t, ObservedRegion> parts;
    for (const OperationId id : network_.order()) {
      ObservedRegion& part = parts[RootOf(id)];
      part.operations.push_back(id);
      for (const ValueId output : network_.operation(id).outputs) {
        const bool is_wanted = output != kNoValue && is_seen_[Index(output)];
        if (is_wanted) part.outputs.push_back(output);
      }
    }
    std::vector<ObservedRegion> regions;
    for (const uint32_t part : order) {
      ObservedRegion& region = parts[part];
      if (!region.outputs.empty()) regions.push_back(std::move(region));
    }
    return regions;
  }

  const Network& network_;
  std::vector<bool> is_seen_;      // By value.
  std::vector<uint32_t> parents_;  // By operation; a root is its own.
  Readers readers_;
};

}  // namespace

std::vector<ObservedRegion> FindObservedRegions(const Network& network,
                                                const IsObserved& is_observed) {
  return ObservedRegionFinder(network, is_observed).Find();
}

}  // namespace nodewise
