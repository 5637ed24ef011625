#pragma once

#include <memory>

#include "nodewise/runner/graph_target.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// Makes the runner of compiled graphs that can be looked into. Only in builds
// with USE_PROFILER.
absl::StatusOr<std::unique_ptr<Runner>> MakeDebugRunner(
    std::shared_ptr<const GraphTarget> target);

}  // namespace nodewise
