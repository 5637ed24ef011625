#pragma once

#include <vector>

#include "nodewise/graph/graph_json.h"

namespace nodewise {

// Faults of the plan that says where in memory the results of nodes lie.

// A change of a plan after which the result of one node lies where that of
// another does, which is still needed.
struct PlanOverlap {
  NodeId writer{};
  EntryId written{};  // The writer's output that moves.
  EntryId victim{};   // Written before it, and read after it.
};

// Lists all changes that spoil the victim alone: the moved output is neither
// overwritten itself nor overwrites anything else. REQUIRES: the graph is
// sound.
std::vector<PlanOverlap> FindPlanOverlaps(const Graph& graph);

}  // namespace nodewise
