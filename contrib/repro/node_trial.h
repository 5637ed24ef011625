#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nodewise/compare/compare.h"
#include "nodewise/interp/network_bounds.h"
#include "nodewise/op/op_def.h"
#include "nodewise/repro/repro_case.h"
#include "nodewise/repro/shrink.h"

namespace nodewise {

// The node of a case, ready to be run alone as often as one likes.
class NodeTrial {
 public:
  // The case must outlive it, and keep its graph and its region meanwhile. The
  // candidate is left out of one that may not run.
  static absl::StatusOr<std::unique_ptr<NodeTrial>> Create(
      const ReproCase& node_case);

  // Runs the reference, if there is one, and then the candidate on tensors of
  // the types that the case has, and compares what they make. Fails as these
  // do; what the reference refuses is not run.
  absl::StatusOr<std::vector<ReproOutput>> Run(
      const std::vector<NDArray>& inputs);

 private:
  absl::StatusOr<std::vector<NDArray>> RunCandidate(
      const std::vector<NDArray>& inputs);

  NodeTrial(const ReproCase& node_case, std::unique_ptr<Runner> runner)
      : case_(node_case), runner_(std::move(runner)) {}

  const ReproCase& case_;
  const std::unique_ptr<Runner> runner_;  // Null if it may not run.
};

// Returns whether the node of a case, alone in a process of its own, ends its
// run in the way that the case has. Fails as making a runner does. REQUIRES:
// the case has a failure.
absl::StatusOr<bool> FailsAsBefore(const ReproCase& node_case,
                                   const std::vector<NDArray>& inputs);

// Returns output `slot` of a node with how it compares with the reference, and
// how far each element may be off: by its bound, or by the tolerance of its
// type where none is known. Fails as the comparison.
absl::StatusOr<ReproOutput> ComparedOutput(const std::string& node,
                                           uint32_t slot, std::string role,
                                           const BoundedTensor& reference,
                                           const NDArray& made);

// Returns the tensors that the node reads.
std::vector<NDArray> TensorsOf(const std::vector<ReproInput>& inputs);

// The traits by which code that changes a case knows that its failure is still
// the same one.

// How the output of a node is wrong.
struct FailureKind {
  size_t output = 0;
  bool is_non_finite = false;
  // The pattern that the wrong elements show, if any.
  std::optional<FailureShape> pattern;
};

// REQUIRES: the case has a wrong output.
FailureKind KindOf(const ReproCase& node_case);
// Returns whether what was made is wrong in that way.
bool Shows(const std::vector<ReproOutput>& outputs, const FailureKind& kind);

// Returns whether the node of a case was found to hang.
bool Hangs(const ReproCase& node_case);

// Return how often a case may be run, by what a run costs and by how long one
// that hangs takes, and by the latter alone.
uint64_t RunBudget(const ShrinkOptions& options, const ReproCase& node_case);
uint64_t HangBudget(const ShrinkOptions& options, const ReproCase& node_case);

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
  bool IsFiniteAsBefore(const std::vector<ReproOutput>& outputs) const;

  const OpSet& operators_;
  bool can_be_tried_ = true;
  std::optional<FailureKind> wrong_;  // None: nothing is wrong.
  std::vector<bool> are_finite_;      // By output, of what the node made.
};

// Sets what the reader of a tensor that is written over makes, beside what the
// reference makes of the same nodes with memory of its own for each tensor.
// Fails as running either does. REQUIRES: plan_fault.
absl::Status JudgePlanFault(const OpSet& operators, ReproCase* node_case);

}  // namespace nodewise
