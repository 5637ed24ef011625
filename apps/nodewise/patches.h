#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "apps/nodewise/command.h"
#include "nodewise/debug/debug_executor.h"

namespace nodewise {

// Gives the executor the tensor of each `--patch ENTRY=FILE`. Fails with
// kInvalidArgument for two patches of one entry, or of two entries in the same
// memory: only one could take effect. Notes what else a patch changes by
// sharing memory.
absl::Status ApplyPatches(const std::vector<std::string>& patches,
                          DebugExecutor* executor, Outcome* outcome);

}  // namespace nodewise
