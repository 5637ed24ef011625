#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/graph/graph_json.h"

namespace nodewise {

// Returns a graph of the node alone, under its own name: an input for each of
// its inputs, called as `input_names` says, and all that it makes as outputs.
// Each tensor has memory of its own.
absl::StatusOr<Graph> GraphOfNode(const Graph& graph, NodeId node,
                                  const std::vector<std::string>& input_names);

// Returns the graph as it is read back from its own text, with all checks.
absl::StatusOr<Graph> ReadBack(const Graph& graph);

// Returns the keys of the function nodes whose name, key or function one of the
// expressions is found in, in the order of the graph; none without expressions.
// Fails with kInvalidArgument for what is not a regular expression of RE2, and
// with kNotFound for one that is found nowhere.
absl::StatusOr<std::vector<std::string>> ChooseNodes(
    const GraphIndex& index, absl::Span<const std::string> expressions);

}  // namespace nodewise
