#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace nodewise {

// Returns the error of a build without the debug executor for `what`, a verb or
// an option that needs it.
absl::Status NeedsProfiler(std::string_view what);

}  // namespace nodewise
