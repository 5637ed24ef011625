#include "contrib/lab/planter/plan_overlap.h"

#include <algorithm>

#include "nodewise/graph/graph_index.h"

namespace nodewise {
namespace {

class OverlapFinder {
 public:
  OverlapFinder(const Graph& graph, const StoragePlan& plan)
      : graph_(graph), index_(graph, plan) {
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
      if (!Computes(NodeId{n})) continue;
      for (uint32_t slot = 0; slot < graph.OutputsOf(NodeId{n}); ++slot) {
        made_.push_back(graph.EntryOf(NodeId{n}, slot));
      }
    }
  }

  std::vector<PlanOverlap> Find() const {
    std::vector<PlanOverlap> found;
    for (const EntryId written : made_) {
      if (!CanMove(written)) continue;
      for (const EntryId victim : made_) {
        if (Spoils(written, victim)) {
          found.push_back({index_.NodeOf(written), written, victim});
        }
      }
    }
    return found;
  }

 private:
  bool Computes(NodeId node) const {
    const std::string& function = graph_.node(node).function;
    return graph_.IsFunction(node) && function != kNopFunction &&
           function != kCopyFunction;
  }

  // A __nop that shares its input's memory would become a copy of the old one.
  bool CanMove(EntryId entry) const {
    const auto readers = index_.ReadersOf(entry);
    return index_.BytesOf(entry) > 0 &&
           std::all_of(readers.begin(), readers.end(),
                       [&](NodeId reader) { return Computes(reader); });
  }

  bool Spoils(EntryId written, EntryId victim) const {
    const int64_t writes = Index(index_.NodeOf(written));
    const Lifetime& life = index_.LifetimeOf(victim);
    if (index_.BytesOf(victim) == 0 || life.written >= writes ||
        life.last_read <= writes || IsRead(victim, index_.NodeOf(written)) ||
        graph_.entry(written).device_type != graph_.entry(victim).device_type) {
      return false;
    }
    // No other tensor may be written there until the last reader has run.
    const int64_t last = std::max(index_.LifetimeOf(written).last_read, writes);
    const auto slot = index_.plan().slot_of[Index(victim)];
    const auto others = index_.TensorsIn(slot);
    return std::none_of(others.begin(), others.end(), [&](EntryId other) {
      const Lifetime& its = index_.LifetimeOf(other);
      return other != victim && its.written >= writes && its.written <= last;
    });
  }

  // A kernel that writes where it reads may do anything.
  bool IsRead(EntryId entry, NodeId node) const {
    const auto& inputs = graph_.node(node).inputs;
    return std::any_of(
        inputs.begin(), inputs.end(), [&](const EntryRef& input) {
          return index_.BaseOf(graph_.EntryOf(input)) == index_.BaseOf(entry);
        });
  }

  const Graph& graph_;
  const GraphIndex index_;
  std::vector<EntryId> made_;
};

}  // namespace

std::vector<PlanOverlap> FindPlanOverlaps(const Graph& graph) {
  const auto plan = PlanStorage(graph, kDLCPU);
  if (!plan.ok()) return {};
  return OverlapFinder(graph, *plan).Find();
}

}  // namespace nodewise
