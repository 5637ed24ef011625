#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/debug_run_options.h"
#include "apps/nodewise/load_options.h"

namespace nodewise {

// Fails with kInvalidArgument for options that do not go together or make no
// sense.
absl::Status CheckDebugRun(const DebugRunOptions& options);

// What a debugging run leaves to be shown or written.
struct DebugRunResult {
  // The outputs of the graph, or those of the node where the run stopped; empty
  // where there are none to show.
  std::vector<NamedTensor> outputs;
};

// Runs as the options say and adds the findings to the report. Errors of the
// run begin with the target's name.
absl::StatusOr<DebugRunResult> DebugRun(const DebugRunOptions& options,
                                        const Session& loaded, Report* report);

}  // namespace nodewise
