#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "nodewise/autotest/candidate.h"
#include "nodewise/autotest/case_verdict.h"
#include "nodewise/autotest/operator_space.h"

namespace nodewise {

// Draws a case from choices.
using DrawOfCase =
    std::function<absl::StatusOr<OperatorCase>(Choices* choices)>;

// A case that fails, and what it was drawn with.
struct FailingCase {
  std::vector<uint64_t> configuration_choices;
  std::vector<uint64_t> set_choices;
  OperatorCase made;
  ValueSet set;
  CandidateOutputs expected = std::vector<NDArray>();
  CandidateOutputs actual = std::vector<NDArray>();
  CaseVerdict verdict;
};

// Cuts a network to the smallest part that fails in the same way, of few cases.
// The part that is left names the cause.
void CutCase(Candidate& candidate, size_t most, double seconds,
             FailingCase* failing);

// Makes a case simpler as long as it fails in the same way: a configuration
// with fewer and smaller parts, values of a simpler kind, elements that are
// zero, one or whole; for a network, the part that fails. Stops after
// `seconds`, or `most` cases and a batch. Returns how many cases were tried.
size_t ShrinkCase(const DrawOfCase& draw, Candidate& candidate, size_t most,
                  double seconds, FailingCase* failing);

}  // namespace nodewise
