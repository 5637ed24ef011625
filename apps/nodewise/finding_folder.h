#pragma once

#include <string>

#include "absl/status/status.h"
#include "nodewise/autotest/autotest_run.h"

namespace nodewise {

// What one finding of a random test is shown as, and written to.

// Returns its inputs, and what was expected and made of them: small tensors
// with their numbers.
std::string DescribeTensors(const AutotestFinding& finding);

// Makes the folder for the findings of a run, which must be new or empty.
absl::Status MakeFindingsFolder(const std::string& folder);

// Writes a finding as a folder of its own: a model of one operation with ONNX's
// test data, what the candidate made, and a page that says what is wrong.
absl::Status WriteFindingFolder(const AutotestFinding& finding,
                                const std::string& candidate,
                                const std::string& folder);

}  // namespace nodewise
