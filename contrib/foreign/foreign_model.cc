#include "contrib/foreign/foreign_model.h"

#include <set>
#include <utility>

#include "fmt/format.h"
#include "nodewise/foreign/foreign_runner.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

std::vector<UserModel::Value> ValuesOf(absl::Span<const AskedTensor> asked) {
  std::vector<UserModel::Value> values;
  for (const AskedTensor& each : asked) {
    values.push_back({each.name, each.type});
  }
  return values;
}

}  // namespace

std::vector<std::string> ObservableValues(const Network& network) {
  const std::set<ValueId> outputs(network.outputs().begin(),
                                  network.outputs().end());
  std::vector<std::string> names;
  for (const OperationId operation : network.order()) {
    for (const ValueId id : network.operation(operation).outputs) {
      if (id == kNoValue || outputs.contains(id)) continue;
      const NetworkValue& value = network.value(id);
      // A model cannot have an output of a type that is not known. A value
      // without readers is often an optional output that runtimes leave
      // unfilled.
      if (value.type.has_dtype() && !value.uses.empty()) {
        names.push_back(value.name);
      }
    }
  }
  return names;
}

absl::StatusOr<ForeignModel> ForeignModel::Create(
    const Network& network, const UserModel* file,
    const std::vector<TensorPatch>& patches) {
  ForeignModel model(network, file);
  for (const TensorPatch& patch : patches) {
    NODEWISE_RETURN_IF_ERROR(At(patch.where, model.Apply(patch)));
  }
  // A value inside a function cannot be replaced from outside.
  for (const UserModel::Value& value : model.given_) {
    if (file != nullptr && !file->Makes(value.name)) model.file_ = nullptr;
  }
  return model;
}

absl::Status ForeignModel::Apply(const TensorPatch& patch) {
  NODEWISE_ASSIGN_OR_RETURN(const ValueId id, network_.FindValue(patch.entry));
  const NetworkValue value = network_.value(id);
  if (FindPatched(patch.entry) != nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("{}: value {}: is given twice, expected once", patch.from,
                    patch.entry));
  }
  if (value.kind == NetworkValue::Kind::kConstant) {
    return absl::InvalidArgumentError(fmt::format(
        "value {}: is a constant, expected an input or what an operation makes",
        value.name));
  }
  const TensorType type = TensorType::Of(*patch.tensor);
  if (!AreCompatible(type, value.type)) {
    return absl::InvalidArgumentError(
        fmt::format("value {}: is {}, expected {}", value.name, ToString(type),
                    ToString(value.type)));
  }
  patched_.push_back({value.name, patch.tensor});
  if (value.kind == NetworkValue::Kind::kInput) return absl::OkStatus();
  given_.push_back({value.name, type});
  std::string free = value.name + "_before";
  while (network_.HasValue(free)) free += '_';
  NODEWISE_RETURN_IF_ERROR(network_.Rename(id, std::move(free)));
  NODEWISE_ASSIGN_OR_RETURN(const ValueId input,
                            network_.AddInput(value.name, type));
  const ValueId from[] = {id};
  const ValueId to[] = {input};
  return network_.ReplaceUses(from, to);
}

const NDArray* ForeignModel::FindPatched(const std::string& value) const {
  for (const NamedTensor& patched : patched_) {
    if (patched.name == value) return &patched.tensor;
  }
  return nullptr;
}

std::vector<NamedTensor> ForeignModel::InputsOf(
    absl::Span<const NamedTensor> given) const {
  std::vector<NamedTensor> inputs;
  for (const ValueId id : network_.inputs()) {
    const std::string& name = network_.value(id).name;
    const NDArray* tensor = FindPatched(name);
    for (const NamedTensor& input : given) {
      if (tensor == nullptr && input.name == name) tensor = &input.tensor;
    }
    if (tensor != nullptr) inputs.push_back({name, *tensor});
  }
  return inputs;
}

std::vector<AskedTensor> ForeignModel::Ask(
    absl::Span<const std::string> values) const {
  std::vector<AskedTensor> asked;
  std::set<std::string> taken;
  for (const std::string& name : values) {
    const auto id = network_.FindValue(name);
    if (!id.ok() || !taken.insert(name).second) continue;
    const NetworkValue& value = network_.value(*id);
    const bool is_there = file_ == nullptr || file_->Makes(name);
    if (value.kind != NetworkValue::Kind::kInput && is_there) {
      asked.push_back({name, value.type});
    }
  }
  return asked;
}

absl::Status ForeignModel::SetOutputs(absl::Span<const AskedTensor> outputs,
                                      Network* network) {
  std::vector<ValueId> ids;
  for (const AskedTensor& output : outputs) {
    NODEWISE_ASSIGN_OR_RETURN(const ValueId id,
                              network->FindValue(output.name));
    ids.push_back(id);
  }
  return network->SetOutputs(std::move(ids));
}

absl::StatusOr<std::string> ForeignModel::Write(
    absl::Span<const AskedTensor> outputs) {
  if (file_ != nullptr) return file_->With(ValuesOf(outputs), given_);
  NODEWISE_RETURN_IF_ERROR(SetOutputs(outputs, &network_));
  return ExportOnnx(network_);
}

absl::StatusOr<std::string> ForeignModel::WriteEndingAt(
    absl::Span<const AskedTensor> outputs) const {
  if (file_ != nullptr) return file_->EndingAt(ValuesOf(outputs), given_);
  Network part = network_;
  NODEWISE_RETURN_IF_ERROR(SetOutputs(outputs, &part));
  part.RemoveUnused();
  return ExportOnnx(part);
}

}  // namespace nodewise
