#pragma once

// What normalizations by channel, side 1 of the input, have in common.

#include <cstdint>

#include "nodewise/op/shape_rules.h"

namespace nodewise {

// Returns the channels of an input; a list without channels is one channel.
int64_t ChannelsOf(absl::Span<const int64_t> shape);
// Returns the elements of a channel of one item.
int64_t SpatialOf(absl::Span<const int64_t> shape);
Dim ChannelDim(const TensorType& type);
// Requires input `i` to be a float list of `count` numbers.
absl::Status RequireList(const Inputs& in, size_t i, const Dim& count);

}  // namespace nodewise
