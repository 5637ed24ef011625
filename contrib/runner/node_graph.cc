#include "nodewise/runner/node_graph.h"

#include <algorithm>
#include <utility>

#include "nodewise/graph/graph_json.h"

namespace nodewise {
namespace {

// Ids that the source graph does not use: a library may have data for those
// that it does (TVM 0.8).
int32_t FirstFreeStorageId(const Graph& graph) {
  int32_t next = 0;
  for (const GraphEntry& entry : graph.entries) {
    next = std::max(next, entry.storage_id + 1);
  }
  return next;
}

}  // namespace

absl::StatusOr<Graph> GraphOfNode(const Graph& graph, NodeId id,
                                  const std::vector<std::string>& input_names) {
  Graph alone;
  int32_t storage_id = FirstFreeStorageId(graph);
  const auto add_entry = [&](EntryId entry) {
    alone.entries.push_back(graph.entry(entry));
    alone.entries.back().storage_id = storage_id++;
  };
  GraphNode node = graph.node(id);
  node.control_deps.clear();
  for (uint32_t slot = 0; slot < node.inputs.size(); ++slot) {
    GraphNode input;
    input.name = input_names[slot];
    alone.nodes.push_back(std::move(input));
    alone.arg_nodes.push_back(slot);
    alone.node_row_ptr.push_back(slot);
    add_entry(graph.EntryOf(node.inputs[slot]));
    node.inputs[slot] = {slot, 0, 0};
  }
  const auto number = static_cast<uint32_t>(node.inputs.size());
  alone.nodes.push_back(std::move(node));
  alone.node_row_ptr.push_back(number);
  for (uint32_t slot = 0; slot < graph.OutputsOf(id); ++slot) {
    add_entry(graph.EntryOf(id, slot));
    alone.heads.push_back({number, slot, 0});
  }
  alone.node_row_ptr.push_back(static_cast<uint32_t>(alone.entries.size()));
  alone.has_device_index = graph.has_device_index;
  if (HasBuiltInFunctions(graph)) SetBuiltInFunctions(&alone);
  return ReadBack(alone);
}

absl::StatusOr<Graph> ReadBack(const Graph& graph) {
  return ParseGraph(GraphText::FromString("graph.json", WriteGraph(graph)));
}

}  // namespace nodewise
