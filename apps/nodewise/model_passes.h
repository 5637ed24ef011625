#pragma once

#include <string>

#include "absl/status/status.h"

namespace nodewise {

// Lists the passes that there are, each with what it does.
std::string PassHelp();

// Fails as ParsePassList() for a list that names something else.
absl::Status CheckPasses(const std::string& list);

}  // namespace nodewise
