#pragma once

// Images and other grids with other sides. Each class is its operator's primary
// attributes.

#include <cstdint>
#include <optional>
#include <vector>

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

}  // namespace nodewise::ops
