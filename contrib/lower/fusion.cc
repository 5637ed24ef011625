#include "contrib/lower/fusion.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "nodewise/ir/network.h"

namespace nodewise {
namespace {

enum class Part {
  kAlone,
  kHead,         // Computes from whole tensors; a region may begin with it.
  kElementwise,  // Computes each element from those at its place.
};

// The results of these operators stay in registers or the cache while what is
// fused behind them is computed. Operators of other domains are never fused,
// even if they have such a name.
constexpr std::string_view kHeads[] = {"Conv", "ConvInteger", "ConvTranspose",
                                       "Gemm", "MatMul",      "MatMulInteger"};

// The most operations of one region: a longer chain gains nothing more, and
// hides more values from a user who debugs it.
constexpr size_t kMostOperations = 16;

class RegionFinder {
 public:
  explicit RegionFinder(const Network& network)
      : network_(network),
        places_(network.data().operations.size()),
        is_taken_(places_.size()),
        is_output_(network.data().values.size()) {
    for (size_t i = 0; i < network.order().size(); ++i) {
      places_[Index(network.order()[i])] = i;
    }
    for (const ValueId id : network.outputs()) is_output_[Index(id)] = true;
  }

  std::vector<std::vector<OperationId>> Find(bool fuse) {
    std::vector<std::vector<OperationId>> regions;
    for (const OperationId id : network_.order()) {
      if (is_taken_[Index(id)] || !HasReadableOutput(id)) continue;
      std::vector<OperationId> region = {id};
      if (fuse && PartOf(id) != Part::kAlone) {
        while (Extend(&region)) {
        }
      }
      for (const OperationId taken : region) is_taken_[Index(taken)] = true;
      regions.push_back(std::move(region));
    }
    // A region may take in an operation that stands behind the first one of
    // another region. By their last operations all regions come after what they
    // read.
    std::ranges::sort(regions, [this](const auto& a, const auto& b) {
      return PlaceOf(a.back()) < PlaceOf(b.back());
    });
    return regions;
  }

 private:
  size_t PlaceOf(OperationId id) const { return places_[Index(id)]; }

  // Nothing can read such an operation, so no node is made of it.
  bool HasReadableOutput(OperationId id) const {
    const auto& outputs = network_.operation(id).outputs;
    return std::ranges::any_of(
        outputs, [](ValueId output) { return output != kNoValue; });
  }

  // An operation that waits for another, or that another waits for, must keep
  // its place among the nodes.
  bool HasBarriers(const Operation& operation) const {
    return !operation.after.empty() ||
           !network_.value(operation.barrier).uses.empty();
  }

  Part PartOf(OperationId id) const {
    const Operation& operation = network_.operation(id);
    if (!operation.def().domain.empty() || operation.outputs.size() != 1 ||
        HasBarriers(operation)) {
      return Part::kAlone;
    }
    if (std::ranges::find(kHeads, operation.kind()) != std::end(kHeads)) {
      return Part::kHead;
    }
    return IsElementwise(operation) ? Part::kElementwise : Part::kAlone;
  }

  ValueId OutputOf(OperationId id) const {
    return network_.operation(id).outputs[0];
  }

  // An operand with more sides would make the result larger.
  bool HasShapeOf(OperationId id, ValueId value) const {
    const auto& shape = network_.value(value).type.shape;
    return shape.has_value() &&
           network_.value(OutputOf(id)).type.shape == shape;
  }

  // Returns the first operation that reads one of the values and is not in
  // `inside`; none if all are read inside alone.
  std::optional<OperationId> FirstReader(
      const std::set<ValueId>& values,
      const std::set<OperationId>& inside) const {
    std::optional<OperationId> first;
    for (const ValueId value : values) {
      for (const Use& use : network_.value(value).uses) {
        if (inside.contains(use.user)) continue;
        if (!first.has_value() || PlaceOf(use.user) < PlaceOf(*first)) {
          first = use.user;
        }
      }
    }
    return first;
  }

  // Takes in the operations behind the region's result up to the next one where
  // everything comes together again: one operation in a chain, and all of a
  // Gelu that reads its input twice. Returns false if there is nothing to take.
  bool Extend(std::vector<OperationId>* region) const {
    const ValueId result = OutputOf(region->back());
    std::vector<OperationId> taken;
    std::set<OperationId> inside;
    std::set<ValueId> open = {result};  // Made inside.
    // `open` holds what the operations taken so far make. When nothing outside
    // reads any of it, everything has come together in the last one, whose
    // result is that of the longer region.
    while (region->size() + taken.size() < kMostOperations) {
      // An output of the network can be seen, so the region has to end at it.
      for (const ValueId value : open) {
        if (is_output_[Index(value)]) return false;
      }
      const auto next = FirstReader(open, inside);
      if (!next.has_value() || is_taken_[Index(*next)] ||
          PartOf(*next) != Part::kElementwise || !HasShapeOf(*next, result)) {
        return false;
      }
      taken.push_back(*next);
      inside.insert(*next);
      if (!FirstReader(open, inside).has_value()) {
        region->insert(region->end(), taken.begin(), taken.end());
        return true;
      }
      open.insert(OutputOf(*next));
    }
    return false;
  }

  const Network& network_;
  std::vector<size_t> places_;   // In the order, by operation.
  std::vector<bool> is_taken_;   // By operation.
  std::vector<bool> is_output_;  // Which values are outputs of the network.
};

// Operations are joined into parts, in a forest with the lowest number as the
// root. Then parts that read each other in a circle are joined as well, one
// circle at a time, until all can be sorted. Joining no more than that keeps as
// many values as possible between nodes.
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
    JoinByUnobserved();
    std::vector<uint32_t> order;
    // Parts that read each other, in a circle, can only run as one.
    while (true) {
      order.clear();
      const std::vector<uint32_t> rest = Sort(&order);
      if (rest.empty()) break;
      JoinCycle(rest);
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

  // The lower number is the root, so that the result does not depend on the
  // order in which parts are joined.
  void Join(uint32_t a, uint32_t b) {
    a = RootOf(OperationId{a});
    b = RootOf(OperationId{b});
    parents_[std::max(a, b)] = std::min(a, b);
  }

  void JoinByUnobserved() {
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
    // Where several could come next, the one with the lowest root does, so that
    // the order is the same every time.
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
  void JoinCycle(const std::vector<uint32_t>& rest) {
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
std::vector<std::vector<OperationId>> FindRegions(const Network& network,
                                                  bool fuse) {
  return RegionFinder(network).Find(fuse);
}

std::vector<ObservedRegion> FindObservedRegions(const Network& network,
                                                const IsObserved& is_observed) {
  return ObservedRegionFinder(network, is_observed).Find();
}

}  // namespace nodewise
