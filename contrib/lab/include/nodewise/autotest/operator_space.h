#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/autotest/choices.h"
#include "nodewise/autotest/configuration.h"
#include "nodewise/interp/exact_tensors.h"
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

// A configuration that the operator's rules accept, as a network, or as the
// gradient of one; or a whole network.
struct OperatorCase {
  Configuration configuration;
  std::shared_ptr<const Network> network;
  // For this network, where there may be such; copies draw from the same.
  std::shared_ptr<ExactSource> exact = nullptr;
  // None unless the network is a gradient.
  std::shared_ptr<const BackwardCase> backward = nullptr;
};

// Returns what a case is called: "Conv", of a network of up to three operations
// "MatMul_Add", else "network". A gradient is called after what it is of.
std::string TitleOf(const OperatorCase& made);
// Returns "Conv 11 (strides=[2, 2]) float32[1, 3, 8, 8], ...", or of a network
// its operations: "network 21: Conv, Relu, Add".
std::string ToString(const OperatorCase& made);

// Returns whether there is anything to draw: operators with bodies, those of
// nodewise itself and those that are known only to be refused have no space.
bool HasSpace(const OperatorDef& def);

// Draws a configuration once. Operators without a space of their own get one
// from their signature: inputs of one type and of shapes that broadcast, and
// attributes near their defaults. Fails with kInvalidArgument for what the
// operator's rules refuse, and with kResourceExhausted for a space that never
// comes to an end.
absl::StatusOr<OperatorCase> DrawCase(const OperatorDef& def, Choices* choices);
// Draws a case as above, or the gradient of one (BackwardOf()).
absl::StatusOr<OperatorCase> DrawCase(const OperatorDef& def, bool is_backward,
                                      Choices* choices);
// Draws a case with `draw`, which already has an opset and tensors to prefer.
absl::StatusOr<OperatorCase> DrawCase(ConfigurationDraw& draw);

// How many draws are refused before an operator counts as one that nothing can
// be drawn for.
inline constexpr int kMostRefusedDraws = 200;

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

// Inputs for a case.
struct ValueSet {
  std::vector<NDArray> inputs;
  // Every order of every sum gives the same bits with them, so that the outputs
  // are right bit for bit or wrong.
  bool is_exact = false;
};

// Draws one. Where an operator has exact inputs, half of all sets are such.
absl::StatusOr<ValueSet> DrawSet(const OperatorCase& made, Choices* choices);

}  // namespace nodewise
