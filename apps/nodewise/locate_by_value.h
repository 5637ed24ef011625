#pragma once

#include <string>

#include "absl/status/status.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/loaded_target.h"
#include "apps/nodewise/model_options.h"

namespace nodewise {

// Returns whether no node of the target says what it computes, as those of
// other compilers do not: then a model is its reference by the values alone.
bool SaysNothing(const LoadedTarget& loaded);

// Locates in a target whose nodes say nothing, beside the model that it was
// compiled from. The document has `culprits` and `verdicts`, as that of a
// target whose nodes do, and `model`; with `repro`, which may be empty, each
// culprit becomes a folder in there.
absl::Status LocateByValueIn(const LoadedTarget& loaded,
                             const std::string& model,
                             const ModelOptions& options, uint64_t seed,
                             const std::string& repro, Outcome* outcome);

}  // namespace nodewise
