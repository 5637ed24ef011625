#include <cmath>

#include "contrib/passes/quantized_product.h"
#include "contrib/passes/refusal.h"
#include "fmt/format.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// The DequantizeLinear that makes a value; null if none does.
const Operation* DequantizeOf(const Network& network, ValueId id) {
  const OperationId maker = network.value(id).producer;
  if (maker == kNoOperation) return nullptr;
  const Operation& operation = network.operation(maker);
  return operation.attrs.As<ops::DequantizeLinear>() != nullptr ? &operation
                                                                : nullptr;
}

// x_scale * w_scale of a channel, as float32 has it. REQUIRES: both are known.
double StepOf(const QuantizedProduct& product, size_t channel) {
  const std::vector<double>& w = product.w_facts.scales;
  return static_cast<float>(product.x_facts.scales[0] *
                            w[w.size() == 1 ? 0 : channel]);
}

bool AreScalesKnown(const QuantizedProduct& product) {
  return !product.x_facts.scales.empty() && !product.w_facts.scales.empty();
}

// Returns whether `scale` is x_scale * w_scale in every run: as a constant, or
// multiplied in the network.
bool IsProductOfScales(const Network& network, const QuantizedProduct& product,
                       ValueId scale, size_t channels) {
  const OperationId maker = network.value(scale).producer;
  if (maker != kNoOperation) {
    const Operation& operation = network.operation(maker);
    if (operation.attrs.As<ops::Mul>() == nullptr) return false;
    const ValueId a = operation.inputs[0];
    const ValueId b = operation.inputs[1];
    const ValueId x = product.x.scale;
    const ValueId w = product.w.scale;
    return (a == x && b == w) || (a == w && b == x);
  }
  const auto numbers = NumbersOf(network, scale);
  if (!numbers.has_value() || !AreScalesKnown(product)) return false;
  if (numbers->size() != 1 && numbers->size() != channels) return false;
  for (size_t i = 0; i < channels; ++i) {
    if ((*numbers)[numbers->size() == 1 ? 0 : i] != StepOf(product, i)) {
      return false;
    }
  }
  return true;
}

// Returns what a DequantizeLinear of constants makes.
absl::StatusOr<NDArray> DequantizedConstant(const Network& network,
                                            const Operation& operation) {
  Tensors inputs;
  for (const ValueId id : operation.inputs) {
    const NDArray* const constant = ConstantOf(network, id);
    if (constant == nullptr && id != kNoValue) {
      return Refuse("the bias is not made of constants");
    }
    inputs.push_back(constant == nullptr ? NDArray() : *constant);
  }
  NODEWISE_ASSIGN_OR_RETURN(
      const Evaluated result,
      Evaluate(operation.attrs, std::move(inputs), {true}));
  return result.outputs[0];
}

// Returns the integer of which `x` is the float32 product with the scales.
absl::StatusOr<double> StepsIn(const QuantizedProduct& product, double x,
                               size_t channel) {
  const std::vector<double>& w = product.w_facts.scales;
  const double exact_step =
      product.x_facts.scales[0] * w[w.size() == 1 ? 0 : channel];
  const double step = StepOf(product, channel);
  const double steps = std::nearbyint(x / step);
  // Files have products with the scale in float32 and in double.
  const bool is_whole = static_cast<float>(steps * step) == x ||
                        static_cast<float>(steps * exact_step) == x;
  if (is_whole && std::fabs(steps) < 0x1p31) return steps;
  return Refuse(
      fmt::format("element {} of the bias is {}, expected an int32 "
                  "times x_scale * w_scale ({})",
                  channel, x, step));
}

absl::StatusOr<IntegerBias> FromFloats(const QuantizedProduct& product,
                                       const NDArray& floats) {
  if (!AreScalesKnown(product)) {
    return Refuse("the bias is a constant, but x_scale or w_scale is not");
  }
  IntegerBias bias;
  bias.numbers = ToDoubles(floats);
  const size_t scales = product.w_facts.scales.size();
  if (scales != 1 && scales != bias.numbers.size()) {
    return Refuse(fmt::format("the bias has {} elements, expected {}",
                              bias.numbers.size(), scales));
  }
  for (size_t i = 0; i < bias.numbers.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(bias.numbers[i],
                              StepsIn(product, bias.numbers[i], i));
  }
  const auto count = static_cast<int64_t>(bias.numbers.size());
  NODEWISE_ASSIGN_OR_RETURN(bias.data, NDArray::Empty({count}, kInt32, kCpu));
  StoreDoubles(bias.numbers.data(), 0, count, bias.data);
  return bias;
}

}  // namespace

absl::StatusOr<IntegerBias> IntegerBiasOf(const Network& network,
                                          const QuantizedProduct& product,
                                          ValueId bias) {
  if (const NDArray* const floats = ConstantOf(network, bias)) {
    return FromFloats(product, *floats);
  }
  const Operation* const dequantize = DequantizeOf(network, bias);
  if (dequantize == nullptr) {
    return Refuse(
        "the bias is made in the network, expected a constant or a "
        "DequantizeLinear of one");
  }
  const QuantizedTensor tensor = DequantizedBy(*dequantize, "bias");
  const NDArray* const integers = ConstantOf(network, tensor.data);
  if (integers == nullptr) return Refuse("the bias is not a constant");
  const auto channels = static_cast<size_t>(CountOf(*integers));
  if (integers->dtype() == kInt32 && HoldSame(network, tensor.zero, kNoValue) &&
      IsProductOfScales(network, product, tensor.scale, channels)) {
    return IntegerBias{tensor.data, NDArray(), ToDoubles(*integers)};
  }
  NODEWISE_ASSIGN_OR_RETURN(const NDArray floats,
                            DequantizedConstant(network, *dequantize));
  return FromFloats(product, floats);
}

}  // namespace nodewise
