#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"

namespace nodewise {

// That memory ran out is often only the reason why a part of the work was left
// out. What has been found then is not all: who shows results asks whether
// there was such a shortage, since silence is no success.

// Notes it, and returns it as kResourceExhausted.
absl::Status Shortage(std::string text);

// Returns the first shortage of this process, with what was worked on where it
// was noted; none if there was none. Forked children have their own.
std::optional<absl::Status> FirstShortage();

}  // namespace nodewise
