#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "contrib/onnx/onnx_messages.h"
#include "nodewise/ops/opaque.h"

namespace nodewise {

// Nodes that are kept as they are, and get other names when they are written
// again.

// Returns the names of the values that the node's bodies read from around the
// node, each once.
std::vector<std::string> CapturesOf(const proto::Node& node);

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
