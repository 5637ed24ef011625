#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/report/report.h"
#include "nodewise/session/target_spec.h"

namespace nodewise {

// Verifies a model, or a network as text, for the named targets of networks,
// and shows the findings under the headings of NetworkParts().
absl::StatusOr<Report> VerifyNetwork(const std::string& path,
                                     const ModelSpec& model,
                                     const std::vector<std::string>& targets);

// Adds findings to the errors and to `warnings` and, each in a line that begins
// with `indent`, to the text.
void AddFindingLines(std::vector<Finding> findings, const char* indent,
                     std::vector<Finding>* warnings, Report* report);
// Adds the warnings and the last line, and sets the status.
void FinishVerdict(const std::string& path,
                   const std::vector<Finding>& warnings, Report* report);

}  // namespace nodewise
