#include "nodewise/graph/param_names.h"

#include "nodewise/graph/dump_key.h"
#include "nodewise/ndarray/dtype.h"

namespace nodewise {

ParamNames::ParamNames(const Graph& graph) : graph_(graph) {
  for (size_t i = 0; i < graph.arg_nodes.size(); ++i) {
    by_name_[graph.nodes[graph.arg_nodes[i]].name].push_back(i);
    by_node_[graph.arg_nodes[i]] = i;
  }
}

ParamNames::Meaning ParamNames::Find(std::string_view name,
                                     absl::Span<const int64_t> shape,
                                     DLDataType dtype) const {
  const auto named = by_name_.find(name);
  if (named != by_name_.end()) {
    return {Kind::kInput, ChooseParam(graph_, named->second, shape, dtype)};
  }
  const auto node = NodeOfDumpKey(graph_, name);
  if (!node.has_value()) return {};
  const auto dumped = by_node_.find(Index(*node));
  if (dumped == by_node_.end()) return {Kind::kComputed};
  return {Kind::kInput, dumped->second};
}

size_t ChooseParam(const Graph& graph, absl::Span<const size_t> inputs,
                   absl::Span<const int64_t> shape, DLDataType dtype) {
  // Relay calls its constants p0, p1, ... even where the user has an input of
  // that name: the type tells them apart, and if it does not, the last is the
  // constant, as TVM takes it.
  size_t chosen = inputs.back();
  for (const size_t input : inputs) {
    const NodeId node{graph.arg_nodes[input]};
    const GraphEntry& entry = graph.entry(graph.EntryOf(node, 0));
    if (IsSameType(dtype, entry.dtype) &&
        shape == absl::MakeConstSpan(entry.shape)) {
      chosen = input;
    }
  }
  return chosen;
}

}  // namespace nodewise
