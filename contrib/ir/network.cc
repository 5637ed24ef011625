#include <algorithm>

#include "contrib/ir/inference.h"
#include "contrib/ir/network_editor.h"
#include "contrib/ir/places.h"
#include "fmt/format.h"
#include "nodewise/ir/verifier.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

template <typename Names>
absl::Status NotFound(const char* what, std::string_view name,
                      const Names& names) {
  std::vector<std::string> candidates;
  candidates.reserve(names.size());
  for (const auto& [candidate, id] : names) candidates.push_back(candidate);
  std::sort(candidates.begin(), candidates.end());
  return absl::NotFoundError(
      fmt::format("{} {}: the network has none of that name{}", what,
                  Shortened(name), DidYouMean(name, candidates)));
}

template <typename Names>
absl::Status CheckName(const char* what, const std::string& name,
                       const Names& names) {
  if (name.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: has no name, expected one", what));
  }
  if (names.find(name) == names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{} {}: the name is taken, expected another", what, Shortened(name)));
}

}  // namespace

SharedNetwork ShareNetwork(Network network) {
  return SharedNetwork(std::make_shared<const Network>(std::move(network)));
}

absl::StatusOr<NDArray> ConstantData(NDArray data) {
  const bool is_on_host = DeviceTypeOf(data.device()) == kDLCPU;
  const bool is_ours = data.is_read_only() || data.is_held_once();
  if (!is_on_host || !is_ours || !IsCompact(*data)) {
    NODEWISE_ASSIGN_OR_RETURN(data, data.CopyToHost());
  }
  data.MakeReadOnly();
  return data;
}

Network::Network(std::string name) : version_(NetworkEditor::NextVersion()) {
  data_.name = std::move(name);
}

absl::StatusOr<Network> Network::FromData(NetworkData data) {
  const auto findings = Verify(data);
  NODEWISE_RETURN_IF_ERROR(ToStatus(findings));
  for (auto& value : data.values) {
    if (!value.has_value() || value->kind != NetworkValue::Kind::kConstant) {
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(value->data,
                              ConstantData(std::move(value->data)));
  }
  Network network;
  network.data_ = std::move(data);
  NetworkEditor::MakeIndex(&network);
  return network;
}

Network::Network(Network&& other) noexcept : Network() {
  *this = std::move(other);
}

Network& Network::operator=(Network&& other) noexcept {
  if (this == &other) return *this;
  data_ = std::exchange(other.data_, NetworkData());
  value_names_ = std::exchange(other.value_names_, {});
  operation_names_ = std::exchange(other.operation_names_, {});
  positions_ = std::exchange(other.positions_, {});
  target_ = std::exchange(other.target_, nullptr);
  keeps_elements_ = std::exchange(other.keeps_elements_, true);
  version_ = std::exchange(other.version_, NetworkEditor::NextVersion());
  return *this;
}

void Network::NoSuch(ValueId id, CodePlace caller) const {
  CheckFailed(caller.file, caller.line,
              std::string(FindValue(id).status().message()).c_str());
}

void Network::NoSuch(OperationId id, CodePlace caller) const {
  CheckFailed(caller.file, caller.line,
              std::string(FindOperation(id).status().message()).c_str());
}

absl::StatusOr<const NetworkValue*> Network::FindValue(ValueId id) const {
  const NetworkValue* const value = Find(data_, id);
  if (value != nullptr) return value;
  return absl::InvalidArgumentError(
      fmt::format("network {}: {}, expected one of its values",
                  Shortened(data_.name), TitleOf(data_, id)));
}

absl::StatusOr<const Operation*> Network::FindOperation(OperationId id) const {
  const Operation* const operation = Find(data_, id);
  if (operation != nullptr) return operation;
  return absl::InvalidArgumentError(
      fmt::format("network {}: {}, expected one of its operations",
                  Shortened(data_.name), TitleOf(data_, id)));
}

bool Network::Has(ValueId id) const { return Find(data_, id) != nullptr; }
bool Network::Has(OperationId id) const { return Find(data_, id) != nullptr; }

int Network::opset(std::string_view domain) const {
  for (const auto& [name, version] : data_.opsets) {
    if (name == domain) return version;
  }
  return 0;
}

absl::StatusOr<ValueId> Network::FindValue(std::string_view name) const {
  const auto found = value_names_.find(std::string(name));
  if (found != value_names_.end()) return found->second;
  return NotFound("value", name, value_names_);
}

absl::StatusOr<OperationId> Network::FindOperation(
    std::string_view name) const {
  const auto found = operation_names_.find(std::string(name));
  if (found != operation_names_.end()) return found->second;
  return NotFound("operation", name, operation_names_);
}

bool Network::HasValue(std::string_view name) const {
  return value_names_.contains(std::string(name));
}

bool Network::HasOperation(std::string_view name) const {
  return operation_names_.contains(std::string(name));
}

std::vector<InputInfo> Network::InputsOf(OperationId id,
                                         CodePlace caller) const {
  return InputInfosOf(data_, operation(id, caller).inputs);
}

absl::StatusOr<std::vector<InputInfo>> Network::FindInputsOf(
    OperationId id) const {
  NODEWISE_ASSIGN_OR_RETURN(const Operation* const operation,
                            FindOperation(id));
  return InputInfosOf(data_, operation->inputs);
}

const OperatorDef* Network::RowOf(const OpSet& ops, const void* type) const {
  const OperatorDef* const newest = ops.FindType(type);
  if (newest == nullptr) return nullptr;
  const OperatorDef* const held =
      ops.Find(newest->domain, newest->name, opset(newest->domain));
  return held != nullptr && held->type == type ? held : newest;
}

absl::Status Network::SetOpset(std::string_view domain, int version) {
  const std::string where =
      fmt::format("opset {} of domain \"{}\"", version, Shortened(domain));
  const int newest = NewestOpsetOf(domain);
  if (version < 1 || version > newest) {
    return absl::InvalidArgumentError(
        newest == INT_MAX ? where + ": expected 1 or more"
                          : fmt::format("{}: expected 1 to {}", where, newest));
  }
  if (domain == "ai.onnx") {
    return absl::InvalidArgumentError(where + ": expected it as domain \"\"");
  }
  const auto opset_of = [&](std::string_view name) {
    return name == domain ? version : opset(name);
  };
  for (const OperationId id : data_.order) {
    const Operation& each = operation(id);
    const absl::Status holds = CheckHoldsIn(each, opset_of(each.def().domain));
    NODEWISE_RETURN_IF_ERROR(At(where, holds));
    NODEWISE_RETURN_IF_ERROR(At(where, CheckBodiesHold(each, opset_of)));
  }
  NetworkEditor edit(this);
  auto& opsets = data_.opsets;
  const auto place =
      std::find_if(opsets.begin(), opsets.end(),
                   [&](const auto& opset) { return opset.first == domain; });
  if (place != opsets.end()) {
    place->second = version;
  } else {
    opsets.emplace_back(domain, version);
  }
  edit.Keep();
  return absl::OkStatus();
}

absl::StatusOr<ValueId> Network::AddInput(std::string name, TensorType type) {
  NODEWISE_RETURN_IF_ERROR(CheckName("input", name, value_names_));
  NODEWISE_RETURN_IF_ERROR(
      At(fmt::format("input {}", Shortened(name)), CheckType(type)));
  NetworkValue value;
  value.name = std::move(name);
  value.type = std::move(type);
  return NetworkEditor::AddValue(this, std::move(value));
}

absl::StatusOr<ValueId> Network::AddConstant(
    std::string name, NDArray data, std::vector<std::string> folded_from) {
  if (name.empty()) {
    name = FreeName(
        fmt::format("constant_{}", data_.values.size()),
        [&](const std::string& n) { return value_names_.count(n) > 0; });
  }
  NODEWISE_RETURN_IF_ERROR(CheckName("constant", name, value_names_));
  const std::string place = fmt::format("constant {}", Shortened(name));
  if (!data.defined()) {
    return absl::InvalidArgumentError(place + ": has no data");
  }
  NetworkValue value;
  value.kind = NetworkValue::Kind::kConstant;
  value.type = TensorType::Of(*data);
  NODEWISE_RETURN_IF_ERROR(At(place, CheckType(value.type)));
  auto host = ConstantData(std::move(data));
  if (!host.ok()) return At(place, host.status());
  value.name = std::move(name);
  value.elements = ElementsOf(*host);
  value.data = *std::move(host);
  value.folded_from = std::move(folded_from);
  return NetworkEditor::AddValue(this, std::move(value));
}

absl::Status Network::SetOutputs(std::vector<ValueId> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(CheckTensor(
        *this, outputs[i],
        fmt::format("network {}: output {}", Shortened(data_.name), i)));
  }
  NetworkEditor edit(this);
  data_.outputs = std::move(outputs);
  edit.Keep();
  return absl::OkStatus();
}

absl::Status Network::Rename(ValueId id, std::string name) {
  NODEWISE_RETURN_IF_ERROR(CheckTensor(*this, id, "value to rename"));
  NetworkValue& value = *data_.values[Index(id)];
  if (value.name == name) return absl::OkStatus();
  NODEWISE_RETURN_IF_ERROR(CheckName("value", name, value_names_));
  NetworkEditor edit(this);
  value_names_.erase(value.name);
  value.name = std::move(name);
  value_names_.emplace(value.name, id);
  edit.Keep();
  return absl::OkStatus();
}

absl::Status Network::Rename(OperationId id, std::string name) {
  NODEWISE_RETURN_IF_ERROR(CheckExists(*this, id));
  Operation& operation = *data_.operations[Index(id)];
  if (operation.name == name) return absl::OkStatus();
  NODEWISE_RETURN_IF_ERROR(CheckName("operation", name, operation_names_));
  NetworkEditor edit(this);
  operation_names_.erase(operation.name);
  operation.name = std::move(name);
  operation_names_.emplace(operation.name, id);
  edit.Keep();
  return absl::OkStatus();
}

}  // namespace nodewise
