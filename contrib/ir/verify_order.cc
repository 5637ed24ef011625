#include <algorithm>

#include "contrib/ir/network_check.h"
#include "contrib/ir/places.h"
#include "fmt/format.h"
#include "nodewise/ir/cycles.h"

namespace nodewise {
namespace {

// More cycles than this are not looked for: each costs a walk.
constexpr size_t kMostCycles = 100;

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
  std::vector<std::vector<uint32_t>> makers(data_.operations.size());
  for (uint32_t id = 0; id < makers.size(); ++id) {
    const Operation* const operation = Find(data_, OperationId{id});
    if (operation == nullptr) continue;
    for (const OperationId maker : MakersOf(*operation)) {
      makers[id].push_back(Index(maker));
    }
  }
  for (const auto& cycle : FindCycles(std::move(makers), kMostCycles)) {
    std::vector<OperationId> path;
    for (const uint32_t id : cycle) path.push_back(OperationId{id});
    for (const OperationId id : path) is_in_cycle_[Index(id)] = true;
    path.push_back(path.front());
    const Operation& first = *Find(data_, path.front());
    Structure(About(path.front()), PlaceOf(first),
              "depends on itself: " + PathText(data_, path), "no cycle");
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
