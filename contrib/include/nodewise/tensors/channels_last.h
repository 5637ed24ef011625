#pragma once

#include <cstdint>
#include <vector>

#include "nodewise/tensors/tensor_type.h"

namespace nodewise {

// Tensors have their channels, side 1, last in memory where kernels are faster
// so.

// Returns whether a tensor of this type is another one then: not if it has one
// channel, or nothing behind the channels.
bool HasLayouts(const TensorType& type);

// Returns the type of the tensor with its channels last.
// REQUIRES: its rank is known, and at least 2.
TensorType WithChannelsLast(const TensorType& type);

// Return what a Transpose is given to move the channels of a tensor of this
// rank behind the other sides, and back. REQUIRE: 2 <= rank.
std::vector<int64_t> SidesToChannelsLast(int rank);
std::vector<int64_t> SidesToChannelsFirst(int rank);

}  // namespace nodewise
