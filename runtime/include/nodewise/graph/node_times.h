#pragma once

#include <cstdint>
#include <vector>

#include "nodewise/graph/graph_json.h"

namespace nodewise {

// When a node ran, on the monotonic clock. Both 0 for a node that did not.
struct NodeTime {
  int64_t start_ns = 0;
  int64_t end_ns = 0;

  int64_t Duration() const { return end_ns - start_ns; }
};

// One pass over the graph in its real order. Where nothing happens between two
// nodes, the end of one is the start of the next.
struct TimedRun {
  std::vector<NodeTime> nodes;  // By node; inputs and free __nop stay 0.
  NodeTime whole;               // Measured around all nodes.
};

}  // namespace nodewise
