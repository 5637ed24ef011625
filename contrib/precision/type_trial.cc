#include "contrib/precision/type_trial.h"

#include "fmt/format.h"
#include "nodewise/ir/network.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

absl::Status CheckOutputs(DLDataType type, const Network& network,
                          const Operation& operation,
                          absl::Span<const OutputInfo> infos) {
  bool follows = false;
  bool has_floats = false;
  for (size_t i = 0; i < operation.outputs.size(); ++i) {
    if (operation.outputs[i] == kNoValue) continue;
    const TensorType& before = network.value(operation.outputs[i]).type;
    const TensorType& after = infos[i].type;
    if (before.shape != after.shape) {
      return absl::FailedPreconditionError(
          fmt::format("output {} would be of shape {}, expected {}", i,
                      ToString(after), ToString(before)));
    }
    if (!(before.dtype == kFloat32)) continue;
    has_floats = true;
    follows |= after.dtype == type;
    if (after.dtype == type || after.dtype == kFloat32) continue;
    return absl::FailedPreconditionError(
        fmt::format("output {} would be of type {}", i, ToString(after.dtype)));
  }
  if (follows || !has_floats) return absl::OkStatus();
  return absl::FailedPreconditionError("its results would stay float32");
}

absl::Status Try(DLDataType type, const std::vector<bool>& chosen,
                 const Network& network, const Operation& operation) {
  std::vector<InputInfo> infos = network.InputsOf(operation.id);
  for (size_t i = 0; i < infos.size(); ++i) {
    if (!chosen[i]) continue;
    infos[i].type.dtype = type;
    infos[i].constant = nullptr;  // It is still one of float32.
  }
  const Inputs inputs(infos);
  const OpAttrs& attrs = operation.attrs;
  const OperatorDef& def = operation.def();
  if (def.check != nullptr) {
    NODEWISE_RETURN_IF_ERROR(def.check(attrs.get(), inputs));
  }
  NODEWISE_ASSIGN_OR_RETURN(
      const OutputInfos outputs,
      def.infer(attrs.get(), inputs, operation.outputs.size()));
  NODEWISE_RETURN_IF_ERROR(CheckOutputs(type, network, operation, outputs));
  if (network.target() == nullptr) return absl::OkStatus();
  const Support support = SupportOf(*network.target(), attrs, inputs, outputs);
  if (support.can) return absl::OkStatus();
  return absl::FailedPreconditionError(support.why_not);
}

}  // namespace

ValueId InputOf(const Operation& operation, size_t i) {
  return i < operation.inputs.size() ? operation.inputs[i] : kNoValue;
}

bool IsFloatInput(const Network& network, const Operation& operation,
                  size_t i) {
  const ValueId id = InputOf(operation, i);
  return id != kNoValue && network.value(id).type.dtype == kFloat32;
}

absl::StatusOr<std::vector<bool>> InputsThatMayBe(DLDataType type,
                                                  const Network& network,
                                                  const Operation& operation) {
  const size_t count = operation.inputs.size();
  std::vector<bool> all(count);
  size_t floats = 0;
  for (size_t i = 0; i < count; ++i) {
    all[i] = IsFloatInput(network, operation, i);
    floats += all[i] ? 1 : 0;
  }
  absl::Status why_not = Try(type, all, network, operation);
  if (why_not.ok()) return all;
  for (size_t i = count; i-- > 0 && floats > 1;) {
    if (!all[i]) continue;
    std::vector<bool> chosen = all;
    chosen[i] = false;
    if (Try(type, chosen, network, operation).ok()) return chosen;
  }
  std::vector<bool> first(count);
  if (count > 0) first[0] = all[0];
  if (floats > 2 && all[0] && Try(type, first, network, operation).ok()) {
    return first;
  }
  return why_not;
}

}  // namespace nodewise
