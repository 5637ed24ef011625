#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/loaded_target.h"
#include "nodewise/debug/debug_executor.h"

namespace nodewise {

// Makes an executor of the network that is ready to run.
absl::StatusOr<std::unique_ptr<DebugExecutor>> MakeDebug(
    const LoadedTarget& network, DebugExecutor::DebugOptions options);

// Returns a function that calls MakeDebug without recording. The network must
// outlive it.
ExecutorMaker MakerOf(const LoadedTarget& network);

// Runs a plain executor of its own and adds the line that says whether the
// outputs have the same bits. If they differ, or if the plain run fails, which
// the line then says instead, the outcome becomes kDiffers.
void CheckAgainstPlain(const LoadedTarget& network,
                       const GraphExecutor& debugged, Outcome* outcome);
// Compares outputs that were kept with those of a plain run in a process of its
// own, for a library that has shown faults, or may.
void CheckAgainstPlainChild(const LoadedTarget& network,
                            const std::vector<NamedTensor>& outputs,
                            Outcome* outcome);

}  // namespace nodewise
