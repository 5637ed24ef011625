#include "nodewise/runner/node_choice.h"

#include <re2/re2.h>

#include "fmt/format.h"

namespace nodewise {
namespace {

bool IsFound(const GraphIndex& index, NodeId node, const RE2& expression) {
  const GraphNode& called = index.graph().node(node);
  return RE2::PartialMatch(called.name, expression) ||
         RE2::PartialMatch(called.function, expression) ||
         RE2::PartialMatch(index.KeyOf(node), expression);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ChooseNodes(
    const GraphIndex& index, absl::Span<const std::string> expressions) {
  const Graph& graph = index.graph();
  std::vector<bool> is_chosen(graph.nodes.size());
  // Names come from files, and may be any bytes.
  RE2::Options options(RE2::Latin1);
  options.set_log_errors(false);
  for (const std::string& text : expressions) {
    const RE2 expression(text, options);
    if (!expression.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("\"{}\" is not a regular expression of RE2: {}", text,
                      expression.error()));
    }
    bool is_found = false;
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
      if (!graph.IsFunction(NodeId{n})) continue;
      if (!IsFound(index, NodeId{n}, expression)) continue;
      is_chosen[n] = is_found = true;
    }
    if (is_found) continue;
    return absl::NotFoundError(
        fmt::format("\"{}\" is found in no function node's name, expected a "
                    "regular expression of nodes' names",
                    text));
  }
  std::vector<std::string> keys;
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    if (is_chosen[n]) keys.push_back(index.KeyOf(NodeId{n}));
  }
  return keys;
}

}  // namespace nodewise
