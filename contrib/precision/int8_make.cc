#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "contrib/precision/constants.h"
#include "contrib/precision/network_copy.h"
#include "contrib/precision/precision_plan.h"
#include "contrib/precision/type_trial.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Scales by axis came with this opset of ONNX.
constexpr int kFirstOpsetWithAxes = 13;

template <typename T>
absl::StatusOr<NDArray> ScalarOf(T number, DLDataType type) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray scalar,
                            NDArray::Empty({}, type, kCpu));
  *scalar.As<T>() = number;
  return scalar;
}

class Int8Maker {
 public:
  Int8Maker(const PrecisionPlan& plan, const PrecisionOptions& options,
            NetworkCopy copy, PrecisionReport* report)
      : plan_(plan),
        calibration_(options.calibration),
        most_weight_(options.most_weight),
        copy_(std::move(copy)),
        report_(report) {}

  absl::StatusOr<Network> Make() {
    const Network& old = copy_.old();
    for (const OperationId id : old.order()) {
      NODEWISE_RETURN_IF_ERROR(AddOne(old.operation(id), plan_.StepOf(id)));
    }
    return copy_.Finish();
  }

 private:
  struct Weights {
    ValueId floats = kNoValue;  // Dequantised.
    NDArray scales;
  };

  absl::Status AddOne(const Operation& operation,
                      const PrecisionPlan::Step* step) {
    std::vector<ValueId> inputs;
    for (const ValueId old : operation.inputs) {
      NODEWISE_ASSIGN_OR_RETURN(const ValueId input, copy_.Of(old));
      inputs.push_back(input);
    }
    if (step != nullptr) {
      NODEWISE_RETURN_IF_ERROR(LowerInputs(operation, *step, &inputs));
    }
    const bool quantize = step != nullptr && !step->keeps_result;
    std::vector<std::string> suffixes;
    for (const ValueId old : operation.outputs) {
      suffixes.push_back(quantize && IsFloat32(old) ? "_float" : "");
    }
    NODEWISE_ASSIGN_OR_RETURN(
        const std::vector<ValueId> made,
        copy_.AddLike(operation, std::move(inputs), suffixes));
    for (size_t i = 0; i < made.size(); ++i) {
      const ValueId old = operation.outputs[i];
      if (old == kNoValue) continue;
      NODEWISE_RETURN_IF_ERROR(
          SetResult(old, made[i], quantize && IsFloat32(old)));
    }
    return absl::OkStatus();
  }

  bool IsFloat32(ValueId old) const {
    return old != kNoValue && copy_.old().value(old).type.dtype == kFloat32;
  }

  absl::Status SetResult(ValueId old, ValueId made, bool quantize) {
    copy_.Set(old, made);
    if (quantize) {
      // The stand-in for the value has its name: readers do not notice.
      NODEWISE_ASSIGN_OR_RETURN(const ValueId dequantized,
                                Requantized(old, copy_.NameOf(old)));
      copy_.Set(old, dequantized);
    }
    NODEWISE_ASSIGN_OR_RETURN(const ValueId now, copy_.Of(old));
    report_->stands_for[copy_.NameOf(old)] = copy_.made().value(now).name;
    return absl::OkStatus();
  }

  absl::Status LowerInputs(const Operation& operation,
                           const PrecisionPlan::Step& step,
                           std::vector<ValueId>* inputs) {
    const auto form = ProductFormOf(copy_.old(), operation);
    std::optional<Weights> w;
    for (size_t i = 0; i < inputs->size(); ++i) {
      if (!step.inputs[i]) continue;
      const ValueId old = operation.inputs[i];
      if (copy_.old().value(old).kind != NetworkValue::Kind::kConstant) {
        NODEWISE_ASSIGN_OR_RETURN((*inputs)[i], Requantized(old, ""));
        continue;
      }
      const bool is_w = form.has_value() && i == 1;
      NODEWISE_ASSIGN_OR_RETURN(
          Weights weights,
          is_w ? WeightsOf(old, form->w_axis, most_weight_)
               : WeightsOf(old, std::nullopt, PrecisionOptions::kMostInt8));
      (*inputs)[i] = weights.floats;
      if (is_w) w = std::move(weights);
    }
    if (!form.has_value() || !IsFloatInput(copy_.old(), operation, 2)) {
      return absl::OkStatus();
    }
    return LowerBias(operation, *form, w, &(*inputs)[2]);
  }

  // Returns the value dequantised from its integers, which are made once; the
  // result has this name if it is not empty.
  absl::StatusOr<ValueId> Requantized(ValueId old, const std::string& name) {
    const auto found = dequantized_.find(old);
    if (found != dequantized_.end()) return found->second;
    const std::string& base = copy_.NameOf(old);
    const ByteScale wanted = *ByteScaleOf(calibration_.at(base));
    NODEWISE_ASSIGN_OR_RETURN(NDArray scale_data,
                              ScalarOf(wanted.scale, kFloat32));
    NODEWISE_ASSIGN_OR_RETURN(NDArray zero_data, ScalarOf(wanted.zero, kUint8));
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId scale,
        copy_.AddConstant(base + "_scale", std::move(scale_data)));
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId zero,
        copy_.AddConstant(base + "_zero_point", std::move(zero_data)));
    NODEWISE_ASSIGN_OR_RETURN(const ValueId floats, copy_.Of(old));
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId integers,
        copy_.Add(ops::QuantizeLinear{}, {floats, scale, zero},
                  base + "_quantized"));
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId made,
        copy_.Add(ops::DequantizeLinear{}, {integers, scale, zero},
                  base + "_dequantized", name));
    dequantized_[old] = made;
    return made;
  }

  absl::StatusOr<Weights> WeightsOf(ValueId old, std::optional<int> axis,
                                    int most) {
    const bool has_axes = copy_.made().opset() >= kFirstOpsetWithAxes;
    if (!has_axes) axis = std::nullopt;
    const auto key = std::tuple(old, axis.value_or(-1), most);
    const auto found = weights_.find(key);
    if (found != weights_.end()) return found->second;
    const std::string& base = copy_.NameOf(old);
    NODEWISE_ASSIGN_OR_RETURN(
        SymmetricWeights made,
        QuantizeSymmetric(copy_.old().value(old).data, axis, most));
    Weights weights{kNoValue, made.scales};
    NODEWISE_ASSIGN_OR_RETURN(
        weights.floats, Dequantized(base, std::move(made.integers),
                                    std::move(made.scales), axis.value_or(1)));
    weights_[key] = weights;
    return weights;
  }

  absl::StatusOr<ValueId> Dequantized(const std::string& base, NDArray integers,
                                      NDArray scales, int axis) {
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId data,
        copy_.AddConstant(base + "_quantized", std::move(integers)));
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId scale,
        copy_.AddConstant(base + "_scale", std::move(scales)));
    ops::DequantizeLinear op;
    op.axis = axis;
    return copy_.Add(op, {data, scale}, base + "_dequantized");
  }

  absl::Status LowerBias(const Operation& operation, const ProductForm& form,
                         const std::optional<Weights>& w, ValueId* input) {
    const NetworkValue& bias = copy_.old().value(operation.inputs[2]);
    const NetworkValue& x = copy_.old().value(operation.inputs[0]);
    const bool is_constant = bias.kind == NetworkValue::Kind::kConstant;
    std::optional<StepBias> made;
    if (form.has_step_bias && is_constant && w.has_value() &&
        x.kind != NetworkValue::Kind::kConstant) {
      const ByteScale x_scale = *ByteScaleOf(calibration_.at(x.name));
      NODEWISE_ASSIGN_OR_RETURN(
          made, QuantizeBias(bias.data, x_scale.scale, w->scales));
    }
    if (!made.has_value()) {
      report_->notes.push_back(fmt::format(
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

  const PrecisionPlan& plan_;
  const Calibration& calibration_;
  const int most_weight_;
  NetworkCopy copy_;
  PrecisionReport* const report_;
  std::unordered_map<ValueId, ValueId> dequantized_;
  std::map<std::tuple<ValueId, int, int>, Weights> weights_;
};

}  // namespace

absl::StatusOr<Network> MakeInt8(const Network& network,
                                 const PrecisionOptions& options,
                                 const PrecisionPlan& plan,
                                 PrecisionReport* report) {
  NODEWISE_ASSIGN_OR_RETURN(NetworkCopy copy, NetworkCopy::Begin(network));
  return Int8Maker(plan, options, std::move(copy), report).Make();
}

}  // namespace nodewise
