#pragma once

// Operators that read images at given places, or make the places. Each class is
// its operator's primary attributes.

#include "nodewise/ops/resize.h"

namespace nodewise::ops {

// What is read beyond the ends.
enum class OutsideRule { kZeros, kBorder, kReflection };

// The modes by their names in opset 16.
enum class PlaneInterpolation { kNearest, kBilinear, kBicubic };
// Reads an image at the places of a grid, whose corners are -1 and 1.
struct GridSample16 {
  bool align_corners = false;  // True: -1 and 1 are centres of elements.
  PlaneInterpolation mode = PlaneInterpolation::kBilinear;
  OutsideRule padding_mode = OutsideRule::kZeros;
};

// Reads an image of any rank at the places of a grid, whose corners are -1 and
// 1.
struct GridSample {
  bool align_corners = false;  // True: -1 and 1 are centres of elements.
  Interpolation mode = Interpolation::kLinear;
  OutsideRule padding_mode = OutsideRule::kZeros;
};

// The places of a grid from -1 to 1, multiplied with a matrix for each image.
struct AffineGrid {
  bool align_corners = false;  // True: -1 and 1 are centres of elements.
};

}  // namespace nodewise::ops
