#pragma once

// Images and other grids with other sides. Each class is its operator's primary
// attributes.

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace nodewise::ops {

enum class Interpolation { kNearest, kLinear, kCubic };

// Repeats or interpolates elements so that each side is multiplied by its
// scale.
struct Upsample {
  Interpolation mode = Interpolation::kNearest;
};

// Repeats, drops or interpolates elements so that each side is multiplied by
// its scale; the nearest element is searched upwards where a side shrinks, else
// downwards.
struct Resize10 {
  Interpolation mode = Interpolation::kNearest;
};

// How a place between two elements is rounded.
enum class NearestRule { kPreferFloor, kPreferCeil, kFloor, kCeil };
// Where an element of the output lies in the input.
enum class CoordinateRule {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kTfHalfPixelForNn,  // Opset 11 only.
  kTfCropAndResize,
};
// Whether sizes are exact, or bounds that the sides reach with one scale.
enum class AspectRatio { kStretch, kNotLarger, kNotSmaller };
// Repeats, drops or interpolates elements so that each side has the given size,
// or is multiplied by its scale.
struct Resize {
  std::optional<std::vector<int64_t>> axes;  // None: all.
  bool antialias = false;
  CoordinateRule coordinate_transformation_mode = CoordinateRule::kHalfPixel;
  float cubic_coeff_a = -0.75f;
  bool exclude_outside = false;   // True: places beyond the ends count nothing.
  float extrapolation_value = 0;  // What lies outside, for kTfCropAndResize.
  AspectRatio keep_aspect_ratio_policy = AspectRatio::kStretch;
  Interpolation mode = Interpolation::kNearest;
  NearestRule nearest_mode = NearestRule::kPreferFloor;
};

// What Resize's other inputs hold. Empty where not given: exporters write empty
// tensors for that.
struct ResizeTargets {
  std::vector<double> roi;
  std::vector<double> scales;
  std::vector<int64_t> sizes;
};

// Along one side, element i of the output is the sum of the taps
// [begin[i], begin[i + 1]): elements of the input, each times its weight.
struct SideTaps {
  std::vector<size_t> begin;
  std::vector<int64_t> index;  // Inside the input.
  std::vector<double> weight;  // 0 if only rounding could make it count.
  std::vector<double> at;      // By output element: where it lies in the input.
  std::vector<bool> is_outside;  // By output element, or empty if none is.
};
// Return the taps of every side of a tensor. Fail with kInvalidArgument, as
// the operators' evaluation does, for targets that do not fit the shape. The
// lists are as long as the sides of the output.
absl::StatusOr<std::vector<SideTaps>> TapsOf(const Resize& op,
                                             absl::Span<const int64_t> shape,
                                             const ResizeTargets& targets);
absl::StatusOr<std::vector<SideTaps>> TapsOfScales(
    Interpolation mode, absl::Span<const int64_t> shape,
    absl::Span<const double> scales);

}  // namespace nodewise::ops
