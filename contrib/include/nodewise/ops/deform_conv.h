#pragma once

#include <cstdint>
#include <vector>

namespace nodewise::ops {

// A convolution whose taps are moved by offsets of their own, to places between
// the elements. Lists are by spatial side.
struct DeformConv {
  std::vector<int64_t> dilations;  // Empty: 1 each.
  int64_t group = 1;
  std::vector<int64_t> kernel_shape;  // Empty: as the weights are.
  int64_t offset_group = 1;   // So many parts of the channels have own offsets.
  std::vector<int64_t> pads;  // Beginnings, then ends; empty: 0 each.
  std::vector<int64_t> strides;  // Empty: 1 each.
};

}  // namespace nodewise::ops
