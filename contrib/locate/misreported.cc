#include "contrib/locate/misreported.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "nodewise/graph/by_node.h"
#include "nodewise/locate/verdict.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

const NodeCheck* CheckOf(const NodeChecks& checks, NodeId node) {
  const auto found =
      std::find_if(checks.nodes.begin(), checks.nodes.end(),
                   [&](const NodeCheck& check) { return check.node == node; });
  return found == checks.nodes.end() ? nullptr : &*found;
}

bool IsHead(const Graph& graph, EntryId entry) {
  return std::any_of(
      graph.heads.begin(), graph.heads.end(),
      [&](const EntryRef& head) { return graph.EntryOf(head) == entry; });
}

}  // namespace

absl::StatusOr<std::vector<Misreported>> FindMisreported(
    const GraphIndex& index, const OpSet& operators, TensorSource& run,
    const NodeChecks& checks, absl::Span<const NodeId> nodes) {
  const Graph& graph = index.graph();
  ByEntry<NDArray> instead(graph);
  std::map<NodeId, std::set<NodeId>> readers_of;
  std::set<NodeId> readers;
  for (const NodeId node : nodes) {
    const NodeCheck* const check = CheckOf(checks, node);
    if (check == nullptr) continue;
    for (uint32_t slot = 0; slot < check->expected.size(); ++slot) {
      const EntryId entry = graph.EntryOf(node, slot);
      // Outputs are what the caller gets, whatever is inside.
      if (IsHead(graph, entry)) continue;
      instead[entry] = check->expected[slot];
      for (const NodeId reader : index.ReadersOf(entry)) {
        readers_of[node].insert(reader);
        readers.insert(reader);
      }
    }
  }
  if (readers.empty()) return std::vector<Misreported>();
  NodeCheckOptions options;
  options.selects = [&](NodeId node) { return readers.contains(node); };
  options.instead = &instead;
  NODEWISE_ASSIGN_OR_RETURN(const NodeChecks again,
                            CheckNodes(index, operators, run, options));
  std::vector<Misreported> found;
  for (const auto& [node, all] : readers_of) {
    Misreported misreported{node, {}};
    bool is_right = true;
    for (const NodeId reader : all) {
      const NodeCheck* const check = CheckOf(again, reader);
      is_right = is_right && check != nullptr && !IsLarge(check->outputs);
      if (check != nullptr) misreported.readers.push_back(*check);
    }
    if (is_right) found.push_back(std::move(misreported));
  }
  return found;
}

}  // namespace nodewise
