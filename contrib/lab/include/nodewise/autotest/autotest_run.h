#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/autotest/candidate.h"
#include "nodewise/autotest/case_verdict.h"
#include "nodewise/autotest/operator_space.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// Runs one candidate on random cases against the reference.

// Whether each operator, its gradient or both are tested.
enum class AutotestWith { kForward, kBackward, kBoth };

struct AutotestOptions {
  uint64_t seed = 1;
  uint64_t runs = 1000;  // Sets of values, in all shards together.
  // How many sets of values each configuration runs with: making a
  // configuration costs more than running it.
  uint64_t sets = 16;
  // Stops after the first of both; 0: no limit of time.
  double seconds = 0;
  // Configuration c is this shard's if c % shards == shard.
  uint64_t shard = 0;
  uint64_t shards = 1;
  // Backward are the gradients of operators that have one; with both, an
  // operator takes two turns.
  AutotestWith with = AutotestWith::kForward;
  // So many findings of one operator are shrunk; others are only counted.
  size_t most_findings = 3;
  // How many simpler cases are tried for one finding.
  size_t most_tries = 2000;
  // How long that may take.
  double most_shrinking_seconds = 30;
  // Called after each batch; may be null.
  std::function<void(uint64_t runs, size_t findings)> progress = nullptr;
};

// A case that speaks against the candidate, as simple as it could be made.
struct AutotestFinding {
  OperatorCase made;
  ValueSet set;
  CaseVerdict verdict;
  CandidateOutputs expected = std::vector<NDArray>();
  CandidateOutputs actual = std::vector<NDArray>();
  uint64_t configuration = 0;  // Its number, and that of its set.
  uint64_t set_number = 0;
  size_t tries = 0;       // How many simpler cases were tried.
  size_t times = 1;       // How many findings have this cause.
  bool is_flaky = false;  // It is not there each time.
  // What stands for the cause: operator, outcome, attributes, shape of failure.
  std::string cause;
  // The part of the candidate without which the finding goes away; empty if
  // this was not tried.
  std::string attribution = {};
};

struct OperatorCount {
  uint64_t configurations = 0;
  uint64_t refused_draws = 0;  // By the operator's own rules.
  uint64_t outcomes[kCaseOutcomes] = {};
  std::string why_refused;  // The last reason of the candidate.
  std::string why_no_case;  // Why nothing could be drawn.
};

struct AutotestResult {
  // By "Conv 11", or "Conv 11 backward".
  std::map<std::string, OperatorCount> operators;
  std::vector<AutotestFinding> findings;
  uint64_t runs = 0;
  // Configurations with findings beyond AutotestOptions::most_findings.
  uint64_t not_looked_at = 0;
  // The first answer with kUnavailable; OK if there was none.
  absl::Status unavailable;

  uint64_t CountOf(CaseOutcome outcome) const;
};

// Where the cases of a run come from. One number always gives the same case.
struct CaseSource {
  // Under what a case is counted: "Conv 11".
  std::function<std::string(uint64_t number)> name_of;
  // Draws it once; what comes out may be refused.
  std::function<absl::StatusOr<OperatorCase>(uint64_t number, Choices* choices)>
      draw;
  // There is nothing to draw: neither a name nor a case is asked for.
  bool is_empty = false;
};

// Cases of operators, in the order in which they take turns; all must outlive
// it.
std::unique_ptr<CaseSource> OperatorSource(
    absl::Span<const OperatorDef* const> rows,
    AutotestWith with = AutotestWith::kForward);

// The gradients of another source's cases (BackwardOf()).
std::unique_ptr<CaseSource> GradientSource(std::unique_ptr<CaseSource> source);
// The cases of two sources in turns.
std::unique_ptr<CaseSource> AlternatingCases(
    std::unique_ptr<CaseSource> first, std::unique_ptr<CaseSource> second);

// Runs cases of this source. A seed gives the same cases in the same order on
// every machine.
AutotestResult RunAutotest(const CaseSource& source, Candidate& candidate,
                           const AutotestOptions& options = {});

// `rows` are the operators to test, in the order in which they take turns; all
// must outlive the call. A seed gives the same cases in the same order on every
// machine.
AutotestResult RunAutotest(absl::Span<const OperatorDef* const> rows,
                           Candidate& candidate,
                           const AutotestOptions& options = {});

// Draws configuration `number` of a run with this seed.
// Fails with kNotFound, giving the last reason, if none of kMostRefusedDraws is
// accepted. `choices` gets what it was drawn with.
absl::StatusOr<OperatorCase> DrawNumber(const CaseSource& source, uint64_t seed,
                                        uint64_t number,
                                        std::vector<uint64_t>* choices,
                                        uint64_t* refused);
absl::StatusOr<OperatorCase> DrawNumber(
    absl::Span<const OperatorDef* const> rows, uint64_t seed, uint64_t number,
    std::vector<uint64_t>* choices, uint64_t* refused);

// Judges a finding again with one thing less at a time, and says without which
// it goes away.
std::string Attribute(const AutotestFinding& finding,
                      const std::vector<CandidateVariant>& variants);

}  // namespace nodewise
