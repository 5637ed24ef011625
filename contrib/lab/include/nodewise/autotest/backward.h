#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/autotest/choices.h"
#include "nodewise/autotest/operator_space.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// What a case differentiates; its network is the gradient of `forward`, as
// GradientOf() makes it.
struct BackwardCase {
  Network forward;
  // By cotangent: the output that it weighs.
  std::vector<size_t> outputs;
  // By output of the gradient: the input that it is for.
  std::vector<size_t> inputs;
};

// Draws a cotangent for each output that has one, and returns them behind the
// inputs of `backward.forward`: the inputs of `gradient`. Where sizes depend on
// numbers, they are those of what `forward` makes of the inputs; fails if it
// fails then.
absl::StatusOr<std::vector<NDArray>> WithCotangents(
    const BackwardCase& backward, const Network& gradient,
    std::vector<NDArray> inputs, Choices* choices);

// Returns whether gradients of the operator can be drawn.
bool HasBackwardSpace(const OperatorDef& def);

// Returns the gradient of a case for all its inputs that are floats and not
// decided on by the configuration. What the configuration has decided on is a
// constant in it, since it may decide on shapes. From a network, operations
// without a gradient are left out: what they read becomes an output of the
// rest, and what they make an input.
//
// Fails with kUnimplemented for a use of the operator that has no gradient, or
// a network in which nothing has one, and with kInvalidArgument for a case
// without such inputs or without a float among its outputs, or a network whose
// outputs reach no input.
absl::StatusOr<OperatorCase> BackwardOf(const OperatorCase& made);

}  // namespace nodewise
