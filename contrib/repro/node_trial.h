#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/repro/repro_case.h"

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

// Compares what was made with what should have been, by the tolerance of its
// type, and says how far each element may be off by that.
absl::StatusOr<TensorComparison> CompareByType(const std::string& node,
                                               uint32_t slot,
                                               const NDArray& reference,
                                               const NDArray& made);
std::vector<double> LimitsByType(const NDArray& reference);

// Returns the tensors that the node reads.
std::vector<NDArray> TensorsOf(const std::vector<ReproInput>& inputs);

}  // namespace nodewise
