#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// A network that computes what reaches some inputs of another one if all of its
// outputs are weighted: the products of the weights (cotangents) with the
// network's Jacobian. It consists of ONNX's own operators, so everything that
// runs networks runs gradients, and the reference says how far they may be off.
struct GradientNetwork {
  // Its inputs are those of the other network, then the cotangents, each named
  // "cotangent_NAME" after its output and of its type. Its outputs are named
  // "gradient_NAME" after the inputs that they are for.
  Network network;
  // By cotangent: which output of the other network it weighs. Outputs that are
  // not floats have none.
  std::vector<size_t> outputs;
  // By output: which input of the other network it is for.
  std::vector<size_t> inputs;
};

// Returns the gradient for these inputs of the network, which must be floats.
// Where nothing that can be differentiated reads an input, its gradient is a
// constant of zeros. At kinks a gradient is one of the two that meet there;
// among equal elements the first counts as the largest. Networks below opset 16
// are raised to it.
//
// Fails with kUnimplemented, naming the operation, for an operator that has no
// rule, or not for this use of it; with kFailedPrecondition if sizes are not
// known; with kInvalidArgument for an input that is not a float, or a network
// without a float among its outputs.
absl::StatusOr<GradientNetwork> GradientOf(const Network& network,
                                           absl::Span<const size_t> inputs);

// Returns the network with every operator that has a definition written in the
// simpler ones that it is defined by, as far as it depends on these inputs:
// what is differentiated in its place. It computes the same up to roundings.
// Fails as GradientOf does.
absl::StatusOr<Network> WrittenOut(const Network& network,
                                   absl::Span<const size_t> inputs);

// Returns the inputs that are floats, in their order.
std::vector<size_t> FloatInputs(const Network& network);

// How the gradient of an operator is found.
enum class GradientKind {
  kRule,        // It is written down.
  kDefinition,  // From what the operator is in simpler operators.
  kZero,        // It is zero wherever it is not infinite.
};
// Returns none for an operator that has no gradient yet, and for one that needs
// none, since it reads or makes no floats. Versions of an operator whose
// attributes are others than today's have none of their own; where they can be
// raised to opset 16, that is not needed.
std::optional<GradientKind> GradientKindOf(const OperatorDef& def);
// Returns the names of the operators that make floats of floats and are known
// to have no gradient yet, in ascending order: GradientOf fails where what is
// differentiated goes through one of them. The list stands in gradient.cc; it
// is valid for ever.
absl::Span<const std::string_view> OperatorsWithoutGradient();

}  // namespace nodewise
