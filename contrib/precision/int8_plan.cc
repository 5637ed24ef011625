#include <algorithm>

#include "contrib/precision/constants.h"
#include "contrib/precision/precision_plan.h"
#include "contrib/precision/type_trial.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/unary.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

bool IsConstant(const Network& network, ValueId id) {
  return network.value(id).kind == NetworkValue::Kind::kConstant;
}

// Small divisors would become 0, and so would bases of negative powers.
bool ReadsFactorThatMustNotBecomeZero(const Operation& operation) {
  const OpAttrs& attrs = operation.attrs;
  return attrs.As<ops::Div>() != nullptr || attrs.As<ops::Div1>() != nullptr ||
         attrs.As<ops::Mod>() != nullptr || attrs.As<ops::Pow>() != nullptr ||
         attrs.As<ops::Pow1>() != nullptr;
}

// Fails if there is no scale for the value.
absl::Status CheckScalable(const Network& network, ValueId id,
                           const Calibration& calibration) {
  const NetworkValue& value = network.value(id);
  if (IsConstant(network, id)) {
    if (AreAllFinite(value.data)) return absl::OkStatus();
    return absl::FailedPreconditionError(
        fmt::format("{} has numbers that are not finite", value.name));
  }
  const auto range = calibration.find(value.name);
  if (range == calibration.end()) {
    return absl::FailedPreconditionError(
        fmt::format("calibration has seen no finite number of {}", value.name));
  }
  if (ByteScaleOf(range->second).has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("the range of {}, {:g} to {:g}, is too large", value.name,
                  range->second.low, range->second.high));
}

// Returns which inputs an operation that is not a product would read quantised.
absl::StatusOr<std::vector<bool>> InputsOfOther(const Network& network,
                                                const Operation& operation) {
  NODEWISE_ASSIGN_OR_RETURN(std::vector<bool> chosen,
                            InputsThatMayBe(kInt8, network, operation));
  if (ReadsFactorThatMustNotBecomeZero(operation)) {
    if (!IsConstant(network, operation.inputs[1])) {
      return absl::FailedPreconditionError(
          "input 1: is not a constant, and small numbers of it would become 0");
    }
    chosen[1] = false;
  }
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (!chosen[i]) continue;
    const NetworkValue& value = network.value(operation.inputs[i]);
    // A single number, such as the bound of a Clip, gains nothing.
    if (IsConstant(network, value.id) && CountOf(value.data) == 1) {
      chosen[i] = false;
    }
  }
  return chosen;
}

absl::StatusOr<PrecisionPlan::Step> StepOf(const Network& network,
                                           const Operation& operation,
                                           const Calibration& calibration) {
  PrecisionPlan::Step step;
  if (ProductFormOf(network, operation).has_value()) {
    step.inputs.resize(operation.inputs.size());
    for (size_t i = 0; i < 2; ++i) {
      step.inputs[i] = IsFloatInput(network, operation, i);
    }
  } else {
    NODEWISE_ASSIGN_OR_RETURN(step.inputs, InputsOfOther(network, operation));
  }
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    if (!step.inputs[i]) continue;
    NODEWISE_RETURN_IF_ERROR(
        CheckScalable(network, operation.inputs[i], calibration));
  }
  bool makes_floats = false;
  for (const ValueId id : operation.outputs) {
    if (id == kNoValue || !(network.value(id).type.dtype == kFloat32)) continue;
    makes_floats = true;
    NODEWISE_RETURN_IF_ERROR(CheckScalable(network, id, calibration));
  }
  if (makes_floats) return step;
  return absl::FailedPreconditionError("makes no float32 tensor");
}

// Returns the Relu or Clip that alone reads the result of a product;
// kNoOperation if there is none.
OperationId ActivationBehind(const Network& network,
                             const Operation& operation) {
  const ValueId result = operation.outputs[0];
  const auto outputs = network.outputs();
  const std::vector<Use>& uses = network.value(result).uses;
  if (uses.size() != 1 || uses[0].slot != 0 ||
      std::find(outputs.begin(), outputs.end(), result) != outputs.end()) {
    return kNoOperation;
  }
  const OpAttrs& attrs = network.operation(uses[0].user).attrs;
  const bool is_activation =
      attrs.As<ops::Relu>() != nullptr || attrs.As<ops::Clip>() != nullptr;
  return is_activation ? uses[0].user : kNoOperation;
}

}  // namespace

std::optional<ProductForm> ProductFormOf(const Network& network,
                                         const Operation& operation) {
  const OpAttrs& attrs = operation.attrs;
  if (attrs.As<ops::Conv>() != nullptr) return ProductForm{0};
  if (const auto* const conv = attrs.As<ops::ConvTranspose>()) {
    // With groups, a channel of the output has an index in each of them.
    if (conv->group != 1) return ProductForm{std::nullopt};
    return ProductForm{1};
  }
  if (attrs.As<ops::MatMul>() != nullptr) {
    const TensorType& w = network.value(operation.inputs[1]).type;
    const bool is_matrix = w.has_rank() && w.rank() == 2;
    return ProductForm{is_matrix ? std::optional<int>(1) : std::nullopt};
  }
  if (const auto* const gemm = attrs.As<ops::Gemm>()) {
    return ProductForm{gemm->transB ? 0 : 1,
                       gemm->alpha == 1 && gemm->beta == 1};
  }
  return std::nullopt;
}

void PlanInt8(const Network& network, const Calibration& calibration,
              PrecisionPlan* plan) {
  PlanOperations(
      network,
      [&](const Operation& operation) {
        return StepOf(network, operation, calibration);
      },
      plan);
  for (auto& [id, step] : plan->steps) {
    const Operation& operation = network.operation(id);
    if (!ProductFormOf(network, operation).has_value()) continue;
    const OperationId behind = ActivationBehind(network, operation);
    const auto activation = plan->steps.find(behind);
    if (behind == kNoOperation || activation == plan->steps.end()) continue;
    step.keeps_result = true;
    activation->second.inputs[0] = false;
  }
}

}  // namespace nodewise
