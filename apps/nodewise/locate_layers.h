#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/load_options.h"
#include "nodewise/locate/locate.h"

namespace nodewise {

// Locates layer by layer, each with the part of the network that leads to it
// (RecursiveLayerComparator). No node may take longer than the limit. What it
// all took goes into the outcome.
absl::StatusOr<LocateResult> LocateRecursively(const Session& loaded,
                                               int64_t node_limit_ms,
                                               Outcome* outcome);

}  // namespace nodewise
