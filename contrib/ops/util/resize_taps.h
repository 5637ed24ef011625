#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "contrib/ops/util/tensor_moves.h"
#include "nodewise/op/op_row.h"
#include "nodewise/ops/resize.h"

namespace nodewise {

// Resizing handles one side after the other: every element along a side of the
// output is a weighted sum of a few along that side of the input.

template <>
struct Words<ops::Interpolation> {
  static constexpr std::pair<ops::Interpolation, std::string_view> kAll[] = {
      {ops::Interpolation::kNearest, "nearest"},
      {ops::Interpolation::kLinear, "linear"},
      {ops::Interpolation::kCubic, "cubic"}};
};

struct ResizeRule {
  ops::Interpolation mode = ops::Interpolation::kNearest;
  // None: up for shrinking, down for growing.
  std::optional<ops::NearestRule> nearest = ops::NearestRule::kPreferFloor;
  ops::CoordinateRule coordinates = ops::CoordinateRule::kHalfPixel;
  double cubic_coeff_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
  double extrapolation_value = 0;
};

// One side. `length` is the length of the output before it is cut down to an
// integer.
struct ResizedSide {
  int64_t in = 0;
  int64_t out = 0;
  double scale = 1;
  double length = 0;
  double roi_begin = 0;
  double roi_end = 1;
};

using Taps = ops::SideTaps;
Taps MakeTaps(const ResizeRule& rule, const ResizedSide& side);

// y = x resized; sides in the order of the tensor.
absl::Status ResizeSides(const ResizeRule& rule,
                         const std::vector<ResizedSide>& sides, EvalArgs& args);

// Sets the weights of the four elements around a place, `ratio` after the
// second.
void CubicWeights(double ratio, double a, double weights[4]);

}  // namespace nodewise
