#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/input_options.h"
#include "apps/nodewise/load_options.h"

namespace nodewise {

// Locates in the dump that the target option names: by what its nodes say that
// they compute, or by the model that it was compiled from if `reference` is
// one. Fails with kInvalidArgument for options that say how to load or run
// something, and for any other reference.
absl::StatusOr<Outcome> LocateReplay(const LoadOptions& load,
                                     const InputOptions& inputs,
                                     const std::string& reference);

}  // namespace nodewise
