#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/graph/graph_json.h"

namespace nodewise {

// Returns a graph of the node alone, under its own name: an input for each of
// its inputs, called as `input_names` says, and all that it makes as outputs.
// Each tensor has memory of its own.
absl::StatusOr<Graph> GraphOfNode(const Graph& graph, NodeId node,
                                  const std::vector<std::string>& input_names);

// Returns the graph as it is read back from its own text, with all checks.
absl::StatusOr<Graph> ReadBack(const Graph& graph);

}  // namespace nodewise
