#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/network.h"

namespace nodewise {

// The ways of `run` that look into the run.
struct DebugRunOptions {
  std::string until;
  std::vector<std::string> patches;  // ENTRY=FILE
  std::vector<std::string> stop_on;  // nan, inf, abs>LIMIT
  bool sanitize = false;
  bool isolate = false;
  bool sweep = false;
  std::optional<uint64_t> time_limit_ms;

  bool Any() const {
    return !until.empty() || !patches.empty() || !stop_on.empty() || sanitize ||
           isolate || sweep;
  }
};

void AddDebugRunOptions(OptionList* options, DebugRunOptions* debug);

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
                                        const Network& network,
                                        Outcome* outcome);

}  // namespace nodewise
