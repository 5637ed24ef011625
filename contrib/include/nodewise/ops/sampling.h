#pragma once

// Operators that read images at given places, make the places, or put what
// windows saw back into an image. Each class is its operator's primary
// attributes.

#include <cstdint>
#include <vector>

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

// Adds the columns that a window saw back into an image, where they were. The
// sizes of image and window are inputs.
struct Col2Im {
  // By spatial side; empty: 1 each.
  std::vector<int64_t> dilations;
  // The pads at the beginnings, then at the ends; empty: 0 each.
  std::vector<int64_t> pads;
  std::vector<int64_t> strides;  // Empty: 1 each.
};

}  // namespace nodewise::ops
