#include "nodewise/runner/node_graph.h"

#include <re2/re2.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

bool IsFound(const GraphIndex& index, NodeId node, const RE2& expression) {
  const GraphNode& called = index.graph().node(node);
  return RE2::PartialMatch(called.name, expression) ||
         RE2::PartialMatch(called.function, expression) ||
         RE2::PartialMatch(index.KeyOf(node), expression);
}

}  // namespace

absl::StatusOr<Region> RegionOfNode(const Graph& graph, NodeId id,
                                    const OpSet& ops) {
  const GraphNode& node = graph.node(id);
  std::vector<EntryId> entries;
  for (const EntryRef& ref : node.inputs) entries.push_back(graph.EntryOf(ref));
  std::ranges::copy(EntriesMadeBy(graph, id), std::back_inserter(entries));
  // Only the types count, so the tensors have no contents, and their shapes are
  // those of the graph, which are not written to.
  std::vector<DLTensor> tensors(entries.size());
  std::vector<const DLTensor*> arguments;
  for (size_t i = 0; i < entries.size(); ++i) {
    const GraphEntry& entry = graph.entry(entries[i]);
    DLTensor& tensor = tensors[i];
    tensor.device = kCpu;
    tensor.ndim = static_cast<int32_t>(entry.shape.size());
    tensor.shape = const_cast<int64_t*>(entry.shape.data());
    tensor.dtype = entry.dtype;
    arguments.push_back(&tensor);
  }
  return RegionOf({node.function, node.attrs, arguments, graph.OutputsOf(id)},
                  ops);
}

// A nop shares its input's memory, and a copy moves between devices: TVM's
// executor does both itself.
bool CallsLibrary(const GraphNode& node) {
  return node.kind == GraphNode::Kind::kFunction &&
         node.function != kNopFunction && node.function != kCopyFunction;
}

int32_t FirstFreeStorageId(const Graph& graph) {
  int32_t next = 0;
  for (const GraphEntry& entry : graph.entries) {
    next = std::max(next, entry.storage_id + 1);
  }
  return next;
}

absl::StatusOr<Graph> GraphOfNode(const Graph& graph, NodeId id,
                                  const std::vector<std::string>& input_names) {
  Graph alone;
  int32_t storage_id = FirstFreeStorageId(graph);
  const auto add_entry = [&](EntryId entry) {
    alone.entries.push_back(graph.entry(entry));
    alone.entries.back().storage_id = storage_id++;
  };
  // Nodes that it waits for are not in the new graph, and it runs alone there.
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
  // The mark says that no library lies beside the graph; readers would look for
  // one without it.
  if (HasBuiltInFunctions(graph)) SetBuiltInFunctions(&alone);
  // The graph is put together by hand here, so it goes through the checks that
  // a file would go through.
  return ReadBack(alone);
}

absl::StatusOr<Graph> ReadBack(const Graph& graph) {
  return ParseGraph(GraphText::FromString("graph.json", WriteGraph(graph)));
}

absl::StatusOr<std::vector<std::string>> ChooseNodes(
    const GraphIndex& index, absl::Span<const std::string> expressions) {
  const Graph& graph = index.graph();
  // By node and not by expression: nodes come out in the order of the graph,
  // each once.
  ByNode<bool> is_chosen(graph);
  // Names come from files, and may be any bytes.
  RE2::Options options(RE2::Latin1);
  options.set_log_errors(false);
  for (const std::string& text : expressions) {
    const RE2 expression(text, options);
    if (!expression.ok()) {
      return InvalidArgument("\"{}\" is not a regular expression of RE2: {}",
                             text, expression.error());
    }
    bool is_found = false;
    for (const NodeId node : FunctionNodesOf(graph)) {
      if (!IsFound(index, node, expression)) continue;
      is_chosen[node] = is_found = true;
    }
    if (is_found) continue;
    return NotFound(
        "\"{}\" is found in no function node's name, expected a regular "
        "expression of nodes' names",
        text);
  }
  std::vector<std::string> keys;
  for (const NodeId node : AllNodes(graph)) {
    if (is_chosen[node]) keys.push_back(index.KeyOf(node));
  }
  return keys;
}

}  // namespace nodewise
