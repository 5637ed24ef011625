// The verbs that a build without the debug executor lacks; they say why.

#include "apps/nodewise/no_profiler.h"

#include "apps/nodewise/command.h"
#include "fmt/format.h"

namespace nodewise {

absl::Status NeedsProfiler(std::string_view what) {
  return absl::UnimplementedError(fmt::format(
      "{}: needs the debug executor, and this build was configured with "
      "USE_PROFILER OFF (set USE_PROFILER ON in config.cmake, or "
      "-DUSE_PROFILER=ON)",
      what));
}

const CommandRow kProfileCommand = {
    "profile", "times every node (not in this build)", "", nullptr,
    [] { return NeedsProfiler("profile"); }};

const CommandRow kDumpCommand = {
    "dump", "records every tensor of a run (not in this build)", "", nullptr,
    [] { return NeedsProfiler("dump"); }};

}  // namespace nodewise
