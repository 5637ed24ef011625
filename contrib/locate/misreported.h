#pragma once

#include <vector>

#include "absl/types/span.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/locate/node_check.h"

namespace nodewise {

// A value that was handed out wrong, and whose error has no consequence.
struct Misreported {
  NodeId node{};  // What makes it.
  // Some of those that read it are wrong on what was handed out: so they were
  // given something else.
  bool is_seen = false;
  std::vector<NodeId> readers = {};  // That are wrong only on that.
};

// Returns which of the nodes, wrong by `checks`, are so only in what is handed
// out for them: a runtime that computes two operations as one may hand out the
// second result for the first, or memory that it has written over since. The
// nodes that read the value tell: each made what it should of the right value.
// REQUIRES: `checks` was made with NodeCheckOptions::asks_readers.
std::vector<Misreported> FindMisreported(const GraphIndex& index,
                                         const NodeChecks& checks,
                                         absl::Span<const NodeId> nodes);

}  // namespace nodewise
