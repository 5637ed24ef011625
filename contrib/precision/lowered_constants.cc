#include "contrib/precision/lowered_constants.h"

#include <algorithm>
#include <cmath>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// MergeQuantization takes no scales beyond these.
constexpr double kLeastScale = 0x1p-60;
constexpr double kLargestScale = 0x1p60;
constexpr double kMostBytes = 255;
constexpr double kLargestInt32 = 0x1p31 - 1;

absl::Span<const float> FloatsIn(const NDArray& tensor) {
  return {tensor.As<float>(), static_cast<size_t>(CountOf(tensor))};
}

// How the elements of an index along an axis lie.
struct Stride {
  size_t count = 1;  // Indices along the axis.
  size_t inner = 1;  // Elements that lie together.

  size_t IndexOf(size_t element) const { return element / inner % count; }
};

// Without an axis all elements share index 0.
Stride StrideOf(const NDArray& tensor, std::optional<int> axis) {
  const auto shape = tensor.shape();
  if (!axis.has_value()) return {1, std::max<size_t>(1, CountOf(tensor))};
  const auto at = static_cast<size_t>(*axis);
  return {static_cast<size_t>(shape[at]),
          std::max<size_t>(1, Product(shape.subspan(at + 1)))};
}

}  // namespace

absl::StatusOr<ShortFloats> ToShortFloats(const NDArray& floats,
                                          DLDataType type) {
  const double largest = type == kFloat16 ? 65504 : 0x1.FEp127;
  std::vector<double> numbers = ToDoubles(floats);
  ShortFloats result;
  for (double& number : numbers) {
    if (!std::isfinite(number) || std::fabs(number) <= largest) continue;
    number = std::copysign(largest, number);
    ++result.cut_off;
  }
  NODEWISE_ASSIGN_OR_RETURN(result.data,
                            FromDoubles(numbers, floats.shape(), type));
  return result;
}

bool AreAllFinite(const NDArray& floats) {
  const auto numbers = FloatsIn(floats);
  return std::ranges::all_of(numbers, [](float x) { return std::isfinite(x); });
}

absl::StatusOr<SymmetricWeights> QuantizeSymmetric(const NDArray& floats,
                                                   std::optional<int> axis,
                                                   int most) {
  const double most_steps = most;
  const auto numbers = FloatsIn(floats);
  const Stride stride = StrideOf(floats, axis);
  // The largest magnitude of a channel decides its step, so that no weight is
  // cut off.
  std::vector<double> largest(stride.count, 0);
  for (size_t i = 0; i < numbers.size(); ++i) {
    double& so_far = largest[stride.IndexOf(i)];
    so_far = std::max(so_far, std::fabs(double{numbers[i]}));
  }
  SymmetricWeights made;
  std::vector<int64_t> scale_shape;
  if (axis.has_value()) scale_shape = {static_cast<int64_t>(stride.count)};
  NODEWISE_ASSIGN_OR_RETURN(made.scales,
                            NDArray::Empty(scale_shape, kFloat32, kCpu));
  NODEWISE_ASSIGN_OR_RETURN(made.integers,
                            NDArray::Empty(floats.shape(), kInt8, kCpu));
  float* const scales = made.scales.As<float>();
  for (size_t c = 0; c < stride.count; ++c) {
    // A channel of zeros has any scale.
    const double step = largest[c] == 0 ? 1 : largest[c] / most_steps;
    scales[c] =
        static_cast<float>(std::clamp(step, kLeastScale, kLargestScale));
  }
  auto* const integers = made.integers.As<int8_t>();
  for (size_t i = 0; i < numbers.size(); ++i) {
    // Weights are divided by the scale as float32 has it, since they are
    // multiplied by that one again.
    const double steps = numbers[i] / double{scales[stride.IndexOf(i)]};
    integers[i] = static_cast<int8_t>(
        std::clamp(std::nearbyint(steps), -most_steps, most_steps));
  }
  return made;
}

std::optional<ByteScale> ByteScaleOf(const ValueRange& range) {
  // A 0 that is exact keeps padding and what Relu cuts off exact.
  const double low = std::min(range.low, 0.0);
  const double high = std::max(range.high, 0.0);
  ByteScale made;
  // All numbers are 0, for which every scale is right.
  if (low == high) return made;
  const double step = (high - low) / kMostBytes;
  if (!(step <= kLargestScale)) return std::nullopt;
  made.scale = static_cast<float>(std::max(step, kLeastScale));
  made.zero = static_cast<uint8_t>(
      std::clamp(std::nearbyint(-low / double{made.scale}), 0.0, kMostBytes));
  return made;
}

absl::StatusOr<std::optional<StepBias>> QuantizeBias(const NDArray& floats,
                                                     float x_scale,
                                                     const NDArray& w_scales) {
  const auto numbers = FloatsIn(floats);
  const auto scales = FloatsIn(w_scales);
  // A bias of another rank is spread over other sides than the channels.
  const bool fits = floats.shape().size() == 1 &&
                    (scales.size() == 1 || scales.size() == numbers.size());
  if (!fits) return std::nullopt;
  StepBias made;
  NODEWISE_ASSIGN_OR_RETURN(made.integers,
                            NDArray::Empty(floats.shape(), kInt32, kCpu));
  NODEWISE_ASSIGN_OR_RETURN(made.scales,
                            NDArray::Empty(w_scales.shape(), kFloat32, kCpu));
  for (size_t i = 0; i < scales.size(); ++i) {
    // The product of the scales is rounded to float32, as the merged operator
    // means it.
    made.scales.As<float>()[i] = x_scale * scales[i];
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double step = made.scales.As<float>()[scales.size() == 1 ? 0 : i];
    const double steps = std::nearbyint(numbers[i] / step);
    // Written so that a NaN does not fit.
    if (!(std::fabs(steps) <= kLargestInt32)) return std::nullopt;
    made.integers.As<int32_t>()[i] = static_cast<int32_t>(steps);
  }
  return made;
}

}  // namespace nodewise
