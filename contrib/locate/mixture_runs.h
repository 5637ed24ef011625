#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/locate/mix_builds.h"
#include "nodewise/runner/graph_target.h"
#include "nodewise/runner/mixed_target.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// Returns the functions that nodes of both call, in the order of their first
// nodes. Nodes that call the same function on both sides stand or fall
// together.
std::vector<MixedFunction> FunctionsOf(const GraphTarget& candidate,
                                       const GraphTarget& reference);

// The runs of two builds, and of mixtures of them, on the same inputs. Each has
// a process of its own where the target can be run like that: then a node that
// ends it is in the status (FailureOf()). One thread at a time.
class MixtureRuns {
 public:
  using Outputs = std::vector<NamedTensor>;

  // The inputs must outlive it. Fails as MixedTarget::Create().
  static absl::StatusOr<MixtureRuns> Create(
      std::shared_ptr<const GraphTarget> candidate,
      std::shared_ptr<const GraphTarget> reference,
      const std::vector<NamedTensor>& inputs, int64_t node_limit_ms);

  // The builds as they are.
  absl::StatusOr<Outputs> RunCandidate() { return RunOnce(candidate_); }
  absl::StatusOr<Outputs> RunReference() { return RunOnce(reference_); }
  // The candidate's functions of these nodes of its graph with the reference's
  // of all others, some times one after the other: returns the last outputs.
  absl::StatusOr<Outputs> RunMixed(const ByNode<bool>& from_candidate,
                                   uint64_t repeats);
  // As RunMixed(), and returns tensors that nodes make: undefined where the run
  // has not handed one out. None if the runner does not show tensors.
  absl::StatusOr<ByEntry<NDArray>> TensorsOf(const ByNode<bool>& from_candidate,
                                             std::vector<EntryId> entries);

  // How often anything has begun to run.
  size_t count() const { return count_; }

 private:
  MixtureRuns(std::shared_ptr<const GraphTarget> candidate,
              std::shared_ptr<const GraphTarget> reference, MixedTarget mixed,
              const std::vector<NamedTensor>& inputs, int64_t node_limit_ms);

  absl::StatusOr<Outputs> RunOnce(
      const std::shared_ptr<const GraphTarget>& target);
  absl::StatusOr<Outputs> Run(Runner& runner, uint64_t repeats);

  std::shared_ptr<const GraphTarget> candidate_;
  std::shared_ptr<const GraphTarget> reference_;
  MixedTarget mixed_;
  const std::vector<NamedTensor>* inputs_;
  int64_t node_limit_ms_;
  std::unique_ptr<Runner> runner_;  // Runs mixtures.
  size_t count_ = 0;
};

}  // namespace nodewise
