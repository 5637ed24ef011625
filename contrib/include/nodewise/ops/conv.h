#pragma once

// Convolutions. Each class is its operator's primary attributes.

#include <cstdint>
#include <vector>

#include "nodewise/op/attribute_types.h"

namespace nodewise::ops {

// What Conv, ConvInteger, QLinearConv and ConvTranspose have. Lists are by
// spatial side.
struct ConvAttributes {
  Padding auto_pad = Padding::kNotset;
  std::vector<int64_t> dilations;     // Empty: 1 each.
  int64_t group = 1;                  // Channels are split into so many parts.
  std::vector<int64_t> kernel_shape;  // Empty: as the weights are.
  std::vector<int64_t> pads;          // Beginnings, then ends; empty: 0 each.
  std::vector<int64_t> strides;       // Empty: 1 each.
};

// The weights slide over X; at each place, the sum of the products, plus B.
struct Conv : ConvAttributes {};

// The convolution of 8-bit integers less their zero points, modulo 2^32.
struct ConvInteger : ConvAttributes {};

// The gradient of a convolution: each element of X is multiplied by the weights
// and added where they lie in Y, plus B.
struct ConvTranspose : ConvAttributes {
  // Added to the end of each side of the output; empty: 0 each.
  std::vector<int64_t> output_padding;
  // The output's spatial sides, from which the pads follow; empty: the pads are
  // given.
  std::vector<int64_t> output_shape;
};

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
