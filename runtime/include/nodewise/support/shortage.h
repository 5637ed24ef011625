#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"

namespace nodewise {

// A lack of memory is often only the reason why a part of the work was left
// out. The findings are then not complete: code that shows results asks whether
// there was such a shortage, since silence is not success.

// Notes it, and returns it as kResourceExhausted.
absl::Status Shortage(std::string text);

// Returns the first shortage of this process, with what was worked on where it
// was noted; none if there was none. Forked children have their own.
std::optional<absl::Status> FirstShortage();

}  // namespace nodewise
