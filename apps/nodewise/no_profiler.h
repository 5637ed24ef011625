#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace nodewise {

// In a build without the debug executor: what to do about `what`, a verb or an
// option that needs it.
absl::Status NeedsProfiler(std::string_view what);

}  // namespace nodewise
