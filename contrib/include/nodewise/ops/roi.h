#pragma once

// Pools of regions, and the way back from a pool. Each class is its operator's
// primary attributes.

#include <cstdint>
#include <vector>

namespace nodewise::ops {

// Puts the elements of a MaxPool back where its indices say, and 0 elsewhere.
struct MaxUnpool {
  std::vector<int64_t> kernel_shape;  // Required.
  std::vector<int64_t> pads;          // Begins, then ends. Empty: 0.
  std::vector<int64_t> strides;       // Empty: 1.
};

// The largest element of each bin of each region.
struct MaxRoiPool {
  std::vector<int64_t> pooled_shape;  // Required: bins along height and width.
  float spatial_scale = 1;            // From the regions' units to elements.
};

enum class RoiMode { kAverage, kMax };
struct RoiAlignAttributes {
  RoiMode mode = RoiMode::kAverage;
  int64_t output_height = 1;  // Bins.
  int64_t output_width = 1;
  int64_t sampling_ratio = 0;  // Points in a bin. 0: one an element.
  float spatial_scale = 1;     // From the regions' units to elements.
};

// The mean or the largest of points between the elements, for each bin of each
// region; regions shorter than an element count as one.
struct RoiAlign10 : RoiAlignAttributes {};

// What is moved by half an element: the regions as well, or the output only.
enum class RoiPixels { kHalf, kOutputHalf };
// The mean or the largest of points between the elements, for each bin of each
// region.
struct RoiAlign : RoiAlignAttributes {
  RoiPixels coordinate_transformation_mode = RoiPixels::kHalf;
};

}  // namespace nodewise::ops
