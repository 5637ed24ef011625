#pragma once

// The functions of the table of operators (onednn_ops.cc), and what the
// families of operators use of each other.

#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "contrib/onednn/call.h"
#include "contrib/onednn/program.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/pool.h"

namespace nodewise::onednn {

// Activations and binary operators: as operations of their own, and fused
// behind others.

// An operator of one tensor as oneDNN has it.
struct Activation {
  std::vector<PostOp> parts;  // One after the other.
  // Up to which absolute value the kernel is as accurate as the operator's
  // bound says.
  float most = std::numeric_limits<float>::max();
  // False: its accuracy depends on the range, which is not known of a value
  // inside a kernel.
  bool can_follow = true;
};
// Returns those whose attributes are all there is to them; none for others.
std::optional<Activation> FunctionOf(const OpAttrs& op);

// The operations fused behind a primitive: the attributes, and the arguments of
// a run.
struct Fused {
  Attributes attributes;
  Arguments arguments;
};
// Describes an operand of a fused operation as the primitive sees its output.
using DescOfOther = std::function<absl::StatusOr<Desc>(size_t input)>;
// Reads the call's post-operations; those of `before` come first. `terms` is as
// in Guard. The first `done` post-operations are in the primitive already.
// Without `desc_of_other` the output has the call's own sizes and layout.
absl::StatusOr<Fused> FusePostOps(ProgramBuilder& program, double terms,
                                  std::vector<PostOp> before = {},
                                  size_t done = 0,
                                  const DescOfOther& desc_of_other = nullptr);

// Describes input `i`, broadcast, beside a tensor of these sizes and layout.
absl::StatusOr<Desc> BroadcastDesc(const Call& call, size_t i,
                                   const Sizes& sizes, TensorLayout layout);

absl::Status BuildActivation(ProgramBuilder& program);
absl::Status BuildBinary(ProgramBuilder& program);

// Convolutions and pools.

// Refuses code that takes a thousand times as long as it could.
absl::Status RefuseSlow(const Planned& planned);
// The input `weights` is that of the weights.
absl::Status CheckConvRanks(const Call& call, size_t weights);
// Fills in strides, dilations and pads, and that oneDNN chooses the order of
// the weights, which are of this type; refuses an output of other sizes.
// Returns the sizes of the weights as oneDNN has them with groups.
absl::StatusOr<Sizes> PlaceConv(const Call& call, const ops::ConvAttributes& op,
                                size_t weights, DataType type, ConvSpec* spec);
// Fills in all of a transposed convolution but source and output. Returns how
// the weights lie.
absl::StatusOr<Desc> PlaceConvTranspose(const Call& call, ConvSpec* spec);
// Places the windows of a pool; `reaches_beyond` tells whether the last of them
// ends beyond the padding that the operator has.
absl::StatusOr<PoolSpec> PlacePool(const Call& call,
                                   const ops::PoolAttributes& op,
                                   Algorithm algorithm, bool* reaches_beyond);
// Returns oneDNN's algorithm for the operator.
Algorithm AverageOf(const ops::AveragePool& op);
// Returns a pool over all places.
PoolSpec GlobalPool(const Call& call, Algorithm algorithm);

absl::Status BuildConv(ProgramBuilder& program);
absl::Status BuildConvTranspose(ProgramBuilder& program);
absl::Status BuildMaxPool(ProgramBuilder& program);
absl::Status BuildAveragePool(ProgramBuilder& program);
absl::Status BuildGlobalPool(ProgramBuilder& program);

// Products of matrices.

// The sizes of a product, with as many sides each.
struct MatMulSizes {
  Sizes left;
  Sizes right;
  Sizes output;
};
// NumPy's rules for inputs `left` and `right`; folded, if it can be: all but
// the last two sides of the left are rows of one matrix.
MatMulSizes SizesOfMatMul(const Call& call, size_t left, size_t right,
                          bool may_fold);

absl::Status BuildMatMul(ProgramBuilder& program);
absl::Status BuildGemm(ProgramBuilder& program);

// Integers with scales.
absl::Status BuildQuantize(ProgramBuilder& program);
absl::Status BuildDequantize(ProgramBuilder& program);
absl::Status BuildConvInteger(ProgramBuilder& program);
absl::Status BuildQLinearConv(ProgramBuilder& program);
absl::Status BuildMatMulInteger(ProgramBuilder& program);
absl::Status BuildQLinearMatMul(ProgramBuilder& program);

// Operators that calculate along sides: normalizations, probabilities,
// reductions.

// Returns the epsilon of a batch normalization that neither trains nor has
// statistics of each element; refuses others.
absl::StatusOr<float> BatchNormEpsilon(const OpAttrs& attrs);
// Returns the sizes of one matrix, whose rows are the sides before `axis`.
absl::StatusOr<Sizes> RowsBefore(const Sizes& sizes, int64_t axis);

absl::Status BuildBatchNorm(ProgramBuilder& program);
absl::Status BuildLayerNorm(ProgramBuilder& program);
absl::Status BuildLrn(ProgramBuilder& program);
absl::Status BuildSoftmax(ProgramBuilder& program);
absl::Status BuildReduction(ProgramBuilder& program);

// Operators that move elements, or change their type.
absl::Status BuildConcat(ProgramBuilder& program);
absl::Status BuildTranspose(ProgramBuilder& program);
// Keep the elements and their order: Reshape, Flatten, Squeeze, Unsqueeze.
absl::Status BuildReshape(ProgramBuilder& program);
// From one layout to the other.
absl::Status BuildIdentity(ProgramBuilder& program);
absl::Status BuildCast(ProgramBuilder& program);

// Resize and Upsample (resize.cc).
absl::Status BuildResize(ProgramBuilder& program);

}  // namespace nodewise::onednn
