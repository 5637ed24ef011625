#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "contrib/precision/lowered_constants.h"
#include "contrib/precision/network_copy.h"
#include "contrib/precision/precision_plan.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/ops/unary.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

bool IsConstant(const Network& network, ValueId id) {
  return network.value(id).kind == NetworkValue::Kind::kConstant;
}

// Small divisors would become 0, and so would bases of negative powers.
bool ReadsFactorThatMustNotBecomeZero(const Operation& operation) {
  return operation.attrs
      .IsOneOf<ops::Div, ops::Div1, ops::Mod, ops::Pow, ops::Pow1>();
}

// Fails if there is no scale for the value. It is asked about everything that
// would be quantised, so that making the network cannot fail for want of a
// scale.
absl::Status CheckScalable(const Network& network, ValueId id,
                           const Calibration& calibration) {
  const NetworkValue& value = network.value(id);
  if (IsConstant(network, id)) {
    if (AreAllFinite(value.data)) return absl::OkStatus();
    return FailedPrecondition("{} has numbers that are not finite", value.name);
  }
  const auto range = calibration.find(value.name);
  if (range == calibration.end()) {
    return FailedPrecondition("calibration has seen no finite number of {}",
                              value.name);
  }
  if (ByteScaleOf(range->second).has_value()) return absl::OkStatus();
  return FailedPrecondition("the range of {}, {:g} to {:g}, is too large",
                            value.name, range->second.low, range->second.high);
}

// Returns which inputs an operation that is not a product would read quantised.
absl::StatusOr<std::vector<bool>> InputsOfOther(const Network& network,
                                                const Operation& operation) {
  NODEWISE_ASSIGN_OR_RETURN(std::vector<bool> chosen,
                            InputsThatMayBe(kInt8, network, operation));
  if (ReadsFactorThatMustNotBecomeZero(operation)) {
    if (!IsConstant(network, operation.inputs[1])) {
      return FailedPrecondition(
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
  return FailedPrecondition("makes no float32 tensor");
}

// Returns the Relu or Clip that alone reads the result of a product;
// kNoOperation if there is none.
OperationId ActivationBehind(const Network& network,
                             const Operation& operation) {
  const ValueId result = operation.outputs[0];
  const std::vector<Use>& uses = network.value(result).uses;
  if (uses.size() != 1 || uses[0].slot != 0 || network.IsOutput(result)) {
    return kNoOperation;
  }
  // Integers can be cut off at a bound as floats can, so kernels do these two
  // on the way out.
  const OpAttrs& attrs = network.operation(uses[0].user).attrs;
  return attrs.IsOneOf<ops::Relu, ops::Clip>() ? uses[0].user : kNoOperation;
}

constexpr int kFirstOpsetWithAxes = 13;

// Integers are made where they are first read and shared by all readers; values
// keep their float form as well where something reads it. NetworkCopy::Finish()
// removes the forms that nothing needs in the end.
struct Int8Maker {
  struct Weights {
    ValueId floats = kNoValue;  // Dequantised.
    NDArray scales;
  };

  const PrecisionPlan& plan;
  const Calibration& calibration;
  const int most_weight;
  NetworkCopy copy;
  PrecisionReport* const report;
  std::unordered_map<ValueId, ValueId> dequantized_values = {};
  std::map<std::tuple<ValueId, int, int>, Weights> known_weights = {};

  absl::StatusOr<Network> Make() {
    const Network& old = copy.old();
    for (const OperationId id : old.order()) {
      NODEWISE_RETURN_IF_ERROR(AddOne(old.operation(id), plan.StepOf(id)));
    }
    return copy.Finish();
  }

 private:
  absl::Status AddOne(const Operation& operation,
                      const PrecisionPlan::Step* step) {
    std::vector<ValueId> inputs;
    for (const ValueId old : operation.inputs) {
      NODEWISE_ASSIGN_OR_RETURN(inputs.emplace_back(), copy.ValueFor(old));
    }
    if (step != nullptr) {
      NODEWISE_RETURN_IF_ERROR(LowerInputs(operation, *step, &inputs));
    }
    // A value that was lowered is quantised at once, so that all of its readers
    // get the same numbers.
    const bool quantize = step != nullptr && !step->keeps_result;
    std::vector<std::string> suffixes;
    for (const ValueId old : operation.outputs) {
      suffixes.push_back(quantize && IsFloat32(old) ? "_float" : "");
    }
    NODEWISE_ASSIGN_OR_RETURN(
        const std::vector<ValueId> made,
        copy.AddAs(operation, operation.attrs, std::move(inputs), suffixes));
    for (size_t i = 0; i < made.size(); ++i) {
      const ValueId old = operation.outputs[i];
      if (old == kNoValue) continue;
      NODEWISE_RETURN_IF_ERROR(
          SetResult(old, made[i], quantize && IsFloat32(old)));
    }
    return absl::OkStatus();
  }

  bool IsFloat32(ValueId old) const {
    return old != kNoValue && copy.old().value(old).type.dtype == kFloat32;
  }

  absl::Status SetResult(ValueId old, ValueId made, bool quantize) {
    copy.Set(old, made);
    if (quantize) {
      // The stand-in for the value has its name: readers do not notice.
      NODEWISE_ASSIGN_OR_RETURN(const ValueId dequantized,
                                Requantized(old, copy.NameOf(old)));
      copy.Set(old, dequantized);
    }
    NODEWISE_ASSIGN_OR_RETURN(const ValueId now, copy.ValueFor(old));
    report->stands_for[copy.NameOf(old)] = copy.made().value(now).name;
    return absl::OkStatus();
  }

  absl::Status LowerInputs(const Operation& operation,
                           const PrecisionPlan::Step& step,
                           std::vector<ValueId>* inputs) {
    const auto form = ProductFormOf(copy.old(), operation);
    std::optional<Weights> w;
    for (size_t i = 0; i < inputs->size(); ++i) {
      if (!step.inputs[i]) continue;
      const ValueId old = operation.inputs[i];
      if (copy.old().value(old).kind != NetworkValue::Kind::kConstant) {
        NODEWISE_ASSIGN_OR_RETURN((*inputs)[i], Requantized(old, ""));
        continue;
      }
      const bool is_w = form.has_value() && i == 1;
      NODEWISE_ASSIGN_OR_RETURN(
          Weights weights,
          is_w ? WeightsOf(old, form->w_axis, most_weight)
               : WeightsOf(old, std::nullopt, PrecisionOptions::kMostInt8));
      (*inputs)[i] = weights.floats;
      if (is_w) w = std::move(weights);
    }
    if (!form.has_value() || !IsFloatInput(copy.old(), operation, 2)) {
      return absl::OkStatus();
    }
    return LowerBias(operation, *form, w, &(*inputs)[2]);
  }

  template <typename T>
  absl::StatusOr<ValueId> AddScalar(const std::string& name, T number,
                                    DLDataType type) {
    NODEWISE_ASSIGN_OR_RETURN(NDArray scalar, NDArray::Empty({}, type, kCpu));
    *scalar.As<T>() = number;
    return copy.AddConstant(name, std::move(scalar));
  }

  // Returns the value dequantised from its integers, which are made once; the
  // result has this name if it is not empty.
  absl::StatusOr<ValueId> Requantized(ValueId old, const std::string& name) {
    const auto found = dequantized_values.find(old);
    if (found != dequantized_values.end()) return found->second;
    const std::string& base = copy.NameOf(old);
    const ByteScale wanted = *ByteScaleOf(calibration.at(base));
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId scale,
        AddScalar(base + "_scale", wanted.scale, kFloat32));
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId zero,
        AddScalar(base + "_zero_point", wanted.zero, kUint8));
    NODEWISE_ASSIGN_OR_RETURN(const ValueId floats, copy.ValueFor(old));
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId integers,
        copy.Add(ops::QuantizeLinear{}, {floats, scale, zero},
                 base + "_quantized"));
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId made,
        copy.Add(ops::DequantizeLinear{}, {integers, scale, zero},
                 base + "_dequantized", name));
    dequantized_values[old] = made;
    return made;
  }

  absl::StatusOr<Weights> WeightsOf(ValueId old, std::optional<int> axis,
                                    int most) {
    // Below that opset one scale has to do for all channels.
    const bool has_axes = copy.made().opset() >= kFirstOpsetWithAxes;
    if (!has_axes) axis = std::nullopt;
    // A constant may be read by two products that want other axes.
    const auto key = std::tuple(old, axis.value_or(-1), most);
    const auto found = known_weights.find(key);
    if (found != known_weights.end()) return found->second;
    const std::string& base = copy.NameOf(old);
    NODEWISE_ASSIGN_OR_RETURN(
        SymmetricWeights made,
        QuantizeSymmetric(copy.old().value(old).data, axis, most));
    Weights weights{kNoValue, made.scales};
    NODEWISE_ASSIGN_OR_RETURN(
        weights.floats, Dequantized(base, std::move(made.integers),
                                    std::move(made.scales), axis.value_or(1)));
    known_weights[key] = weights;
    return weights;
  }

  absl::StatusOr<ValueId> Dequantized(const std::string& base, NDArray integers,
                                      NDArray scales, int axis) {
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId data,
        copy.AddConstant(base + "_quantized", std::move(integers)));
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId scale,
        copy.AddConstant(base + "_scale", std::move(scales)));
    ops::DequantizeLinear op;
    op.axis = axis;
    return copy.Add(op, {data, scale}, base + "_dequantized");
  }

  absl::Status LowerBias(const Operation& operation, const ProductForm& form,
                         const std::optional<Weights>& w, ValueId* input) {
    const NetworkValue& bias = copy.old().value(operation.inputs[2]);
    const NetworkValue& x = copy.old().value(operation.inputs[0]);
    const bool is_constant = bias.kind == NetworkValue::Kind::kConstant;
    // Kernels add such a bias to the sums of products before anything is
    // scaled. Its step is that of the product, so both scales must be known
    // now.
    std::optional<StepBias> made;
    if (form.has_step_bias && is_constant && w.has_value() &&
        x.kind != NetworkValue::Kind::kConstant) {
      const ByteScale x_scale = *ByteScaleOf(calibration.at(x.name));
      NODEWISE_ASSIGN_OR_RETURN(
          made, QuantizeBias(bias.data, x_scale.scale, w->scales));
    }
    if (!made.has_value()) {
      report->notes.push_back(fmt::format(
          "operation {}: its bias stays float32, since it is not a constant "
          "vector of int32 times x_scale * w_scale",
          operation.name));
      return absl::OkStatus();
    }
    NODEWISE_ASSIGN_OR_RETURN(*input,
                              Dequantized(bias.name, std::move(made->integers),
                                          std::move(made->scales), 0));
    return absl::OkStatus();
  }
};

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
    // The last side of a matrix is the channel of the result; batches of
    // matrices have one scale for all.
    const bool is_matrix = w.has_rank() && w.rank() == 2;
    return ProductForm{is_matrix ? std::optional<int>(1) : std::nullopt};
  }
  if (const auto* const gemm = attrs.As<ops::Gemm>()) {
    // With other factors the bias is not simply added, so it cannot be in steps
    // of the product.
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
    // The merged product writes its integers behind the activation, so nothing
    // is quantised between the two.
    step.keeps_result = true;
    activation->second.inputs[0] = false;
  }
}

absl::StatusOr<Network> MakeInt8(const Network& network,
                                 const PrecisionOptions& options,
                                 const PrecisionPlan& plan,
                                 PrecisionReport* report) {
  NODEWISE_ASSIGN_OR_RETURN(NetworkCopy copy, NetworkCopy::Begin(network));
  return Int8Maker{plan, options.calibration, options.most_weight,
                   std::move(copy), report}
      .Make();
}

}  // namespace nodewise
