#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// Gives the executor the patches. Fails with kInvalidArgument for two patches
// of one entry, or of two entries in the same memory: only one could take
// effect. Adds a note for each patch that changes other entries too, by sharing
// their memory. Only in builds with USE_PROFILER.
absl::Status ApplyPatches(absl::Span<const TensorPatch> patches,
                          DebugExecutor* executor,
                          std::vector<std::string>* notes);

}  // namespace nodewise
