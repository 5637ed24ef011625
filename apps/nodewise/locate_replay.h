#pragma once

#include "absl/status/statusor.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/input_options.h"
#include "apps/nodewise/loaded_target.h"

namespace nodewise {

// Locates in the dump that the target option names. Fails with kInvalidArgument
// for options that say how to load or run something.
absl::StatusOr<Outcome> LocateReplay(const LoadOptions& load,
                                     const InputOptions& inputs);

}  // namespace nodewise
