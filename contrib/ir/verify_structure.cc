#include <algorithm>
#include <iterator>
#include <tuple>

#include "contrib/ir/network_check.h"
#include "contrib/ir/places.h"
#include "fmt/format.h"

namespace nodewise {
namespace {

// A use from either end: by which operation, in which slot, of which value.
using Link = std::tuple<uint32_t, uint32_t, uint32_t>;

std::string SlotText(uint32_t slot) {
  return slot == kBarrierSlot ? "as a barrier"
                              : fmt::format("as input {}", slot);
}

// What an existing operation really reads in a slot.
std::string WhatItReads(const NetworkData& data, const Operation& operation,
                        uint32_t slot) {
  if (slot == kBarrierSlot) return "does not wait for it";
  if (slot >= operation.inputs.size()) {
    return fmt::format("has {} inputs", operation.inputs.size());
  }
  return "reads " + TitleOf(data, operation.inputs[slot]) + " there";
}

std::vector<Link> LinksOfOperations(const NetworkData& data) {
  std::vector<Link> links;
  for (uint32_t id = 0; id < data.operations.size(); ++id) {
    if (!data.operations[id].has_value()) continue;
    const Operation& operation = *data.operations[id];
    for (uint32_t slot = 0; slot < operation.inputs.size(); ++slot) {
      if (Find(data, operation.inputs[slot]) == nullptr) continue;
      links.emplace_back(id, slot, Index(operation.inputs[slot]));
    }
    for (const ValueId barrier : operation.after) {
      if (Find(data, barrier) == nullptr) continue;
      links.emplace_back(id, kBarrierSlot, Index(barrier));
    }
  }
  std::sort(links.begin(), links.end());
  // An operation that waits twice for one barrier is a fault of its own.
  links.erase(std::unique(links.begin(), links.end()), links.end());
  return links;
}

std::vector<Link> LinksOfValues(const NetworkData& data) {
  std::vector<Link> links;
  for (uint32_t id = 0; id < data.values.size(); ++id) {
    if (!data.values[id].has_value()) continue;
    for (const Use& use : data.values[id]->uses) {
      links.emplace_back(Index(use.user), use.slot, id);
    }
  }
  std::sort(links.begin(), links.end());
  return links;
}

std::vector<Link> Difference(const std::vector<Link>& a,
                             const std::vector<Link>& b) {
  std::vector<Link> only_in_a;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(),
                      std::back_inserter(only_in_a));
  return only_in_a;
}

}  // namespace

void NetworkCheck::CheckStructure() {
  CheckNumbers();
  for (uint32_t id = 0; id < data_.operations.size(); ++id) {
    if (!data_.operations[id].has_value()) continue;
    CheckLinksOf(OperationId{id});
    CheckBarriersOf(OperationId{id});
  }
  for (uint32_t id = 0; id < data_.values.size(); ++id) {
    if (data_.values[id].has_value()) CheckProducerOf(ValueId{id});
  }
  CheckUses();
  CheckInputList();
  CheckOutputList();
  CheckOrder();
  CheckCycles();
  CheckRunsBefore();
  // Dependences can only be followed along valid links.
  if (errors_ == 0) CheckReachability();
}

void NetworkCheck::CheckNumbers() {
  for (uint32_t id = 0; id < data_.values.size(); ++id) {
    const auto& value = data_.values[id];
    if (!value.has_value() || Index(value->id) == id) continue;
    Structure(About(*value), fmt::format("value %{}", id),
              fmt::format("says that its number is {}", Index(value->id)),
              fmt::format("{}", id));
  }
  for (uint32_t id = 0; id < data_.operations.size(); ++id) {
    const auto& operation = data_.operations[id];
    if (!operation.has_value() || Index(operation->id) == id) continue;
    Structure(About(OperationId{id}), fmt::format("operation #{}", id),
              fmt::format("says that its number is {}", Index(operation->id)),
              fmt::format("{}", id));
  }
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

void NetworkCheck::CheckOutputLink(OperationId id, uint32_t slot) {
  const Operation& operation = *Find(data_, id);
  const NetworkValue* const value = Find(data_, operation.outputs[slot]);
  const std::string shown = TitleOf(data_, operation.outputs[slot]);
  std::string found;
  if (value == nullptr) {
    found = "is " + shown;
  } else if (value->kind != NetworkValue::Kind::kOutput) {
    found = "is " + shown + ", which is not made by an operation";
  } else if (value->producer != id) {
    found = "is " + shown + ", which says that it is made by " +
            TitleOf(data_, value->producer);
  } else if (value->slot != slot) {
    found = fmt::format("is {}, which says that it is output {}", shown,
                        value->slot);
  } else {
    return;
  }
  Structure(About(id), PlaceOfOutput(operation, slot), std::move(found),
            "a value that is made here");
}

void NetworkCheck::CheckBarriersOf(OperationId id) {
  const Operation& operation = *Find(data_, id);
  const NetworkValue* const own = Find(data_, operation.barrier);
  if (own == nullptr || own->kind != NetworkValue::Kind::kBarrier ||
      own->producer != id) {
    Structure(About(id), PlaceOf(operation),
              "has " + TitleOf(data_, operation.barrier) + " as its barrier",
              "a barrier that it makes");
  }
  std::vector<ValueId> seen = operation.after;
  std::sort(seen.begin(), seen.end());
  for (size_t i = 0; i < seen.size(); ++i) {
    const NetworkValue* const barrier = Find(data_, seen[i]);
    if (barrier == nullptr || barrier->kind != NetworkValue::Kind::kBarrier) {
      Structure(About(id), PlaceOf(operation),
                "waits for " + TitleOf(data_, seen[i]), "a barrier");
    } else if (i > 0 && seen[i] == seen[i - 1]) {
      Structure(About(id), PlaceOf(operation),
                "waits for " + TitleOf(data_, seen[i]) + " again", "once");
    }
  }
}

void NetworkCheck::CheckProducerOf(ValueId id) {
  const NetworkValue& value = *Find(data_, id);
  const Operation* const producer = Find(data_, value.producer);
  const std::string place = PlaceOf(data_, value);
  const std::string shown = TitleOf(data_, value.producer);
  if (value.kind == NetworkValue::Kind::kOutput) {
    if (producer != nullptr && value.slot < producer->outputs.size() &&
        producer->outputs[value.slot] == id) {
      return;
    }
    std::string there = "which does not have it";
    if (producer != nullptr && value.slot < producer->outputs.size()) {
      there = "which makes " + TitleOf(data_, producer->outputs[value.slot]) +
              " there";
    }
    Structure(About(value), place,
              fmt::format("is said to be output {} of {}, {}", value.slot,
                          shown, there),
              "an operation that makes it");
  } else if (value.kind == NetworkValue::Kind::kBarrier) {
    if (producer != nullptr && producer->barrier == id) return;
    Structure(About(value), place,
              "is said to be the barrier of " + shown + ", which has another",
              "an operation whose barrier it is");
  } else if (value.producer != kNoOperation) {
    Structure(About(value), place,
              "is an input or a constant, and made by " + shown,
              "no operation that makes it");
  }
}

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
    const bool is_read =
        std::binary_search(read.begin(), read.end(), Link{user, slot, id});
    const std::string what =
        operation == nullptr ? "which does not exist"
        : is_read            ? "more often than it reads it"
                             : "which " + WhatItReads(data_, *operation, slot);
    const std::string name = operation == nullptr
                                 ? fmt::format("operation #{}", user)
                                 : PlaceOf(*operation);
    const NetworkValue& value = *data_.values[id];
    Structure(
        About(value), PlaceOf(data_, value),
        fmt::format("lists a use by {} {}, {}", name, SlotText(slot), what),
        "a link both ways");
  }
}

void NetworkCheck::CheckInputList() {
  std::vector<bool> is_listed(data_.values.size(), false);
  for (size_t i = 0; i < data_.inputs.size(); ++i) {
    const ValueId id = data_.inputs[i];
    const std::string place = fmt::format("{}: input {}", NetworkPlace(), i);
    const NetworkValue* const value = Find(data_, id);
    if (value == nullptr || value->kind != NetworkValue::Kind::kInput) {
      Structure({}, place, "is " + TitleOf(data_, id), "a value of kind input");
    } else if (is_listed[Index(id)]) {
      Structure({}, place, "is " + TitleOf(data_, id) + " again", "it once");
    }
    if (value != nullptr) is_listed[Index(id)] = true;
  }
  for (uint32_t id = 0; id < data_.values.size(); ++id) {
    const NetworkValue* const value = Find(data_, ValueId{id});
    if (value == nullptr || value->kind != NetworkValue::Kind::kInput ||
        is_listed[id]) {
      continue;
    }
    Structure({0, "", NameOf(*value)}, PlaceOf(data_, *value),
              "is an input that is not in the network's list of inputs",
              "all of them there");
  }
}

void NetworkCheck::CheckOutputList() {
  for (size_t i = 0; i < data_.outputs.size(); ++i) {
    const NetworkValue* const value = Find(data_, data_.outputs[i]);
    if (value != nullptr && value->kind != NetworkValue::Kind::kBarrier) {
      continue;
    }
    // After all operations, whose faults a reader has to mend first.
    Structure({kBehindAll}, fmt::format("{}: output {}", NetworkPlace(), i),
              "is " + TitleOf(data_, data_.outputs[i]),
              "a tensor of the network");
  }
}

}  // namespace nodewise
