#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/compare/compare.h"
#include "nodewise/op/op_def.h"
#include "nodewise/repro/repro_case.h"
#include "nodewise/repro/shrink.h"

namespace nodewise {

// The traits by which code that changes a case knows that its failure is still
// the same one.

// How the output of a node is wrong.
struct FailureKind {
  size_t output = 0;
  bool is_non_finite = false;
  // What the wrong elements have in common, if anything.
  std::optional<FailureShape> pattern;
};

// REQUIRES: the case has a wrong output.
FailureKind KindOf(const ReproCase& node_case);
// Returns whether what was made is wrong in that way.
bool Shows(const std::vector<ReproOutput>& outputs, const FailureKind& kind);

// Returns how often a case may be run, by what a run costs, and by how long one
// that hangs takes.
uint64_t AffordedRuns(const ShrinkOptions& options, const ReproCase& node_case);
uint64_t AffordedHangs(const ShrinkOptions& options,
                       const ReproCase& node_case);

// The failure that a case shows: something wrong, an end of the process, a
// tensor that is written over, or that the node is right.
class SameFailure {
 public:
  // The case has been run. `operators` must outlive it.
  SameFailure(const ReproCase& node_case, const OpSet& operators);

  // Returns whether runs of the case alone decide that.
  bool can_be_tried() const { return can_be_tried_; }
  // Runs a case and sets what it makes, beside what it should make. Fails as
  // running does.
  absl::Status Judge(ReproCase* node_case) const;
  // Runs another case and sets what it makes; returns whether that is the same.
  // Fails as running does. REQUIRES: can_be_tried().
  absl::StatusOr<bool> IsIn(ReproCase* other) const;

 private:
  bool IsAsFinite(const std::vector<ReproOutput>& outputs) const;

  const OpSet& operators_;
  bool can_be_tried_ = true;
  std::optional<FailureKind> wrong_;  // None: nothing is wrong.
  std::vector<bool> are_finite_;      // By output, of what the node made.
};

}  // namespace nodewise
