#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/graph/params.h"
#include "nodewise/ir/network.h"
#include "nodewise/lower/region.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// Parts of a graph.

// Returns the entries that a node reads, each once, in the order of its inputs.
std::vector<EntryId> EntriesReadBy(const Graph& graph, NodeId node);

// Returns what a node computes, by the tensors that it read and made in a run.
// Fails as RegionOf().
absl::StatusOr<Region> RegionOfTensors(const GraphNode& node,
                                       absl::Span<const NDArray> read,
                                       absl::Span<const NDArray> made,
                                       const OpSet& ops);

// Returns what a region is given for a value that it does not compute: one of
// these inputs, or a constant. Undefined for kNoValue.
NDArray GivenFor(ValueId id, const Network& region,
                 absl::Span<const NDArray> inputs);

// The next two return parts as graphs of their own, sound if the graph is.
// Nodes keep their names and attributes, so that one library has the functions
// of both.

// Returns the node and all that it depends on, in the memory that the graph's
// own plan gives them; its outputs are the outputs. The node is the last one.
// `nodes` gets the number that each node of the part has in the graph; it may
// be null.
Graph GraphUpTo(const Graph& graph, NodeId last,
                std::vector<NodeId>* nodes = nullptr);

// Returns the node alone, with memory of its own for each tensor. Its inputs
// are called input0, input1, ...: one for each entry that EntriesReadBy()
// lists.
Graph GraphOfOne(const Graph& graph, NodeId node);

// Returns the graph with tensors that share memory only where the first is not
// needed any more when the second is made, regardless of the graph's own plan.
Graph WithSoundStorage(Graph graph);

// Returns the bytes of the largest set of tensors that are alive at once in a
// run of the graph: while a node runs, what it reads and makes, and what a
// later node or the caller still reads. Parameters do not count. REQUIRES: the
// graph is sound (CheckGraph).
uint64_t LargestLiveSet(const Graph& graph, const Params& params);

}  // namespace nodewise
