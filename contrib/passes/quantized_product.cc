#include "contrib/passes/quantized_product.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "contrib/passes/refusal.h"
#include "fmt/format.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

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
// Numbers that are this many steps of 2^-16 or more, and above kLargestExact of
// them, are beyond the ends of a type of 8 bits, regardless of its zero point.
constexpr double kLeastFactor = 0x1p-16;

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

Lines LinesOf(const std::vector<int64_t>& sizes, bool is_conv) {
  const absl::Span<const int64_t> all(sizes);
  if (is_conv) return {sizes[0], Product(all.subspan(1)), 1};
  if (sizes.size() < 2) return {1, sizes[0], 1};
  const size_t k = sizes.size() - 2;
  return {Product(all.first(k)), sizes[k], sizes[k + 1]};
}

// Returns the sum of |w - zero| of each line.
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
        // Zero points by axis are by line, those of other axes are refused.
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
  return Refuse(fmt::format(
      "it is not known how many terms a sum has, expected at most {} (sums of "
      "integers have 32 bits)",
      static_cast<int64_t>(kLargestInt32 / (255.0 * 255.0))));
}

bool AllPowersOfTwo(const QuantizedProduct& product) {
  for (const ScaleFacts* facts :
       {&product.x_facts, &product.w_facts, &product.y_facts}) {
    if (!std::all_of(facts->scales.begin(), facts->scales.end(),
                     &IsPowerOfTwo)) {
      return false;
    }
  }
  return true;
}

// The extremes over all lines.
struct SumLimits {
  double sum = 0;    // The absolute values of all terms, in integers.
  double bias = 0;   // Likewise.
  double steps = 0;  // The sum in steps of the output.
  // How many steps of the output one integer is.
  double factor = std::numeric_limits<double>::max();
};

SumLimits LimitsOf(const QuantizedProduct& product,
                   const std::vector<double>& weights) {
  const std::vector<double>& scales = product.w_facts.scales;
  const size_t lines =
      std::max({weights.size(), scales.size(), product.bias.size()});
  const double x_largest = LargestDistance(*RangeOfType(product.x_facts.type),
                                           product.x_facts.zeros);
  const auto [least, most] = std::minmax_element(product.x_facts.scales.begin(),
                                                 product.x_facts.scales.end());
  const bool is_known = !product.x_facts.scales.empty() && !scales.empty() &&
                        !product.y_facts.scales.empty();
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

}  // namespace

ProductRoles RolesOf(bool is_conv) {
  return is_conv ? ProductRoles{"x", "w"} : ProductRoles{"a", "b"};
}

absl::Status FindFacts(const Network& network, QuantizedProduct* product) {
  NODEWISE_ASSIGN_OR_RETURN(product->x_facts, FactsOf(network, product->x));
  NODEWISE_ASSIGN_OR_RETURN(product->w_facts, FactsOf(network, product->w));
  NODEWISE_ASSIGN_OR_RETURN(product->y_facts, FactsOf(network, product->y));
  const auto check = [&](const QuantizedTensor& tensor, const ScaleFacts& facts,
                         int allowed, const char* expected) -> absl::Status {
    if (!facts.axis.has_value() || *facts.axis == allowed) {
      return absl::OkStatus();
    }
    return Refuse(fmt::format("{}_scale is by axis {}, expected one number{}",
                              tensor.role, *facts.axis, expected));
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
        fmt::format("the terms of a sum may add up to {:.0f}, expected less "
                    "than 2^31 (sums of integers have 32 bits)",
                    limits.sum));
  }
  if (product.x_facts.scales.empty() || product.w_facts.scales.empty() ||
      product.y_facts.scales.empty()) {
    return Agreement::kNotKnown;
  }
  // Sums too large for float32 are beyond the end of the range in both forms.
  const bool is_exact =
      AllPowersOfTwo(product) &&
      (limits.sum <= kLargestExact ||
       (limits.bias <= kLargestExact && limits.factor >= kLeastFactor));
  if (is_exact) return Agreement::kExact;
  if (limits.steps < kMostSteps) return Agreement::kOneStep;
  return Refuse(fmt::format(
      "the terms of a sum may add up to {:.0f} steps of the output, "
      "expected less than 2^21 (float32 rounds them by more than a "
      "step)",
      limits.steps));
}

}  // namespace nodewise
