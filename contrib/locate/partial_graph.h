#pragma once

#include <vector>

#include "nodewise/graph/graph_json.h"

namespace nodewise {

// Parts of a graph as graphs of their own, sound if the graph is. Nodes keep
// their names and attributes, so that one library has the functions of both.

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

// Returns the entries that a node reads, each once, in the order of its inputs.
std::vector<EntryId> EntriesReadBy(const Graph& graph, NodeId node);

// Returns the graph with tensors that share memory only where the first is not
// needed any more when the second is made, regardless of the graph's own plan.
Graph WithSoundStorage(Graph graph);

}  // namespace nodewise
