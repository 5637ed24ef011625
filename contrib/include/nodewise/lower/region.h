#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/ir/network.h"
#include "nodewise/module/module.h"

namespace nodewise {

// A part of a network that one node of a graph computes: one operation, or
// several that are fused. It travels in the node's own attributes as the text
// of a network (docs/formats/graph_json.md), so that any part can be a node.
struct Region {
  // Named after the node. Its inputs are the node's, and its outputs too, in
  // their order. Constants that decide the types of something are in it; all
  // others are inputs.
  Network network;
  // The types of the outputs, with all sizes, which the network alone need not
  // give: they may depend on what the inputs hold.
  std::vector<TensorType> outputs;
  // By input: it is a constant of the source network, such as a weight. It may
  // still be replaced while debugging.
  std::vector<bool> is_constant;
  // The names of the source network's operations that it covers.
  std::vector<std::string> covers;
  // By input, what the executor says about changes, for kernels that keep
  // something made of it: KernelRequest::changes. Empty if it says nothing.
  std::vector<std::shared_ptr<const TensorChanges>> changes = {};
};

// Returns those of the region's operations that the source network has, in
// their order: not the Transposes that only say in which order a tensor lies.
std::vector<OperationId> SourceOperations(const Region& region);

// Returns the attributes of a node that computes the region.
std::vector<std::pair<std::string, std::string>> AttributesOf(
    const Region& region);

// Returns those of a node's attributes that say its region, as one text, equal
// for equal regions.
std::string RegionText(
    absl::Span<const std::pair<std::string, std::string>> attributes);

// Returns whether the node says which region it computes, right or wrong. Those
// of other compilers do not.
bool DeclaresRegion(const GraphNode& node);

// Reads a region from the attributes of a node, which may come from anywhere,
// and checks it against the node's tensors. Fails with kInvalidArgument or
// kDataLoss, saying which attribute is wrong, or which tensor does not fit it.
absl::StatusOr<Region> RegionOf(const KernelRequest& request, const OpSet& ops);

}  // namespace nodewise
