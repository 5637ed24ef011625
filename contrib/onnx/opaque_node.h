#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/onnx/external_data.h"
#include "contrib/onnx/onnx_types.h"
#include "nodewise/ops/opaque.h"

namespace nodewise {

// Nodes that are kept as they are: making one stand by itself, and giving it
// other names when it is written again.

// Puts values in the place of references to a function's attributes, in bodies
// too. `value_of` returns the value for a name, or null if the call gives none.
void ResolveAttributes(
    absl::FunctionRef<const proto::Attribute*(const std::string&)> value_of,
    proto::Node* node);

// Brings data that lie in other files into the node, in bodies too. Fails as
// TensorReader, and with kUnimplemented for a node that may have bodies or
// tensors which are not read here.
absl::Status BringDataIn(TensorReader* tensors, proto::Node* node);

// Returns the names of the values that the node's bodies read from around the
// node, each once.
std::vector<std::string> CapturesOf(const proto::Node& node);

// Calls `visit` with all nodes in the node's bodies, however deep.
void VisitBodyNodes(const proto::Node& node,
                    absl::FunctionRef<void(const proto::Node&)> visit);

// What an opaque operation is to be called, and what it reads and makes: ""
// for inputs that are not given and outputs that are not wanted.
struct NodeNames {
  std::string name;
  std::vector<std::string> inputs;  // Captures last.
  std::vector<std::string> outputs;
};

// Returns the node with other names. Fails with kDataLoss for bytes that are no
// such node, and with kInvalidArgument if a name means something else in one of
// its bodies.
absl::StatusOr<proto::Node> NodeOf(const ops::Opaque& opaque,
                                   const NodeNames& names);

}  // namespace nodewise
