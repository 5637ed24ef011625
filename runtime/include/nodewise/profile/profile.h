#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_json.h"

namespace nodewise {

// A counter that was read around every node; see collector.h.
struct NodeCounts {
  std::string name;             // "cycles", ...
  std::vector<double> by_node;  // Means over the runs.
};

// A task of a parallel loop that a thread ran for a node.
struct WorkerSpan {
  int64_t start_ns = 0, end_ns = 0;
  int worker = 0;  // 0 is the thread that runs the network.
  NodeId node{};
};

// Everything that profiling found out.
struct Profile {
  std::vector<TimedRun> runs;     // In place, without the warm-up.
  std::vector<int64_t> plain_ns;  // Plain runs, one for each of `runs`.
  // Seconds by node and repeat, as TVM's run_individual gives them; empty if
  // not asked for.
  std::vector<std::vector<double>> isolated;
  std::vector<NodeCounts> counters;
  // A separate run in which the thread pool was watched; it is part of no
  // figure. Both are empty if not asked for.
  TimedRun watched;
  std::vector<WorkerSpan> workers;
  std::vector<std::string> notes;  // Why a counter is missing, and the like.
  // One moment on the wall clock and on the monotonic clock, for clock times.
  int64_t wall_ns = 0;
  int64_t monotonic_ns = 0;
  int threads = 0;
};

// Returns a profile that begins now: the two clocks and the number of threads.
Profile BeginProfile();

}  // namespace nodewise
