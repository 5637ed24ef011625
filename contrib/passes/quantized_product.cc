// Judges whether a product of quantised tensors comes out alike in both of its
// forms. The facts about scales and zero points are collected first; then the
// largest sum that the weights allow, in integers and in steps of the output,
// tells how far the roundings of float32 can carry the two apart.

#include "contrib/passes/quantized_product.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "contrib/passes/network_rewriter.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

constexpr double kLargestInt32 = 0x1p31 - 1;
// Up to here float32 holds every integer.
constexpr double kLargestExact = 0x1p24;
// Each factor, each sum and each quotient is rounded to float32, which is off
// by at most 2^-24 of it: altogether by 2^-22 of the absolute values of all
// terms. Below this many steps that is half a step, so the results are rounded
// to the same integer or to neighbours.
constexpr double kMostSteps = 0x1p21;
// Where one integer is at least this many steps of the output, sums above
// kLargestExact are beyond the ends of a type of 8 bits, regardless of its zero
// point.
constexpr double kLeastFactor = 0x1p-16;

// One number counts for all; 0 if there is none.
double At(const std::vector<double>& numbers, size_t i) {
  if (numbers.empty()) return 0;
  return numbers[numbers.size() == 1 ? 0 : i];
}

// How the terms of the sums lie in w: for each of `outer` and of `inner` one
// sum of `depth` terms.
struct Lines {
  int64_t outer = 1;
  int64_t depth = 1;
  int64_t inner = 1;
};

// A Conv sums over all but the first side of w, a MatMul over the last but
// one.
Lines LinesOf(const std::vector<int64_t>& sizes, bool is_conv) {
  const absl::Span<const int64_t> all(sizes);
  if (is_conv) return {sizes[0], Product(all.subspan(1)), 1};
  if (sizes.size() < 2) return {1, sizes[0], 1};
  const size_t k = sizes.size() - 2;
  return {Product(all.first(k)), sizes[k], sizes[k + 1]};
}

// Returns the sum of |w - zero| of each line.
// Zero points by axis are constant along a sum, so that one number for each
// line is enough.
std::vector<double> LineSums(const NDArray& w, const Lines& lines,
                             const ScaleFacts& facts) {
  std::vector<double> sums(static_cast<size_t>(lines.outer * lines.inner), 0);
  const double largest = LargestDistance(*RangeOfType(facts.type), {});
  const bool is_signed = facts.type == kInt8;
  const auto* const bytes = w.As<uint8_t>();
  int64_t at = 0;
  for (int64_t outer = 0; outer < lines.outer; ++outer) {
    for (int64_t k = 0; k < lines.depth; ++k) {
      for (int64_t inner = 0; inner < lines.inner; ++inner, ++at) {
        // FindFacts() has refused zero points by any axis but that of the
        // lines.
        const auto line = static_cast<size_t>(outer * lines.inner + inner);
        const double number =
            is_signed ? static_cast<int8_t>(bytes[at]) : bytes[at];
        sums[line] += facts.zeros.empty()
                          ? largest
                          : std::fabs(number - At(facts.zeros, line));
      }
    }
  }
  return sums;
}

// Returns the largest sum of |w - zero| for each line of w, or one for all.
absl::StatusOr<std::vector<double>> WeightsOf(const Network& network,
                                              const QuantizedProduct& product) {
  const TensorType& w = network.value(product.w.data).type;
  if (const NDArray* const constant = ConstantOf(network, product.w.data)) {
    return LineSums(*constant, LinesOf(*w.sizes(), product.is_conv),
                    product.w_facts);
  }
  const double largest = LargestDistance(*RangeOfType(product.w_facts.type),
                                         product.w_facts.zeros);
  Dim depth;
  if (w.has_rank() && product.is_conv) {
    depth = ProductOf(*w.shape, 1, w.shape->size());
  } else if (w.has_rank()) {
    depth = (*w.shape)[w.rank() < 2 ? 0 : w.shape->size() - 2];
  }
  const TensorType& x = network.value(product.x.data).type;
  if (!depth.is_known() && !product.is_conv && x.has_rank()) {
    depth = x.shape->back();
  }
  if (depth.is_known()) {
    return std::vector<double>{static_cast<double>(depth.size()) * largest};
  }
  return Refuse(
      "it is not known how many terms a sum has, expected at most {} (sums of "
      "integers have 32 bits)",
      static_cast<int64_t>(kLargestInt32 / (255.0 * 255.0)));
}

bool ArePowersOfTwo(const std::vector<double>& scales) {
  return std::ranges::all_of(scales, &IsPowerOfTwo);
}

// The extremes over all lines.
struct SumLimits {
  double sum = 0;    // The absolute values of all terms, in integers.
  double bias = 0;   // Likewise.
  double steps = 0;  // The sum in steps of the output.
  // How many steps of the output one integer is.
  double factor = std::numeric_limits<double>::max();
};

bool AreFactorsKnown(const QuantizedProduct& product) {
  return !product.x_facts.scales.empty() && !product.w_facts.scales.empty();
}
bool AreScalesKnown(const QuantizedProduct& product) {
  return AreFactorsKnown(product) && !product.y_facts.scales.empty();
}

// Lists with one number count for all lines, so the longest list says how many
// lines there are.
SumLimits LimitsOf(const QuantizedProduct& product,
                   const std::vector<double>& weights) {
  const std::vector<double>& scales = product.w_facts.scales;
  const size_t lines =
      std::max({weights.size(), scales.size(), product.bias.size()});
  const double x_largest = LargestDistance(*RangeOfType(product.x_facts.type),
                                           product.x_facts.zeros);
  const auto [least, most] =
      std::ranges::minmax_element(product.x_facts.scales);
  const bool is_known = AreScalesKnown(product);
  SumLimits limits;
  for (size_t i = 0; i < lines; ++i) {
    const double bias = std::fabs(At(product.bias, i));
    const double sum = At(weights, i) * x_largest + bias;
    limits.bias = std::max(limits.bias, bias);
    limits.sum = std::max(limits.sum, sum);
    if (!is_known) continue;
    const double factor = At(scales, i) / product.y_facts.scales[0];
    limits.steps = std::max(limits.steps, sum * factor * *most);
    limits.factor = std::min(limits.factor, factor * *least);
  }
  return limits;
}

// x_scale * w_scale of a channel. REQUIRES: both are known.
double ExactStepOf(const QuantizedProduct& product, size_t channel) {
  return product.x_facts.scales[0] * At(product.w_facts.scales, channel);
}

// x_scale * w_scale as float32 has it.
double StepOf(const QuantizedProduct& product, size_t channel) {
  return static_cast<float>(ExactStepOf(product, channel));
}

// Returns whether `scale` is x_scale * w_scale in every run: as a constant, or
// multiplied in the network.
bool IsProductOfScales(const Network& network, const QuantizedProduct& product,
                       ValueId scale, size_t channels) {
  if (const Operation* const maker = network.MakerOf(scale)) {
    if (!Is<ops::Mul>(*maker)) return false;
    const ValueId a = maker->inputs[0];
    const ValueId b = maker->inputs[1];
    const ValueId x = product.x.scale;
    const ValueId w = product.w.scale;
    return (a == x && b == w) || (a == w && b == x);
  }
  const auto numbers = NumbersOf(network, scale);
  if (!numbers.has_value() || !AreFactorsKnown(product)) return false;
  if (numbers->size() != 1 && numbers->size() != channels) return false;
  for (size_t i = 0; i < channels; ++i) {
    if (At(*numbers, i) != StepOf(product, i)) return false;
  }
  return true;
}

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
  const double step = StepOf(product, channel);
  const double steps = std::nearbyint(x / step);
  // Files have products with the scale in float32 and in double.
  const bool is_whole =
      static_cast<float>(steps * step) == x ||
      static_cast<float>(steps * ExactStepOf(product, channel)) == x;
  if (is_whole && std::fabs(steps) < 0x1p31) return steps;
  return Refuse(
      "element {} of the bias is {}, expected an int32 times x_scale * w_scale "
      "({})",
      channel, x, step);
}

absl::StatusOr<IntegerBias> BiasFromFloats(const QuantizedProduct& product,
                                           const NDArray& floats) {
  if (!AreFactorsKnown(product)) {
    return Refuse("the bias is a constant, but x_scale or w_scale is not");
  }
  IntegerBias bias;
  bias.numbers = ToDoubles(floats);
  const size_t scales = product.w_facts.scales.size();
  if (scales != 1 && scales != bias.numbers.size()) {
    return Refuse("the bias has {} elements, expected {}", bias.numbers.size(),
                  scales);
  }
  for (size_t i = 0; i < bias.numbers.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(bias.numbers[i],
                              StepsIn(product, bias.numbers[i], i));
  }
  const auto count = static_cast<int64_t>(bias.numbers.size());
  NODEWISE_ASSIGN_OR_RETURN(bias.data,
                            FromDoubles(bias.numbers, {count}, kInt32));
  return bias;
}

}  // namespace

ProductRoles RolesOf(bool is_conv) {
  return is_conv ? ProductRoles{"x", "w"} : ProductRoles{"a", "b"};
}

// -1 stands for an axis that no tensor has: then one scale for all is the only
// choice.
absl::Status FindFacts(const Network& network, QuantizedProduct* product) {
  NODEWISE_ASSIGN_OR_RETURN(product->x_facts, FactsOf(network, product->x));
  NODEWISE_ASSIGN_OR_RETURN(product->w_facts, FactsOf(network, product->w));
  NODEWISE_ASSIGN_OR_RETURN(product->y_facts, FactsOf(network, product->y));
  const auto check = [&](const QuantizedTensor& tensor, const ScaleFacts& facts,
                         int allowed, const char* expected) -> absl::Status {
    if (!facts.axis.has_value() || *facts.axis == allowed) {
      return absl::OkStatus();
    }
    return Refuse("{}_scale is by axis {}, expected one number{}", tensor.role,
                  *facts.axis, expected);
  };
  NODEWISE_RETURN_IF_ERROR(check(product->y, product->y_facts, -1, ""));
  if (product->is_conv) {
    NODEWISE_RETURN_IF_ERROR(check(product->x, product->x_facts, -1, ""));
    return check(product->w, product->w_facts, 0,
                 " or one for each channel (axis 0)");
  }
  // The standard says nothing of several matrices with one list of scales.
  const auto is_matrix = [&](const QuantizedTensor& tensor) {
    const TensorType& type = network.value(tensor.data).type;
    return type.has_rank() && type.rank() == 2;
  };
  NODEWISE_RETURN_IF_ERROR(
      check(product->x, product->x_facts, is_matrix(product->x) ? 0 : -1,
            " or one for each row of a matrix (axis 0 of 2)"));
  return check(product->w, product->w_facts, is_matrix(product->w) ? 1 : -1,
               " or one for each column of a matrix (axis 1 of 2)");
}

absl::StatusOr<Agreement> AgreementOf(const Network& network,
                                      const QuantizedProduct& product) {
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<double> weights,
                            WeightsOf(network, product));
  const SumLimits limits = LimitsOf(product, weights);
  if (limits.sum > kLargestInt32) {
    return Refuse(
        "the terms of a sum may add up to {:.0f}, expected less than 2^31 "
        "(sums of integers have 32 bits)",
        limits.sum);
  }
  if (!AreScalesKnown(product)) return Agreement::kNotKnown;
  // Sums too large for float32 are beyond the end of the range in both forms.
  const bool is_exact =
      ArePowersOfTwo(product.x_facts.scales) &&
      ArePowersOfTwo(product.w_facts.scales) &&
      ArePowersOfTwo(product.y_facts.scales) &&
      (limits.sum <= kLargestExact ||
       (limits.bias <= kLargestExact && limits.factor >= kLeastFactor));
  if (is_exact) return Agreement::kExact;
  if (limits.steps < kMostSteps) return Agreement::kOneStep;
  return Refuse(
      "the terms of a sum may add up to {:.0f} steps of the output, expected "
      "less than 2^21 (float32 rounds them by more than a step)",
      limits.steps);
}

// Three cases, from the cheapest: floats that are constant, integers that the
// network has already in the right steps, and integers in other steps, which
// are dequantised and read as floats.
absl::StatusOr<IntegerBias> IntegerBiasOf(const Network& network,
                                          const QuantizedProduct& product,
                                          ValueId bias) {
  if (const NDArray* const floats = ConstantOf(network, bias)) {
    return BiasFromFloats(product, *floats);
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
  if (integers->dtype() == kInt32 &&
      HoldSameNumbers(network, tensor.zero, kNoValue) &&
      IsProductOfScales(network, product, tensor.scale, channels)) {
    return IntegerBias{tensor.data, NDArray(), ToDoubles(*integers)};
  }
  NODEWISE_ASSIGN_OR_RETURN(const NDArray floats,
                            DequantizedConstant(network, *dequantize));
  return BiasFromFloats(product, floats);
}

}  // namespace nodewise
