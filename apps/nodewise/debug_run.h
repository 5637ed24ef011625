#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/report/report.h"
#include "nodewise/session/session.h"

namespace nodewise {

// The ways of `run` that look into the run. A build without the debug executor
// accepts the options too, to say what it would need for them.
struct DebugRunOptions {
  std::string until;
  std::vector<std::string> patches;  // ENTRY=FILE
  std::vector<std::string> stop_on;  // nan, inf, abs>LIMIT
  bool sanitize = false, isolate = false, sweep = false;
  std::optional<uint64_t> time_limit_ms;

  // Returns one of the options that were given; empty if none was.
  std::string_view Given() const;
};

// Fails with kInvalidArgument for options that do not go together or make no
// sense.
absl::Status CheckDebugRun(const DebugRunOptions& options);

// Runs as the options say and adds the findings to the report. Returns the
// outputs of the graph, or those of the node where the run stopped; empty where
// there are none to show or write. Errors of the run begin with the target's
// name.
absl::StatusOr<std::vector<NamedTensor>> DebugRun(
    const DebugRunOptions& options, const Session& loaded, Report* report);

}  // namespace nodewise
