#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/lower/region.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// Returns a graph of the node alone, under its own name: an input for each of
// its inputs, called as `input_names` says, and all that it makes as outputs.
// Each tensor has memory of its own.
absl::StatusOr<Graph> GraphOfNode(const Graph& graph, NodeId node,
                                  const std::vector<std::string>& input_names);

// Returns what a node of a graph computes, as its attributes say. Fails as
// RegionOf(). REQUIRES: the node is a function that is called.
absl::StatusOr<Region> RegionOfNode(const Graph& graph, NodeId node,
                                    const OpSet& ops);

// Returns whether a node calls a function of its library: others are inputs, or
// only give a tensor another name or place.
bool CallsLibrary(const GraphNode& node);

// Returns the first storage id behind those that the graph uses: a library may
// have data for these (TVM 0.8).
int32_t FirstFreeStorageId(const Graph& graph);

// Returns the graph as it is read back from its own text, with all checks.
absl::StatusOr<Graph> ReadBack(const Graph& graph);

// Returns the keys of the function nodes whose name, key or function one of the
// expressions is found in, in the order of the graph; none without expressions.
// Fails with kInvalidArgument for what is not a regular expression of RE2, and
// with kNotFound for one that is found nowhere.
absl::StatusOr<std::vector<std::string>> ChooseNodes(
    const GraphIndex& index, absl::Span<const std::string> expressions);

}  // namespace nodewise
