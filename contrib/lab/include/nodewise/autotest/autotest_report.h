#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nodewise/autotest/autotest_run.h"
#include "nodewise/report/report.h"

namespace nodewise {

// What random tests have come to, as text and document (docs/autotest.md has
// its members). `candidate` is what was tested.
Report ReportOf(const AutotestResult& result, const std::string& candidate,
                const AutotestOptions& options);

// What one case has come to that was run alone.
Report ReportOfCase(const AutotestFinding& finding,
                    const std::string& candidate);

// What one finding of a random test is shown as, and written to.

// Returns its inputs, and what was expected and made of them: small tensors
// with their numbers.
std::string DescribeTensors(const AutotestFinding& finding);

// Makes the folder for the findings of a run, which must be new or empty.
absl::Status MakeFindingsFolder(const std::string& folder);

// What was tested, as options say it.
struct TestedCandidate {
  std::string name;       // "onednn"
  std::string ort_level;  // Empty: the usual one.
};

// Writes a finding as a folder of its own: a model with ONNX's test data, a
// page that says what is wrong, and a program that shows it.
absl::Status WriteFindingFolder(const AutotestFinding& finding,
                                const TestedCandidate& candidate,
                                const std::string& folder);

// Reads such a folder, or another of ONNX's layout with one set of inputs, and
// has a candidate compute it again. Fails as importing the model does, and for
// inputs that do not fit it.
absl::StatusOr<AutotestFinding> JudgeFolder(const std::string& folder,
                                            Candidate& candidate);

}  // namespace nodewise
