#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/loaded_target.h"
#include "nodewise/debug/debug_executor.h"

namespace nodewise {

// An executor of the network that is ready to run.
absl::StatusOr<std::unique_ptr<DebugExecutor>> MakeDebug(
    const LoadedTarget& network, DebugExecutor::DebugOptions options);

// MakeDebug, recording nothing. The network must outlive it.
ExecutorMaker MakerOf(const LoadedTarget& network);

// Runs a plain executor of its own and adds the line that says whether the
// outputs are the same bits. Not the same makes the outcome kDiffers; so does a
// plain run that fails, which is said instead.
void CheckAgainstPlain(const LoadedTarget& network,
                       const GraphExecutor& debugged, Outcome* outcome);
// The same for outputs that were kept, with a plain run in a process of its
// own: of a library that has shown faults, or may.
void CheckAgainstPlainChild(const LoadedTarget& network,
                            const std::vector<NamedTensor>& outputs,
                            Outcome* outcome);

}  // namespace nodewise
