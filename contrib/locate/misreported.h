#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/locate/node_check.h"

namespace nodewise {

// A value that was handed out as something else than what was computed with.
struct Misreported {
  NodeId node;                     // What makes it.
  std::vector<NodeCheck> readers;  // On what it should have been.
};

// Returns which of the nodes, wrong by `checks`, are so only in what is handed
// out for them: a runtime that computes two operations as one may hand out the
// second result for the first, or memory that it has written over since.
// Whatever reads the value tells: all of it made what it should of the right
// value, so that the wrong one has no consequence. `run` is visited once more,
// where a value has a reader.
absl::StatusOr<std::vector<Misreported>> FindMisreported(
    const GraphIndex& index, const OpSet& operators, TensorSource& run,
    const NodeChecks& checks, absl::Span<const NodeId> nodes);

}  // namespace nodewise
