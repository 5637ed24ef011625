#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nodewise/report/report.h"
#include "nodewise/session/target_spec.h"

namespace nodewise {

// Searches the dump of a compiled network for the broken node, beside the model
// that it was compiled from. Fails in builds without what that takes.
absl::StatusOr<Report> DiagnoseDump(const std::string& dump,
                                    const std::string& model,
                                    const ModelSpec& spec);

}  // namespace nodewise
