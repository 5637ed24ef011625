#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nodewise/report/report.h"
#include "nodewise/session/target_spec.h"

namespace nodewise {

// What a build may lack: each function does its work, or says what is missing.

// Returns the error of a build without the debug executor for `what`, a verb or
// an option that needs it.
absl::Status NeedsProfiler(std::string_view what);

// Searches the dump of a compiled network for the broken node, beside the model
// that it was compiled from. Fails in builds without what that takes.
absl::StatusOr<Report> DiagnoseDump(const std::string& dump,
                                    const std::string& model,
                                    const ModelSpec& spec);

// Lists the passes that there are, each with what it does.
std::string PassHelp();

// Fails as ParsePassList() for a list that names something else.
absl::Status CheckPasses(const std::string& list);

}  // namespace nodewise
