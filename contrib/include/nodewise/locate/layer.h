#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/lower/region.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// A layer: a function node of a compiled network, as people speak of it.
struct Layer {
  NodeId node{};
  std::string name;  // GraphIndex::KeyOf().
  // The operators in it: "Conv", or "Conv+Relu" for a node that two operations
  // are fused into.
  std::string kind;
  // What its inputs and outputs are called in the operators' signatures: "X",
  // "W", "B" and "Y". All different: a second "B" is "B_2", and so is an output
  // that is called as an input. By entry that the
  // node reads, each once, and by output.
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<std::string> covers;  // The network's operations in it.
};

// Returns whether a node is a layer: a function that is called.
bool IsLayer(const Graph& graph, NodeId node);

// Returns what the node computes, as its attributes say. Fails as RegionOf().
// REQUIRES: IsLayer(graph, node).
absl::StatusOr<Region> RegionOfNode(const Graph& graph, NodeId node,
                                    const OpSet& ops);

// Returns the layer alone as a network. Its inputs and outputs are called as
// their roles are, in the order of Layer::inputs and Layer::outputs, so that
// files of tensors named by roles go with it. Fails as RegionOfNode().
absl::StatusOr<Network> NetworkOfLayer(const Graph& graph, const Layer& layer,
                                       const OpSet& ops);

// Describes the layer. Fails as RegionOfNode(), naming the node.
absl::StatusOr<Layer> DescribeLayer(const GraphIndex& index, NodeId node,
                                    const OpSet& ops);

// Returns the call that an operation or a value belongs to, by its name; null
// if it is in none.
const ImportedCall* CallOf(absl::Span<const ImportedCall> calls,
                           const std::string& name);

// Calls a layer that is all of one call as that is called, with its kind and
// roles. Fails as RegionOfNode().
absl::Status NameByCall(const Graph& graph,
                        absl::Span<const ImportedCall> calls, const OpSet& ops,
                        Layer* layer);

}  // namespace nodewise
