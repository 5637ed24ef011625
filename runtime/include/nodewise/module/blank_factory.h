#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace nodewise {

// Returns the bytes of a library file without what a factory carries beside its
// code, so that the code can be given away without the network: blanks for the
// graph, underscores for the names of parameters and of the module, zeros for
// the numbers. Lengths, types and shapes stay, so that the library loads as
// before, and its functions do what they did; it makes no executors any more.
// Modules of other kinds stay as they are, and so does a blob that is not
// understood. Fails as opening the file and as reading it as ELF.
absl::StatusOr<std::string> WithBlankFactories(const std::string& path);

}  // namespace nodewise
