#pragma once

#include "absl/status/statusor.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/lower/region.h"

namespace nodewise {

// Returns what a node of a graph computes. Fails as RegionOf().
absl::StatusOr<Region> RegionOfNodeIn(const Graph& graph, NodeId node,
                                      const OpSet& operators);

}  // namespace nodewise
