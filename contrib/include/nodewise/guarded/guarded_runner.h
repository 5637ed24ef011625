#pragma once

#include <memory>

#include "nodewise/runner/debug_runner.h"
#include "nodewise/runner/graph_target.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// Returns whether a target can run in a child: a device does not survive a
// fork.
bool CanBeGuarded(const GraphTarget& target);

// Makes the runner of compiled graphs that can be looked into, each of whose
// runs has a child of its own: a node that crashes, never returns or ends the
// process only makes the run fail, with a status that carries a NodeFailure.
// What the code does to memory is lost with the child, too. Only in builds with
// USE_PROFILER. REQUIRES: CanBeGuarded(*target).
absl::StatusOr<std::unique_ptr<Runner>> MakeGuardedRunner(
    std::shared_ptr<const GraphTarget> target,
    TensorAddresses addresses = TensorAddresses::kUsual);

}  // namespace nodewise
