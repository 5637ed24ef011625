#pragma once

// Activations and binary operators: as operations of their own, and fused
// behind others.

#include <functional>
#include <optional>
#include <vector>

#include "contrib/onednn/call.h"
#include "contrib/onednn/program.h"

namespace nodewise::onednn {

// An operator of one tensor as oneDNN has it.
struct Activation {
  std::vector<PostOp> parts;  // One after the other.
  // Where the kernel is as accurate as the operator's bound says.
  float least = std::numeric_limits<float>::lowest();
  float most = std::numeric_limits<float>::max();
  // False: its accuracy depends on the range, which is not known of a value
  // inside a kernel.
  bool can_follow = true;
  bool hides_nan = true;
};
// Inputs `first_other` up to `end` are those after its first. Refuses operators
// that are not activations.
absl::StatusOr<Activation> ActivationOf(const OpAttrs& op, size_t first_other,
                                        size_t end, ProgramBuilder& program);

struct BinaryOperator {
  Algorithm algorithm = Algorithm::undef;
  bool hides_nan = false;
  bool commutes = false;
};
std::optional<BinaryOperator> BinaryOf(const OpAttrs& op);

// What is fused behind a primitive: the attributes, and the arguments of a run.
struct Fused {
  Attributes attributes;
  std::vector<std::pair<int, Value>> arguments;
};
// Describes an operand of a fused operation as the primitive sees its output.
using DescOfOther = std::function<absl::StatusOr<Desc>(size_t input)>;
// Reads the call's post-operations; those of `before` come first. `terms` is as
// in Guard.
absl::StatusOr<Fused> FusePostOps(ProgramBuilder& program, double terms,
                                  const DescOfOther& desc_of_other,
                                  std::vector<PostOp> before = {},
                                  size_t done = 0);
// Reads the post-operations for primitives whose output has the call's own
// sizes and layout. The first `done` post-operations are in the primitive
// already.
absl::StatusOr<Fused> FusePostOps(ProgramBuilder& program, double terms,
                                  std::vector<PostOp> before = {},
                                  size_t done = 0);

// Describes input `i`, broadcast, beside a tensor of these sizes and layout.
absl::StatusOr<Desc> BroadcastDesc(const Call& call, size_t i,
                                   const Sizes& sizes, TensorLayout layout);

absl::Status BuildActivation(ProgramBuilder& program);
absl::Status BuildBinary(ProgramBuilder& program);

}  // namespace nodewise::onednn
