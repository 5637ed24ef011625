#include "contrib/interp/interpreter_plan.h"

#include <algorithm>
#include <string>

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

bool IsStatic(const TensorType& type) {
  return type.has_dtype() && type.is_static();
}

// Tries to allocate the memory of its outputs, as running it will. An output no
// larger than an input may be a view of it.
absl::Status TryMemory(const Network& network, const Operation& operation) {
  constexpr size_t kLittle = size_t{1} << 30;
  size_t most = kLittle;
  for (const ValueId id : operation.inputs) {
    if (id == kNoValue) continue;
    const TensorType& type = network.value(id).type;
    if (!IsStatic(type)) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(const size_t bytes,
                              TensorBytes(*type.sizes(), type.dtype));
    most = std::max(most, bytes);
  }
  for (const ValueId id : operation.outputs) {
    if (id == kNoValue || !IsStatic(network.value(id).type)) continue;
    const TensorType& type = network.value(id).type;
    NODEWISE_ASSIGN_OR_RETURN(const size_t bytes,
                              TensorBytes(*type.sizes(), type.dtype));
    if (bytes <= most) continue;
    NODEWISE_RETURN_IF_ERROR(
        NDArray::Empty(*type.sizes(), type.dtype, kCpu).status());
  }
  return absl::OkStatus();
}

// Otherwise a chain of operations that each double what they read would run as
// long as there is any memory, and fail only then.
absl::Status TryMemory(const Network& network) {
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    const absl::Status status = TryMemory(network, operation);
    if (status.ok()) continue;
    return At(
        fmt::format("operation {} ({})", operation.name, operation.kind()),
        status);
  }
  return absl::OkStatus();
}

}  // namespace

Interpreter::Plan::Plan(const Network& network)
    : is_read(network.data().values.size()),
      constants(network.data().values.size()),
      is_sure_(network.data().values.size()) {
  for (const auto& value : network.data().values) {
    if (!value.has_value()) continue;
    NDArray& constant = constants[Index(value->id)];
    constant = value->data;
    status.Update(MakeReadable(&constant));
    is_sure_[Index(value->id)] =
        value->kind == NetworkValue::Kind::kConstant ||
        (value->kind == NetworkValue::Kind::kInput && IsStatic(value->type));
  }
  steps.reserve(network.order().size());
  for (const OperationId id : network.order()) {
    steps.push_back(StepOf(network, network.operation(id)));
    const bool is_sure = steps.back().is_static && steps.back().is_sure;
    for (const ValueId output : network.operation(id).outputs) {
      if (output != kNoValue) is_sure_[Index(output)] = is_sure;
    }
  }
  FindLastUses(network);
  status.Update(TryMemory(network));
}

Interpreter::Plan::Step Interpreter::Plan::StepOf(
    const Network& network, const Operation& operation) const {
  Step step{&operation, true, true, {}, {}, {}};
  for (const ValueId id : operation.outputs) {
    step.wanted.push_back(id != kNoValue);
    // A type that one run found need not hold in the next.
    step.is_static &= id != kNoValue && IsStatic(network.value(id).type) &&
                      !network.value(id).found.has_value();
    if (step.is_static) step.types.push_back(&network.value(id).type);
  }
  for (const ValueId id : operation.inputs) {
    if (id == kNoValue) continue;
    const NetworkValue& value = network.value(id);
    const bool may_be_sizes = value.type.dtype.code == kDLInt;
    const bool is_constant = value.kind == NetworkValue::Kind::kConstant;
    step.is_static &= IsStatic(value.type) && (is_constant || !may_be_sizes);
    step.is_sure &= is_sure_[Index(id)];
  }
  return step;
}

void Interpreter::Plan::FindLastUses(const Network& network) {
  // The outputs are read at the end.
  for (const ValueId id : network.outputs()) is_read[Index(id)] = true;
  for (size_t i = steps.size(); i-- > 0;) {
    const std::vector<ValueId>& inputs = steps[i].operation->inputs;
    steps[i].is_last_use.resize(inputs.size());
    for (size_t k = inputs.size(); k-- > 0;) {
      if (inputs[k] == kNoValue) continue;
      steps[i].is_last_use[k] = !is_read[Index(inputs[k])];
      is_read[Index(inputs[k])] = true;
    }
  }
}

}  // namespace nodewise
