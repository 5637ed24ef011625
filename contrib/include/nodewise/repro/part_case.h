#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/repro/repro_case.h"

namespace nodewise {

// Cases of nodes that do not say what they compute, for callers that know it
// from elsewhere.

struct PartOfGraph {
  std::vector<NodeId> nodes;  // In the order of the graph.
  EntryId head{};             // Made by the last of them.
};

struct PartCase {
  // A case of all these nodes, under their own names, with `head` as its
  // output. It has no region and no reference yet.
  ReproCase node_case;
  std::vector<EntryId> reads;  // By input of the case.
};

// Cuts nodes out with what they read of others, which `tensor_of` returns: its
// errors are returned as they are. A tensor that is constant becomes a
// parameter.
absl::StatusOr<PartCase> CutPart(
    const ReproSource& source, const PartOfGraph& part,
    absl::FunctionRef<absl::StatusOr<NDArray>(EntryId entry)> tensor_of,
    absl::FunctionRef<bool(EntryId entry)> is_constant);

}  // namespace nodewise
