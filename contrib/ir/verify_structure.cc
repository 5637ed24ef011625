// The structure of a network: whether its links are valid in both directions,
// whether it has an order in which it can run, and what depends on what.
//
// The data may be anything that a file can say, so that each link is followed
// only after it has been found to lead somewhere. Faults are collected, not
// returned: a reader who mends one at a time would never be done.

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "contrib/ir/network_check.h"
#include "contrib/ir/places.h"
#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {
namespace {

constexpr size_t kMostOfPath = 16;  // Shown at either end.
// More cycles than this are not looked for: each costs a walk.
constexpr size_t kMostCycles = 100;

// Removes items that wait for nothing that is left, so that only those on
// cycles, and after them, remain.
class Peeler {
 public:
  explicit Peeler(std::vector<std::vector<uint32_t>> makers)
      : makers_(std::move(makers)),
        users_(makers_.size()),
        waits_for_(makers_.size(), 0),
        is_gone_(makers_.size(), false) {
    std::vector<uint32_t> free;
    for (uint32_t id = 0; id < makers_.size(); ++id) {
      waits_for_[id] = makers_[id].size();
      if (makers_[id].empty()) free.push_back(id);
      for (const uint32_t maker : makers_[id]) users_[maker].push_back(id);
    }
    Remove(std::move(free));
  }

  // One of the cycles that are left, makers before users from the lowest number
  // on, which is then removed; empty if none is left.
  std::vector<uint32_t> TakeCycle() {
    while (first_ < is_gone_.size() && is_gone_[first_]) ++first_;
    if (first_ == is_gone_.size()) return {};
    // Everything left waits for something left, so that going back never ends
    // but in a circle.
    std::vector<uint32_t> path = {first_};
    std::vector<bool> is_on_path(is_gone_.size(), false);
    while (!is_on_path[path.back()]) {
      is_on_path[path.back()] = true;
      const std::vector<uint32_t>& makers = makers_[path.back()];
      path.push_back(*std::ranges::find_if(
          makers, [this](uint32_t maker) { return !is_gone_[maker]; }));
    }
    path.erase(path.begin(), std::ranges::find(path, path.back()));
    path.pop_back();
    std::ranges::reverse(path);
    std::rotate(path.begin(), std::ranges::min_element(path), path.end());
    Remove(path);
    return path;
  }

 private:
  void Remove(std::vector<uint32_t> open) {
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

  std::vector<std::vector<uint32_t>> makers_;
  std::vector<std::vector<uint32_t>> users_;
  std::vector<size_t> waits_for_;
  std::vector<bool> is_gone_;
  uint32_t first_ = 0;
};

// A use from either end: by which operation, in which slot, of which value.
using Link = std::tuple<uint32_t, uint32_t, uint32_t>;

std::string SlotUseText(const NetworkData& data, const Operation& operation,
                        uint32_t slot) {
  if (slot == kBarrierSlot) return "does not wait for it";
  if (slot >= operation.inputs.size()) {
    return fmt::format("has {} inputs", operation.inputs.size());
  }
  return "reads " + TitleOf(data, operation.inputs[slot]) + " there";
}

std::vector<Link> LinksOfOperations(const NetworkData& data) {
  std::vector<Link> links;
  ForEachOperation(data, [&](OperationId id, const Operation& operation) {
    ForEachUse(operation, [&](ValueId value, uint32_t slot) {
      if (Find(data, value) == nullptr) return;
      links.emplace_back(Index(id), slot, Index(value));
    });
  });
  std::ranges::sort(links);
  // An operation that waits twice for one barrier is a fault of its own.
  links.erase(std::unique(links.begin(), links.end()), links.end());
  return links;
}

std::vector<Link> LinksOfValues(const NetworkData& data) {
  std::vector<Link> links;
  ForEachValue(data, [&](ValueId id, const NetworkValue& value) {
    for (const Use& use : value.uses) {
      links.emplace_back(Index(use.user), use.slot, Index(id));
    }
  });
  std::ranges::sort(links);
  return links;
}

std::vector<Link> Difference(const std::vector<Link>& a,
                             const std::vector<Link>& b) {
  std::vector<Link> only_in_a;
  std::ranges::set_difference(a, b, std::back_inserter(only_in_a));
  return only_in_a;
}

}  // namespace

std::vector<std::vector<uint32_t>> FindCycles(
    std::vector<std::vector<uint32_t>> makers, size_t most) {
  Peeler peeler(std::move(makers));
  std::vector<std::vector<uint32_t>> cycles;
  while (cycles.size() < most) {
    std::vector<uint32_t> cycle = peeler.TakeCycle();
    if (cycle.empty()) break;
    cycles.push_back(std::move(cycle));
  }
  return cycles;
}

std::string PathText(absl::Span<const std::string> names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += " -> ";
    if (i == kMostOfPath && names.size() > 2 * kMostOfPath) {
      const size_t left_out = names.size() - 2 * kMostOfPath;
      text += fmt::format("({} more) -> ", left_out);
      i += left_out;
    }
    text += Shortened(names[i]);
  }
  return text;
}

// Links first, then lists, order and cycles: each looks only at what exists.
void NetworkCheck::CheckStructure() {
  CheckNumbers();
  ForEachOperation(data_, [&](OperationId id, const Operation&) {
    CheckLinksOf(id);
    CheckBarriersOf(id);
  });
  ForEachValue(data_, [&](ValueId id, const NetworkValue& value) {
    CheckProducerOf(id, value);
  });
  CheckUses();
  CheckInputList();
  CheckOutputList();
  CheckOrder();
  CheckCycles();
  CheckRunsBefore();
  // Dependences can only be followed along valid links.
  if (errors_ == 0) CheckReachability();
}

// An item is found by its place in the data; the number that it holds is used
// by those who have only the item.
void NetworkCheck::CheckNumbers() {
  const auto add = [&](Subject subject, const char* where, uint32_t id,
                       uint32_t held) {
    Structure(std::move(subject), fmt::format("{}{}", where, id),
              fmt::format("says that its number is {}", held),
              fmt::format("{}", id));
  };
  ForEachValue(data_, [&](ValueId id, const NetworkValue& value) {
    if (value.id == id) return;
    add(About(value), "value %", Index(id), Index(value.id));
  });
  ForEachOperation(data_, [&](OperationId id, const Operation& operation) {
    if (operation.id == id) return;
    add(About(id), "operation #", Index(id), Index(operation.id));
  });
}

void NetworkCheck::CheckLinksOf(OperationId id) {
  const Operation& operation = *Find(data_, id);
  for (uint32_t slot = 0; slot < operation.inputs.size(); ++slot) {
    const ValueId input = operation.inputs[slot];
    const NetworkValue* const value = Find(data_, input);
    if (input == kNoValue ||
        (value != nullptr && value->kind != NetworkValue::Kind::kBarrier)) {
      continue;
    }
    Structure(About(id), PlaceOfInput(operation, slot),
              "is " + TitleOf(data_, input), "a tensor of the network");
  }
  for (uint32_t slot = 0; slot < operation.outputs.size(); ++slot) {
    if (operation.outputs[slot] != kNoValue) CheckOutputLink(id, slot);
  }
}

// An operation and the value that it makes name each other; this looks from
// the operation, CheckProducerOf() from the value.
void NetworkCheck::CheckOutputLink(OperationId id, uint32_t slot) {
  const Operation& operation = *Find(data_, id);
  const NetworkValue* const value = Find(data_, operation.outputs[slot]);
  std::string found = "is " + TitleOf(data_, operation.outputs[slot]);
  if (value == nullptr) {
    // TitleOf() says already that there is no such value.
  } else if (value->kind != NetworkValue::Kind::kOutput) {
    found += ", which is not made by an operation";
  } else if (value->producer != id) {
    found +=
        ", which says that it is made by " + TitleOf(data_, value->producer);
  } else if (value->slot != slot) {
    found += fmt::format(", which says that it is output {}", value->slot);
  } else {
    return;
  }
  Structure(About(id), PlaceOfOutput(operation, slot), std::move(found),
            "a value that is made here");
}

// Sorted, so that a barrier that is listed twice stands beside itself.
void NetworkCheck::CheckBarriersOf(OperationId id) {
  const Operation& operation = *Find(data_, id);
  const auto add = [&](std::string found, std::string expected) {
    Structure(About(id), PlaceOf(operation), std::move(found),
              std::move(expected));
  };
  const NetworkValue* const own = Find(data_, operation.barrier);
  if (own == nullptr || own->kind != NetworkValue::Kind::kBarrier ||
      own->producer != id) {
    add("has " + TitleOf(data_, operation.barrier) + " as its barrier",
        "a barrier that it makes");
  }
  std::vector<ValueId> seen = operation.after;
  std::ranges::sort(seen);
  for (size_t i = 0; i < seen.size(); ++i) {
    const NetworkValue* const barrier = Find(data_, seen[i]);
    if (barrier == nullptr || barrier->kind != NetworkValue::Kind::kBarrier) {
      add("waits for " + TitleOf(data_, seen[i]), "a barrier");
    } else if (i > 0 && seen[i] == seen[i - 1]) {
      add("waits for " + TitleOf(data_, seen[i]) + " again", "once");
    }
  }
}

void NetworkCheck::CheckProducerOf(ValueId id, const NetworkValue& value) {
  const Operation* const producer = Find(data_, value.producer);
  const auto add = [&](std::string found, std::string expected) {
    Structure(About(value), PlaceOf(data_, value), std::move(found),
              std::move(expected));
  };
  if (value.kind == NetworkValue::Kind::kOutput) {
    const ValueId there =
        producer != nullptr && value.slot < producer->outputs.size()
            ? producer->outputs[value.slot]
            : kNoValue;
    if (there == id) return;
    const bool has_slot =
        producer != nullptr && value.slot < producer->outputs.size();
    add(fmt::format("is said to be output {} of {}, {}", value.slot,
                    TitleOf(data_, value.producer),
                    has_slot ? "which makes " + TitleOf(data_, there) + " there"
                             : "which does not have it"),
        "an operation that makes it");
  } else if (value.kind == NetworkValue::Kind::kBarrier) {
    if (producer != nullptr && producer->barrier == id) return;
    add("is said to be the barrier of " + TitleOf(data_, value.producer) +
            ", which has another",
        "an operation whose barrier it is");
  } else if (value.producer != kNoOperation) {
    add("is an input or a constant, and made by " +
            TitleOf(data_, value.producer),
        "no operation that makes it");
  }
}

// A use stands with the operation that reads and with the value that is read.
// Both lists are compared as sets, since a value may have very many uses.
void NetworkCheck::CheckUses() {
  const std::vector<Link> read = LinksOfOperations(data_);
  const std::vector<Link> listed = LinksOfValues(data_);
  for (const auto& [user, slot, id] : Difference(read, listed)) {
    const Operation& operation = *data_.operations[user];
    Structure(About(OperationId{user}),
              slot == kBarrierSlot ? PlaceOf(operation)
                                   : PlaceOfInput(operation, slot),
              fmt::format("reads {}, which does not list {} among its uses",
                          TitleOf(data_, ValueId{id}), PlaceOf(operation)),
              "a link both ways");
  }
  for (const auto& [user, slot, id] : Difference(listed, read)) {
    const Operation* const operation = Find(data_, OperationId{user});
    const bool is_read = std::ranges::binary_search(read, Link{user, slot, id});
    const std::string what =
        operation == nullptr ? "which does not exist"
        : is_read            ? "more often than it reads it"
                             : "which " + SlotUseText(data_, *operation, slot);
    const NetworkValue& value = *data_.values[id];
    Structure(
        About(value), PlaceOf(data_, value),
        fmt::format("lists a use by {} {}, {}",
                    operation == nullptr ? fmt::format("operation #{}", user)
                                         : PlaceOf(*operation),
                    slot == kBarrierSlot ? "as a barrier"
                                         : fmt::format("as input {}", slot),
                    what),
        "a link both ways");
  }
}

// A missing input is about a value, but ranks before all operations like the
// list itself.
void NetworkCheck::CheckInputList() {
  std::vector<bool> is_listed(data_.values.size(), false);
  for (size_t i = 0; i < data_.inputs.size(); ++i) {
    const ValueId id = data_.inputs[i];
    const std::string place = fmt::format("{}: input {}", PlaceOf(data_), i);
    const NetworkValue* const value = Find(data_, id);
    if (value == nullptr || value->kind != NetworkValue::Kind::kInput) {
      Structure({}, place, "is " + TitleOf(data_, id), "a value of kind input");
    } else if (is_listed[Index(id)]) {
      Structure({}, place, "is " + TitleOf(data_, id) + " again", "it once");
    }
    if (value != nullptr) is_listed[Index(id)] = true;
  }
  ForEachValue(data_, [&](ValueId id, const NetworkValue& value) {
    if (value.kind != NetworkValue::Kind::kInput || is_listed[Index(id)]) {
      return;
    }
    Structure({0, "", NameOf(value)}, PlaceOf(data_, value),
              "is an input that is not in the network's list of inputs",
              "all of them there");
  });
}

void NetworkCheck::CheckOutputList() {
  for (size_t i = 0; i < data_.outputs.size(); ++i) {
    const NetworkValue* const value = Find(data_, data_.outputs[i]);
    if (value != nullptr && value->kind != NetworkValue::Kind::kBarrier) {
      continue;
    }
    // After all operations, whose faults a reader has to mend first.
    Structure({kBehindAll}, fmt::format("{}: output {}", PlaceOf(data_), i),
              "is " + TitleOf(data_, data_.outputs[i]),
              "a tensor of the network");
  }
}

// positions_ has the first place of each operation: any other place where it
// stands is a repeat.
void NetworkCheck::CheckOrder() {
  for (uint32_t i = 0; i < data_.order.size(); ++i) {
    const OperationId id = data_.order[i];
    const auto place = [&] {
      return fmt::format("{}: place {} of the order", PlaceOf(data_), i);
    };
    if (Find(data_, id) == nullptr) {
      Structure({}, place(), "is " + TitleOf(data_, id),
                "an operation of the network");
    } else if (positions_[Index(id)] != i) {
      Structure(About(id), place(), "is " + TitleOf(data_, id) + " again",
                "it once");
    }
  }
  ForEachOperation(data_, [&](OperationId id, const Operation& operation) {
    if (positions_[Index(id)] != UINT32_MAX) return;
    Structure(About(id), PlaceOf(operation), "is not in the order",
              "all operations there");
  });
}

void NetworkCheck::CheckCycles() {
  std::vector<std::vector<uint32_t>> makers(data_.operations.size());
  ForEachOperation(data_, [&](OperationId id, const Operation& operation) {
    ForEachUse(operation, [&](ValueId read, uint32_t) {
      const NetworkValue* const value = Find(data_, read);
      if (value == nullptr || Find(data_, value->producer) == nullptr) return;
      makers[Index(id)].push_back(Index(value->producer));
    });
  });
  for (const auto& cycle : FindCycles(std::move(makers), kMostCycles)) {
    std::vector<OperationId> path;
    for (const uint32_t id : cycle) {
      path.push_back(OperationId{id});
      is_in_cycle_[id] = true;
    }
    path.push_back(path.front());
    Structure(About(path.front()), PlaceOf(*Find(data_, path.front())),
              "depends on itself: " + PathText(data_, path), "no cycle");
  }
}

// Two operations on cycles do not count: no order would be right for them, and
// CheckCycles() reports the cycle.
bool NetworkCheck::RunsBefore(OperationId id, OperationId maker) const {
  if (Find(data_, maker) == nullptr) return false;
  const uint32_t position = positions_[Index(maker)];
  if (position == UINT32_MAX || position < positions_[Index(id)]) return false;
  return !is_in_cycle_[Index(id)] || !is_in_cycle_[Index(maker)];
}

// An operation outside the order has no position, which CheckOrder() has said
// already.
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
    Unreached({kBehindAll}, PlaceOf(data_), "has no outputs");
    return;
  }
  // Backwards from the outputs: the order is valid, so one pass is enough.
  std::vector<bool> is_needed(data_.values.size(), false);
  for (const ValueId id : data_.outputs) is_needed[Index(id)] = true;
  for (size_t i = data_.order.size(); i-- > 0;) {
    const Operation& operation = *Find(data_, data_.order[i]);
    if (is_needed[Index(operation.barrier)] ||
        IsAnyMarked(operation.outputs, is_needed)) {
      ForEachUse(operation,
                 [&](ValueId id, uint32_t) { is_needed[Index(id)] = true; });
      continue;
    }
    Unreached(About(data_.order[i]), PlaceOf(operation),
              "no output of the network depends on it",
              "RemoveUnused takes it away");
  }
  // A body has the inputs and outputs that its operation gives it.
  if (body_rank_.has_value()) return;
  ForEachValue(data_, [&](ValueId id, const NetworkValue& value) {
    if (value.producer != kNoOperation || is_needed[Index(id)]) return;
    Unreached(About(value), PlaceOf(data_, value),
              "no output of the network depends on it");
  });
  CheckOutputsDepend();
}

// Forward from the inputs. An output that depends on constants alone may be
// meant so, or be what a broken edit has left.
void NetworkCheck::CheckOutputsDepend() {
  if (data_.inputs.empty()) return;
  std::vector<bool> depends(data_.values.size(), false);
  for (const ValueId id : data_.inputs) depends[Index(id)] = true;
  for (const OperationId id : data_.order) {
    const Operation& operation = *Find(data_, id);
    const bool any = IsAnyMarked(operation.inputs, depends);
    for (const ValueId output : operation.outputs) {
      if (output != kNoValue) depends[Index(output)] = any;
    }
  }
  for (size_t i = 0; i < data_.outputs.size(); ++i) {
    const ValueId id = data_.outputs[i];
    if (depends[Index(id)]) continue;
    Unreached({kBehindAll}, fmt::format("{}: output {}", PlaceOf(data_), i),
              "is " + TitleOf(data_, id) +
                  ", which depends on no input of the network");
  }
}

}  // namespace nodewise
