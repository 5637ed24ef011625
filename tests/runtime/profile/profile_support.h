#pragma once

#include <vector>

#include "nodewise/graph/graph_index.h"
#include "nodewise/profile/profile.h"
#include "tests/support/graph_builder.h"

namespace nodewise {

// Profiles that are made up, with known times.

// 15:24:44.177475 of some day, in UTC.
inline constexpr int64_t kWallNs = 1526225084177475000;

inline StoragePlan PlanOf(const Graph& graph) {
  return PlanStorage(graph, kDLCPU).value();
}

// A run that starts at `start_ns`; its nodes follow one another at once.
inline TimedRun RunOf(const std::vector<int64_t>& node_ns,
                      int64_t start_ns = 1000) {
  TimedRun run;
  run.whole.start_ns = start_ns;
  for (const int64_t ns : node_ns) {
    if (ns == 0) {
      run.nodes.emplace_back();
      continue;
    }
    run.nodes.push_back({start_ns, start_ns + ns});
    start_ns += ns;
  }
  run.whole.end_ns = start_ns;
  return run;
}

inline Profile ProfileOf(const std::vector<TimedRun>& runs) {
  Profile profile;
  profile.runs = runs;
  profile.wall_ns = kWallNs;
  profile.monotonic_ns = 1000;
  return profile;
}

// x, then a of shape (64, 1, 1), then b of shape (3,) and no dimension.
inline Graph ThreeNodes() {
  return GraphBuilder()
      .Input("x", {{1, 4}})
      .Op("a", "fused_a", {"x"}, {{{64, 1, 1}}})
      .Op("b", "fused_b_longer", {"a", "x"}, {{{3}}, {{}}})
      .Head("b:1")
      .Build();
}

inline ProfileSummary Summarised(const Graph& graph, const Profile& profile) {
  const StoragePlan plan = PlanOf(graph);
  return SummariseProfile(GraphIndex(graph, plan), profile);
}

}  // namespace nodewise
