#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/debug_run_options.h"
#include "apps/nodewise/loaded_target.h"

namespace nodewise {

// kInvalidArgument for options that do not go together or make no sense.
absl::Status CheckDebugRun(const DebugRunOptions& options);

// What such a run leaves to be shown or written.
struct DebugRunResult {
  // The outputs of the graph, or those of the node where the run stopped; empty
  // where there are none to show.
  std::vector<NamedTensor> outputs;
};

// Runs in the way that the options say and adds what was found to the outcome.
absl::StatusOr<DebugRunResult> DebugRun(const DebugRunOptions& options,
                                        const LoadedTarget& network,
                                        Outcome* outcome);

}  // namespace nodewise
