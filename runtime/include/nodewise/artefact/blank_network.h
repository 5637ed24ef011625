#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace nodewise {

// Returns the bytes of a library file without what it carries of the network
// beside the code, so that the code can be given away alone: what
// WithBlankFactories() takes away, and of bytecode for the Relax VM zeros for
// the numbers of its constants and underscores for the names of arguments. What
// the bytecode computes is still in it. The library's functions do what they
// did. Fails as opening the file and as reading it as ELF.
absl::StatusOr<std::string> WithBlankNetwork(const std::string& path);

}  // namespace nodewise
