#pragma once

#include "absl/status/statusor.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/loaded_target.h"
#include "nodewise/locate/locate.h"

namespace nodewise {

// Locates layer by layer, each with the part of the network that leads to it
// (RecursiveLayerComparator). What that took goes into the outcome.
absl::StatusOr<LocateResult> LocateRecursively(const LoadedTarget& loaded,
                                               Outcome* outcome);

}  // namespace nodewise
