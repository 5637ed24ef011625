#include "contrib/locate/misreported.h"

#include <algorithm>
#include <utility>

#include "nodewise/locate/verdict.h"

namespace nodewise {
namespace {

const NodeCheck* CheckOf(const NodeChecks& checks, NodeId node) {
  const auto found =
      std::find_if(checks.nodes.begin(), checks.nodes.end(),
                   [&](const NodeCheck& check) { return check.node == node; });
  return found == checks.nodes.end() ? nullptr : &*found;
}

// Outputs go to the caller as they are, so one that looks wrong is wrong.
bool IsHead(const Graph& graph, NodeId node) {
  return std::any_of(
      graph.heads.begin(), graph.heads.end(),
      [&](const EntryRef& head) { return NodeId{head.node} == node; });
}

// Whether all that reads the node's outputs is right on what they should be.
bool IsWithoutConsequence(const GraphIndex& index, const NodeChecks& checks,
                          Misreported* misreported) {
  const Graph& graph = index.graph();
  bool is_read = false;
  for (uint32_t slot = 0; slot < graph.OutputsOf(misreported->node); ++slot) {
    for (const NodeId reader :
         index.ReadersOf(graph.EntryOf(misreported->node, slot))) {
      const NodeCheck* const check = CheckOf(checks, reader);
      if (check == nullptr || check->on_right_inputs.empty() ||
          IsLarge(check->on_right_inputs)) {
        return false;
      }
      is_read = true;
      if (!IsLarge(check->outputs)) continue;
      misreported->is_seen = true;
      misreported->readers.push_back(reader);
    }
  }
  return is_read;
}

}  // namespace

std::vector<Misreported> FindMisreported(const GraphIndex& index,
                                         const NodeChecks& checks,
                                         absl::Span<const NodeId> nodes) {
  std::vector<Misreported> found;
  for (const NodeId node : nodes) {
    if (IsHead(index.graph(), node)) continue;
    Misreported misreported{node};
    if (IsWithoutConsequence(index, checks, &misreported)) {
      found.push_back(std::move(misreported));
    }
  }
  return found;
}

}  // namespace nodewise
