#pragma once

#include <cstdint>
#include <vector>

#include "nodewise/ops/conv.h"

namespace nodewise::ops {

// The gradient of a convolution: each element of X is multiplied by the weights
// and added where they lie in Y, plus B.
struct ConvTranspose : ConvAttributes {
  // Added to the end of each side of the output; empty: 0 each.
  std::vector<int64_t> output_padding;
  // The output's spatial sides, from which the pads follow; empty: the pads are
  // given.
  std::vector<int64_t> output_shape;
};

}  // namespace nodewise::ops
