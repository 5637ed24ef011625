#include "contrib/lab/planter/plan_faults.h"

#include <algorithm>

#include "contrib/lab/planter/spoiling.h"
#include "nodewise/graph/graph_index.h"

namespace nodewise {
namespace {

std::vector<EntryId> ComputedEntries(const Graph& graph) {
  std::vector<EntryId> made;
  for (const NodeId node : ComputingNodes(graph)) {
    for (uint32_t slot = 0; slot < graph.OutputsOf(node); ++slot) {
      made.push_back(graph.EntryOf(node, slot));
    }
  }
  return made;
}

// A __nop that shares its input's memory would become a copy of the old one.
bool CanMove(const GraphIndex& index, EntryId entry) {
  const auto readers = index.ReadersOf(entry);
  return index.BytesOf(entry) > 0 &&
         std::ranges::all_of(readers, [&](NodeId reader) {
           return ComputesSomething(index.graph(), reader);
         });
}

// A kernel that writes where it reads may do anything.
bool Reads(const GraphIndex& index, NodeId node, EntryId entry) {
  const Graph& graph = index.graph();
  const auto& inputs = graph.node(node).inputs;
  return std::ranges::any_of(inputs, [&](const EntryRef& input) {
    return index.BaseOf(graph.EntryOf(input)) == index.BaseOf(entry);
  });
}

bool Spoils(const GraphIndex& index, EntryId written, EntryId victim) {
  const Graph& graph = index.graph();
  const NodeId writer = index.NodeOf(written);
  const int64_t writes = Index(writer);
  const Lifetime& life = index.LifetimeOf(victim);
  if (index.BytesOf(victim) == 0 || life.written >= writes ||
      life.last_read <= writes || Reads(index, writer, victim) ||
      graph.entry(written).device_type != graph.entry(victim).device_type) {
    return false;
  }
  // No other tensor may be written there until the last reader has run.
  const int64_t last = std::max(index.LifetimeOf(written).last_read, writes);
  const auto others = index.TensorsIn(index.plan().slot_of[Index(victim)]);
  return std::ranges::none_of(others, [&](EntryId other) {
    const Lifetime& its = index.LifetimeOf(other);
    return other != victim && its.written >= writes && its.written <= last;
  });
}

}  // namespace

std::vector<PlanOverlap> FindPlanOverlaps(const Graph& graph) {
  const auto plan = PlanStorage(graph, kDLCPU);
  if (!plan.ok()) return {};
  const GraphIndex index(graph, *plan);
  const std::vector<EntryId> made = ComputedEntries(graph);
  std::vector<PlanOverlap> found;
  for (const EntryId written : made) {
    if (!CanMove(index, written)) continue;
    for (const EntryId victim : made) {
      if (Spoils(index, written, victim)) {
        found.push_back({index.NodeOf(written), written, victim});
      }
    }
  }
  return found;
}

}  // namespace nodewise
