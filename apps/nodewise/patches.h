#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "apps/nodewise/command.h"
#include "nodewise/debug/debug_executor.h"

namespace nodewise {

// Gives the executor what each `--patch ENTRY=FILE` says. kInvalidArgument for
// two of one entry, or of two entries that are the same memory: only one of
// them could count. Notes what else a patch changes, by sharing memory.
absl::Status ApplyPatches(const std::vector<std::string>& patches,
                          DebugExecutor* executor, Outcome* outcome);

}  // namespace nodewise
