#pragma once

// What the convolutions share.

#include <optional>

#include "contrib/onednn/program.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/ops/conv.h"

namespace nodewise::onednn {

// Refuses code that takes a thousand times as long as it could.
absl::Status RefuseSlow(const Planned& planned);

// The input `weights` is that of the weights.
absl::Status CheckConvRanks(const Call& call, size_t weights);
// Fills in strides, dilations and pads; refuses an output of other sizes.
absl::Status PlaceConv(const Call& call, const ops::ConvAttributes& op,
                       size_t weights, ConvSpec* spec);
// The sizes of [out, in, ...] as oneDNN has them with groups.
Sizes GroupedSizes(const Sizes& weights, int64_t group);
// Fills in all of a transposed convolution but source and output; `weights` is
// how they lie.
absl::Status PlaceConvTranspose(const Call& call, ConvSpec* spec,
                                Desc* weights);
// A description in which oneDNN chooses the order.
Desc AnyOrder(const Sizes& sizes, DataType type);

// Adds a convolution of float32 whose weights, input 1, lie as `weights` says,
// with a bias, input 2, if it is given. A batch normalization right behind it
// is folded into both. `transposed_groups` are those of a transposed
// convolution.
absl::Status AddConv(ProgramBuilder& program, ConvSpec spec,
                     const Desc& weights,
                     std::optional<int64_t> transposed_groups);

}  // namespace nodewise::onednn
