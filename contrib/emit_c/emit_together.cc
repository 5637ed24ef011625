#include <utility>

#include "nodewise/emit_c/emit_c.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Adds the nodes of a graph to those of another, which computes both then.
void Append(const Graph& graph, Graph* all) {
  const auto nodes = static_cast<uint32_t>(all->nodes.size());
  const auto entries = static_cast<uint32_t>(all->entries.size());
  for (GraphNode node : graph.nodes) {
    for (EntryRef& input : node.inputs) input.node += nodes;
    for (uint32_t& dependency : node.control_deps) dependency += nodes;
    all->nodes.push_back(std::move(node));
  }
  for (const uint32_t node : graph.arg_nodes) {
    all->arg_nodes.push_back(nodes + node);
  }
  for (EntryRef head : graph.heads) {
    head.node += nodes;
    all->heads.push_back(head);
  }
  for (GraphEntry entry : graph.entries) {
    entry.storage_id = static_cast<int32_t>(all->entries.size());
    all->entries.push_back(std::move(entry));
  }
  if (all->node_row_ptr.empty()) all->node_row_ptr.push_back(0);
  for (size_t i = 1; i < graph.node_row_ptr.size(); ++i) {
    all->node_row_ptr.push_back(entries + graph.node_row_ptr[i]);
  }
}

}  // namespace

absl::StatusOr<std::string> EmitTogether(absl::Span<Graph* const> graphs,
                                         const OpSet& ops) {
  Graph all;
  for (const Graph* graph : graphs) Append(*graph, &all);
  SetBuiltInFunctions(&all);
  NODEWISE_ASSIGN_OR_RETURN(EmittedC emitted, EmitC(all, ops));
  size_t node = 0;
  for (Graph* graph : graphs) {
    ClearBuiltInFunctions(graph);
    for (GraphNode& own : graph->nodes) {
      own.function = emitted.graph.nodes[node++].function;
    }
  }
  return std::move(emitted.source);
}

}  // namespace nodewise
