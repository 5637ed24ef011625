#include "nodewise/graph/dump_key.h"

#include "absl/strings/numbers.h"
#include "fmt/format.h"

namespace nodewise {
namespace {

constexpr std::string_view kTopoIndex = "____topo-index:";
constexpr std::string_view kOutputNum = "____output-num:";

// Parses a number as we and TVM write it: only digits, no leading zero.
bool ParseNumber(std::string_view text, uint32_t* number) {
  if (!absl::SimpleAtoi(absl::string_view(text.data(), text.size()), number)) {
    return false;
  }
  return std::to_string(*number) == text;
}

// Returns the only input of that name.
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
  // Parsed from the end, since a node's name may hold anything.
  DumpKey parsed;
  const size_t output_at = key.rfind(kOutputNum);
  if (output_at != key.npos &&
      ParseNumber(key.substr(output_at + kOutputNum.size()), &parsed.output)) {
    const std::string_view front = key.substr(0, output_at);
    const size_t index_at = front.rfind(kTopoIndex);
    if (index_at != front.npos &&
        ParseNumber(front.substr(index_at + kTopoIndex.size()),
                    &parsed.topo_index)) {
      parsed.has_topo_index = true;
      parsed.node = front.substr(0, index_at);
      return parsed;
    }
  }
  constexpr std::string_view kOldMark = "____";
  const size_t mark = key.rfind(kOldMark);
  if (mark != key.npos &&
      ParseNumber(key.substr(mark + kOldMark.size()), &parsed.output)) {
    parsed.node = key.substr(0, mark);
    return parsed;
  }
  return absl::InvalidArgumentError(fmt::format(
      "dump key {}: expected NAME____topo-index:N____output-num:N or NAME____N",
      key));
}

std::optional<NodeId> NodeOfDumpKey(const Graph& graph, std::string_view key) {
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
