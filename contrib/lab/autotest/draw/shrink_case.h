#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/autotest/candidate.h"
#include "nodewise/autotest/case_verdict.h"
#include "nodewise/autotest/choices.h"
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

// Makes a case that is to be tried.
using CaseBuild = std::function<absl::StatusOr<FailingCase>()>;

// Returns smaller parts of a network that fails, those first that say most:
// each operation alone, each tensor on the way as the only output, all but one
// operation. A tensor whose operation is cut off becomes an input, which holds
// what the reference makes; so an operation is never blamed for those before
// it. Empty for one operation.
std::vector<CaseBuild> CutsOf(const FailingCase& failing);

// Returns a case that fails with smaller tensors: all sides of one size at
// once, or one side alone, made 1, 2, 3, half or one less. Inputs, constants
// and cotangents keep their first elements, or their last ones. Sizes that it
// has as numbers, such as the shape that a Reshape is told, change with
// them in some of these cases; what does not fit is refused by the operators'
// rules.
std::vector<CaseBuild> SmallerSidesOf(const FailingCase& failing);

// Returns sequences that are simpler than this one, those first that would make
// the greatest difference: parts left out, parts all zero, numbers made
// smaller. At most `most` of them.
std::vector<std::vector<uint64_t>> SimplerSequences(
    absl::Span<const Choice> made, absl::Span<const ChoiceSpan> groups,
    size_t most);

// Returns whether a sequence is simpler: shorter, or of equal length and
// smaller at the first place where they differ.
bool IsSimpler(absl::Span<const uint64_t> a, absl::Span<const uint64_t> b);

}  // namespace nodewise
