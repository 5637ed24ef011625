#include "nodewise/graph/dump_key.h"

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// A key reads "conv____topo-index:3____output-num:0". TVM 0.8 wrote
// "conv____0", with the output alone.
constexpr std::string_view kTopoIndex = "____topo-index:";
constexpr std::string_view kOutputNum = "____output-num:";

// Parses a number as we and TVM write it: only digits, no leading zero. A name
// may end in what looks like a part of a key; the form is strict, so that no
// other text is taken for one.
bool ParseNumber(std::string_view text, uint32_t* number) {
  if (!absl::SimpleAtoi(absl::string_view(text.data(), text.size()), number)) {
    return false;
  }
  return std::to_string(*number) == text;
}

// Takes a mark and the number behind it off the end of a key; returns false if
// it does not end so. Read from the end, since a node's name may hold anything.
bool TakeNumber(std::string_view mark, std::string_view* key,
                uint32_t* number) {
  const size_t at = key->rfind(mark);
  if (at == key->npos) return false;
  if (!ParseNumber(key->substr(at + mark.size()), number)) return false;
  *key = key->substr(0, at);
  return true;
}

// Returns the only input of that name. Without a number, two inputs of that
// name cannot be told apart.
std::optional<NodeId> InputNamed(const Graph& graph, std::string_view name) {
  std::optional<NodeId> found;
  for (const uint32_t node : graph.arg_nodes) {
    if (graph.nodes[node].name != name) continue;
    if (found.has_value()) return std::nullopt;
    found = NodeId{node};
  }
  return found;
}

}  // namespace

std::string DumpKeyOf(std::string_view node, NodeId id, uint32_t output) {
  return fmt::format("{}{}{}{}{}", node, kTopoIndex, Index(id), kOutputNum,
                     output);
}

absl::StatusOr<DumpKey> ParseDumpKey(std::string_view key) {
  DumpKey parsed;
  std::string_view node = key;
  parsed.has_topo_index = TakeNumber(kOutputNum, &node, &parsed.output) &&
                          TakeNumber(kTopoIndex, &node, &parsed.topo_index);
  if (!parsed.has_topo_index) node = key;
  if (parsed.has_topo_index || TakeNumber("____", &node, &parsed.output)) {
    parsed.node = node;
    return parsed;
  }
  return InvalidArgument(
      "dump key {}: expected NAME____topo-index:N____output-num:N or NAME____N",
      key);
}

std::optional<NodeId> NodeOfDumpKey(const Graph& graph, std::string_view key) {
  // Not every name in a params file is a key.
  const auto parts = ParseDumpKey(key);
  if (!parts.ok()) return std::nullopt;
  if (!parts->has_topo_index) {
    if (parts->output > 0) return std::nullopt;
    return InputNamed(graph, parts->node);
  }
  if (parts->topo_index >= graph.nodes.size()) return std::nullopt;
  const NodeId node{parts->topo_index};
  if (graph.node(node).name != parts->node) return std::nullopt;
  if (parts->output >= graph.OutputsOf(node)) return std::nullopt;
  return node;
}

}  // namespace nodewise
