// How nodes and entries are called.

#include <charconv>
#include <optional>
#include <unordered_map>

#include "fmt/format.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

std::optional<uint32_t> NumberIn(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

}  // namespace

std::string NodeTitle(const Graph& graph, NodeId node) {
  return fmt::format("node {} ({})", Index(node), graph.node(node).name);
}

std::vector<std::string> NodeKeys(const Graph& graph) {
  std::unordered_map<std::string_view, size_t> uses;
  for (const GraphNode& node : graph.nodes) ++uses[node.name];
  std::vector<std::string> keys;
  keys.reserve(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const std::string& name = graph.nodes[i].name;
    std::string key = name;
    // A node may be called "a#1" while two others are called "a".
    for (bool taken = uses[name] > 1; taken; taken = uses.count(key) > 0) {
      key += fmt::format("#{}", i);
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

absl::StatusOr<NodeId> FindNode(const Graph& graph, std::string_view key) {
  const std::vector<std::string> keys = NodeKeys(graph);
  std::vector<std::string> same_name;
  for (uint32_t n = 0; n < keys.size(); ++n) {
    if (keys[n] == key) return NodeId{n};
    if (graph.nodes[n].name == key) same_name.push_back(keys[n]);
  }
  if (!same_name.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("node {}: {} nodes have that name, expected one of {}", key,
                    same_name.size(), ListOf(same_name)));
  }
  if (key.starts_with('#')) {
    const std::optional<uint32_t> number = NumberIn(key.substr(1));
    if (number.has_value() && *number < graph.nodes.size()) {
      return NodeId{*number};
    }
    return absl::NotFoundError(fmt::format("node {}: the graph has {} nodes",
                                           key, graph.nodes.size()));
  }
  return absl::NotFoundError(fmt::format(
      "node {}: the graph has no such node{}", key, DidYouMean(key, keys)));
}

absl::StatusOr<EntryId> FindEntry(const Graph& graph, std::string_view key) {
  auto node = FindNode(graph, key);
  std::string_view name = key;
  uint32_t output = 0;
  const size_t colon = key.rfind(':');
  if (absl::IsNotFound(node.status()) && colon != key.npos) {
    const std::optional<uint32_t> number = NumberIn(key.substr(colon + 1));
    if (!number.has_value()) return node.status();
    output = *number;
    name = key.substr(0, colon);
    node = FindNode(graph, name);
  }
  NODEWISE_RETURN_IF_ERROR(node.status());
  if (output < graph.OutputsOf(*node)) return graph.EntryOf(*node, output);
  return absl::OutOfRangeError(fmt::format("output {} of node {}, which has {}",
                                           output, name,
                                           graph.OutputsOf(*node)));
}

}  // namespace nodewise
