#include <algorithm>

#include "contrib/ir/network_check.h"
#include "contrib/ir/places.h"
#include "fmt/format.h"

namespace nodewise {
namespace {

// More cycles than this are not looked for: each costs a walk.
constexpr int kMostCycles = 100;

// Takes away operations that wait for nothing that is left, so that only those
// on cycles, and after them, remain.
class Peeler {
 public:
  explicit Peeler(std::vector<std::vector<OperationId>> makers)
      : makers_(std::move(makers)),
        users_(makers_.size()),
        waits_for_(makers_.size(), 0),
        is_gone_(makers_.size(), false) {
    for (uint32_t id = 0; id < makers_.size(); ++id) {
      waits_for_[id] = makers_[id].size();
      for (const OperationId maker : makers_[id]) {
        users_[Index(maker)].push_back(id);
      }
    }
    std::vector<uint32_t> free;
    for (uint32_t id = 0; id < makers_.size(); ++id) {
      if (waits_for_[id] == 0) free.push_back(id);
    }
    Take(std::move(free));
  }

  // One of the cycles that are left, makers before users from the lowest number
  // on, which is then taken away; empty if none is left.
  std::vector<OperationId> TakeCycle() {
    while (first_ < is_gone_.size() && is_gone_[first_]) ++first_;
    if (first_ == is_gone_.size()) return {};
    // Everything left waits for something left, so that going back never ends
    // but in a circle.
    std::vector<OperationId> path = {OperationId{first_}};
    std::vector<bool> is_on_path(is_gone_.size(), false);
    while (!is_on_path[Index(path.back())]) {
      is_on_path[Index(path.back())] = true;
      path.push_back(MakerLeft(path.back()));
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), path.back()));
    path.pop_back();
    std::reverse(path.begin(), path.end());
    std::rotate(path.begin(), std::min_element(path.begin(), path.end()),
                path.end());
    std::vector<uint32_t> cycle;
    cycle.reserve(path.size());
    for (const OperationId id : path) cycle.push_back(Index(id));
    Take(std::move(cycle));
    return path;
  }

 private:
  OperationId MakerLeft(OperationId id) const {
    for (const OperationId maker : makers_[Index(id)]) {
      if (!is_gone_[Index(maker)]) return maker;
    }
    return id;
  }

  void Take(std::vector<uint32_t> open) {
    for (const uint32_t id : open) is_gone_[id] = true;
    while (!open.empty()) {
      const uint32_t id = open.back();
      open.pop_back();
      for (const uint32_t user : users_[id]) {
        if (--waits_for_[user] > 0 || is_gone_[user]) continue;
        is_gone_[user] = true;
        open.push_back(user);
      }
    }
  }

  std::vector<std::vector<OperationId>> makers_;
  std::vector<std::vector<uint32_t>> users_;
  std::vector<size_t> waits_for_;
  std::vector<bool> is_gone_;
  uint32_t first_ = 0;
};

}  // namespace

void NetworkCheck::CheckOrder() {
  for (uint32_t i = 0; i < data_.order.size(); ++i) {
    const OperationId id = data_.order[i];
    const std::string place =
        fmt::format("{}: place {} of the order", NetworkPlace(), i);
    if (Find(data_, id) == nullptr) {
      Structure({}, place, "is " + TitleOf(data_, id),
                "an operation of the network");
    } else if (positions_[Index(id)] != i) {
      Structure(About(id), place, "is " + TitleOf(data_, id) + " again",
                "it once");
    }
  }
  for (uint32_t id = 0; id < data_.operations.size(); ++id) {
    const Operation* const operation = Find(data_, OperationId{id});
    if (operation == nullptr || positions_[id] != UINT32_MAX) continue;
    Structure(About(OperationId{id}), PlaceOf(*operation),
              "is not in the order", "all operations there");
  }
}

void NetworkCheck::CheckCycles() {
  std::vector<std::vector<OperationId>> makers(data_.operations.size());
  for (uint32_t id = 0; id < makers.size(); ++id) {
    const Operation* const operation = Find(data_, OperationId{id});
    if (operation != nullptr) makers[id] = MakersOf(*operation);
  }
  Peeler peeler(std::move(makers));
  for (int i = 0; i < kMostCycles; ++i) {
    std::vector<OperationId> cycle = peeler.TakeCycle();
    if (cycle.empty()) return;
    for (const OperationId id : cycle) is_in_cycle_[Index(id)] = true;
    cycle.push_back(cycle.front());
    const Operation& first = *Find(data_, cycle.front());
    Structure(About(cycle.front()), PlaceOf(first),
              "depends on itself: " + PathText(data_, cycle), "no cycle");
  }
}

// A cycle is a fault of its own.
bool NetworkCheck::RunsBefore(OperationId id, OperationId maker) const {
  if (Find(data_, maker) == nullptr) return false;
  const uint32_t position = positions_[Index(maker)];
  if (position == UINT32_MAX || position < positions_[Index(id)]) return false;
  return !is_in_cycle_[Index(id)] || !is_in_cycle_[Index(maker)];
}

void NetworkCheck::CheckRunsBefore() {
  for (const OperationId id : data_.order) {
    const Operation* const operation = Find(data_, id);
    if (operation == nullptr) continue;
    for (const auto* ids : {&operation->inputs, &operation->after}) {
      for (size_t i = 0; i < ids->size(); ++i) {
        const NetworkValue* const value = Find(data_, (*ids)[i]);
        if (value == nullptr) continue;
        if (!RunsBefore(id, value->producer)) continue;
        const bool is_input = ids == &operation->inputs;
        Structure(About(id),
                  is_input ? PlaceOfInput(*operation, i) : PlaceOf(*operation),
                  fmt::format("runs before {}, which makes {}",
                              PlaceOf(*Find(data_, value->producer)),
                              PlaceOf(data_, *value)),
                  "producers first");
      }
    }
  }
}

// REQUIRES: the structure has no errors.
void NetworkCheck::CheckReachability() {
  if (data_.outputs.empty()) {
    Unreached({kBehindAll}, NetworkPlace(), "has no outputs");
    return;
  }
  // Backwards from the outputs: the order is valid, so one pass is enough.
  std::vector<bool> is_needed(data_.values.size(), false);
  for (const ValueId id : data_.outputs) is_needed[Index(id)] = true;
  for (size_t i = data_.order.size(); i-- > 0;) {
    const Operation& operation = *Find(data_, data_.order[i]);
    const bool is_live =
        is_needed[Index(operation.barrier)] ||
        std::any_of(
            operation.outputs.begin(), operation.outputs.end(),
            [&](ValueId id) { return id != kNoValue && is_needed[Index(id)]; });
    if (!is_live) {
      Unreached(About(data_.order[i]), PlaceOf(operation),
                "no output of the network depends on it",
                "RemoveUnused takes it away");
      continue;
    }
    for (const auto* ids : {&operation.inputs, &operation.after}) {
      for (const ValueId id : *ids) {
        if (id != kNoValue) is_needed[Index(id)] = true;
      }
    }
  }
  // A body has the inputs and outputs that its operation gives it.
  if (is_body_) return;
  for (const auto& value : data_.values) {
    if (!value.has_value() || value->producer != kNoOperation ||
        is_needed[Index(value->id)]) {
      continue;
    }
    Unreached(About(*value), PlaceOf(data_, *value),
              "no output of the network depends on it");
  }
  CheckOutputsDepend();
}

// Forward from the inputs.
void NetworkCheck::CheckOutputsDepend() {
  if (data_.inputs.empty()) return;
  std::vector<bool> depends(data_.values.size(), false);
  for (const ValueId id : data_.inputs) depends[Index(id)] = true;
  for (const OperationId id : data_.order) {
    const Operation& operation = *Find(data_, id);
    const bool any = std::any_of(
        operation.inputs.begin(), operation.inputs.end(),
        [&](ValueId in) { return in != kNoValue && depends[Index(in)]; });
    for (const ValueId output : operation.outputs) {
      if (output != kNoValue) depends[Index(output)] = any;
    }
  }
  for (size_t i = 0; i < data_.outputs.size(); ++i) {
    const ValueId id = data_.outputs[i];
    if (depends[Index(id)]) continue;
    Unreached({kBehindAll}, fmt::format("{}: output {}", NetworkPlace(), i),
              "is " + TitleOf(data_, id) +
                  ", which depends on no input of the network");
  }
}

}  // namespace nodewise
