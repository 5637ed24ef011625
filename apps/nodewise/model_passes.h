#pragma once

#include <string>

#include "absl/status/status.h"
#include "apps/nodewise/command.h"
#include "nodewise/session/passes_report.h"

namespace nodewise {

// Lists the passes that there are, each with what it does.
std::string PassHelp();

// Fails as ParsePassList() for a list that names something else.
absl::Status CheckPasses(const std::string& list);

// Returns the lines for people, and adds the array "passes" to the document.
std::string ShowPasses(const PassesReport& report, JsonWriter* json);

}  // namespace nodewise
