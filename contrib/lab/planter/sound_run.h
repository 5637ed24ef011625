#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/module/module.h"
#include "nodewise/planter/planter.h"

namespace nodewise {

// Runs a graph once, each entry in memory of its own, and returns what every
// entry held, by entry, as host copies; undefined for what no node reads or
// makes. Inputs that the options do not give are drawn.
absl::StatusOr<std::vector<NDArray>> RunSoundly(const Graph& graph,
                                                const Ref<Library>& library,
                                                const PlanterOptions& options);

}  // namespace nodewise
