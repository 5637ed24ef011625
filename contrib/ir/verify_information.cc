#include <climits>
#include <unordered_map>

#include "contrib/ir/inference.h"
#include "contrib/ir/network_check.h"
#include "contrib/ir/places.h"
#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

std::string ElementsText(const std::optional<Shape>& elements) {
  return elements.has_value() ? "elements " + ToString(*elements)
                              : "no known elements";
}

}  // namespace

void NetworkCheck::CheckInformation() {
  CheckOpsets();
  CheckNames();
  for (uint32_t id = 0; id < data_.values.size(); ++id) {
    if (data_.values[id].has_value()) CheckValue(ValueId{id});
  }
  for (uint32_t id = 0; id < data_.operations.size(); ++id) {
    if (!data_.operations[id].has_value()) continue;
    is_askable_[id] = CheckOperator(OperationId{id});
  }
}

void NetworkCheck::CheckInference(
    const std::unordered_set<const Network*>& damaged) {
  for (uint32_t id = 0; id < data_.operations.size(); ++id) {
    if (!is_askable_[id]) continue;
    const Operation& operation = *data_.operations[id];
    if (!HasBodyAmong(operation.attrs, damaged) && HasSaneInputs(operation)) {
      CheckInferred(OperationId{id});
    }
  }
}

void NetworkCheck::CheckOpsets() {
  std::unordered_map<std::string_view, int> versions;
  for (const auto& [domain, version] : data_.opsets) {
    const std::string shown =
        fmt::format("opset {} of domain \"{}\"", version, domain);
    const int newest = NewestOpsetOf(domain);
    if (domain == "ai.onnx") {
      Information({}, NetworkPlace(), "has " + shown, "it as domain \"\"");
    }
    if (version < 1 || version > newest) {
      Information(
          {}, NetworkPlace(), "has " + shown,
          newest == INT_MAX ? "1 or more" : fmt::format("1 to {}", newest));
    }
    const auto [first, is_new] = versions.emplace(domain, version);
    if (is_new) continue;
    Information({}, NetworkPlace(),
                fmt::format("has {}, and {} as well", shown, first->second),
                "one opset of a domain");
  }
}

void NetworkCheck::CheckNames() {
  std::unordered_map<std::string_view, uint32_t> values;
  for (uint32_t id = 0; id < data_.values.size(); ++id) {
    const auto& value = data_.values[id];
    if (!value.has_value() || value->kind == NetworkValue::Kind::kBarrier) {
      continue;
    }
    if (value->name.empty()) {
      Information(About(*value), fmt::format("value %{}", id), "has no name",
                  "one");
      continue;
    }
    const auto [first, is_new] = values.emplace(value->name, id);
    if (is_new) continue;
    Information(
        About(*value), PlaceOf(data_, *value),
        fmt::format("values %{} and %{} have this name", first->second, id),
        "one value of a name");
  }
  std::unordered_map<std::string_view, uint32_t> operations;
  for (uint32_t id = 0; id < data_.operations.size(); ++id) {
    const auto& operation = data_.operations[id];
    if (!operation.has_value()) continue;
    if (operation->name.empty()) {
      Information(About(OperationId{id}), fmt::format("operation #{}", id),
                  "has no name", "one");
      continue;
    }
    const auto [first, is_new] = operations.emplace(operation->name, id);
    if (is_new) continue;
    Information(
        About(OperationId{id}), PlaceOf(*operation),
        fmt::format("operations #{} and #{} have this name", first->second, id),
        "one operation of a name");
  }
}

void NetworkCheck::CheckValue(ValueId id) {
  const NetworkValue& value = *data_.values[Index(id)];
  const std::string place = PlaceOf(data_, value);
  if (value.kind == NetworkValue::Kind::kBarrier) {
    if (value.name.empty() && value.type == TensorType() &&
        !value.data.defined() && !value.elements.has_value()) {
      return;
    }
    Information(About(value), place, "is a barrier with a name, a type or data",
                "none of these");
    return;
  }
  const absl::Status status = CheckType(value.type);
  if (!status.ok()) {
    Information(About(value), place, std::string(MessageOf(status)));
    return;
  }
  is_sane_[Index(id)] = true;
  if (value.kind == NetworkValue::Kind::kConstant) {
    CheckConstant(id);
  } else if (value.data.defined()) {
    Information(About(value), place, "has data, and is not a constant",
                "data of constants only");
  }
  if (value.kind == NetworkValue::Kind::kInput && value.elements.has_value()) {
    Information(About(value), place,
                "is an input with " + ElementsText(value.elements),
                "none before the network runs");
    is_sane_[Index(id)] = false;
  }
}

void NetworkCheck::CheckConstant(ValueId id) {
  const NetworkValue& value = *data_.values[Index(id)];
  const std::string place = PlaceOf(data_, value);
  const auto add = [&](std::string found, std::string expected) {
    Information(About(value), place, std::move(found), std::move(expected));
    is_sane_[Index(id)] = false;
  };
  if (!value.data.defined()) return add("is a constant without data", "data");
  const TensorType type = TensorType::Of(*value.data);
  const absl::Status status = CheckType(type);
  if (!status.ok()) return add("has data that cannot be", ToString(type));
  if (DeviceTypeOf(value.data.device()) != kDLCPU || !IsCompact(*value.data)) {
    return add("has data that is on a device or not compact",
               "compact data in host memory");
  }
  if (!(type == value.type)) {
    return add("is of type " + ToString(value.type),
               ToString(type) + ", which its data is");
  }
  const std::optional<Shape> elements = ElementsOf(value.data);
  if (value.elements != elements) {
    add("has " + ElementsText(value.elements),
        ElementsText(elements) + ", as in its data");
  }
}

bool NetworkCheck::CheckOperator(OperationId id) {
  const Operation& operation = *data_.operations[Index(id)];
  const std::string place = PlaceOf(operation);
  if (!operation.attrs.defined()) {
    Information(About(id), place, "has no operator", "one");
    return false;
  }
  const OperatorDef& def = operation.def();
  const auto opset_of = [this](std::string_view wanted) {
    for (const auto& [domain, version] : data_.opsets) {
      if (domain == wanted) return version;
    }
    return 0;
  };
  const int opset = opset_of(def.domain);
  if (opset > 0) {
    const absl::Status holds = CheckHoldsIn(operation, opset);
    if (!holds.ok()) Information(id, holds);
  } else {
    Information(
        About(id), place,
        fmt::format("the network has no opset of domain \"{}\"", def.domain),
        fmt::format("one for {}", def.name));
  }
  const absl::Status complete = CheckRequired(operation.attrs);
  if (!complete.ok()) Information(id, At(place, complete));
  const absl::Status arity = CheckArity(operation);
  if (!arity.ok()) Information(id, arity);
  bool has_bodies = true;
  size_t captures = 0;
  for (const NamedBody& body : BodiesOf(operation.attrs)) {
    captures += body.graph.captures;
    if (body.graph.body != nullptr) continue;
    Information(About(id), place,
                fmt::format("attribute {} has no graph", body.attribute),
                "one");
    has_bodies = false;
  }
  if (has_bodies && !BodiesOf(operation.attrs).empty()) {
    const absl::Status holds = CheckBodiesHold(operation, opset_of);
    if (!holds.ok()) Information(id, holds);
  }
  if (captures > operation.inputs.size()) {
    Information(About(id), place,
                fmt::format("its bodies capture {} values", captures),
                fmt::format("at most its {} inputs", operation.inputs.size()));
    return false;
  }
  return arity.ok() && has_bodies;
}

bool NetworkCheck::HasSaneInputs(const Operation& operation) const {
  for (const ValueId input : operation.inputs) {
    if (input == kNoValue) continue;
    if (Find(data_, input) == nullptr || !is_sane_[Index(input)]) return false;
  }
  return true;
}

void NetworkCheck::CheckInferred(OperationId id) {
  const Operation& operation = *data_.operations[Index(id)];
  const absl::Status status = CheckRestrictions(data_, operation);
  if (!status.ok()) return Information(id, status);
  const auto infos = InferOutputs(data_, operation);
  if (!infos.ok()) return Information(id, infos.status());
  for (size_t i = 0; i < infos->size(); ++i) {
    const NetworkValue* const value = Find(data_, operation.outputs[i]);
    if (value == nullptr || value->kind != NetworkValue::Kind::kOutput) {
      continue;
    }
    const OutputInfo& info = (*infos)[i];
    if (!(value->type == info.type)) {
      Information(About(id), PlaceOfOutput(operation, i),
                  fmt::format("{} is of type {}", PlaceOf(data_, *value),
                              ToString(value->type)),
                  ToString(info.type) + ", as inferred");
    } else if (value->elements != info.elements) {
      Information(About(id), PlaceOfOutput(operation, i),
                  fmt::format("{} has {}", PlaceOf(data_, *value),
                              ElementsText(value->elements)),
                  ElementsText(info.elements) + ", as inferred");
    }
  }
}

void NetworkCheck::Information(OperationId id, const absl::Status& status) {
  const std::string place = PlaceOf(*data_.operations[Index(id)]);
  std::string_view found = MessageOf(status);
  if (found.substr(0, place.size() + 2) == place + ": ") {
    found.remove_prefix(place.size() + 2);
  }
  Information(About(id), place, std::string(found));
}

}  // namespace nodewise
