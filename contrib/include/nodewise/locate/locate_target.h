#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/locate/locate.h"
#include "nodewise/locate/referee.h"
#include "nodewise/locate/samples.h"
#include "nodewise/runner/graph_target.h"

namespace nodewise {

// A compiled network that Locate() is to examine.
struct TargetRequest {
  std::shared_ptr<const GraphTarget> target;
  std::vector<NamedTensor> inputs = {};  // LocateSamplesInTarget() has its own.
  // The nodes, by key, that the reference computes in it already
  // (WithStandIns()).
  std::vector<std::string> stand_ins = {};
  // Is asked about the culprits (AskReferee()), unless it is null; `opinions`
  // gets what it says then.
  RefereeMaker referee = nullptr;
  std::vector<RefereeOpinion>* opinions = nullptr;
};

// Returns makers of the runners of a target, for Locate() and other searches
// that look into runs: each run has a process of its own where the target can
// be run like that. Fails with kNotFound in builds without USE_PROFILER.
absl::StatusOr<CandidateMakers> MakersOf(
    const std::shared_ptr<const GraphTarget>& target);

// As MakersOf() of the target in which the reference computes these nodes, by
// key. Fails as WithStandIns(), and as making runners does.
absl::StatusOr<CandidateMakers> MakersWithStandIns(
    const GraphTarget& target, const OpSet& operators,
    const std::vector<std::string>& nodes);

// Locates in a compiled network, with all the runners that this takes: each run
// has a process of its own where the target can be run like that, which is
// wherever all is on a CPU. Else a note says that no run survives a node that
// crashes or hangs. Fails as Locate(), and as making runners does; with
// kNotFound in builds without USE_PROFILER.
absl::StatusOr<LocateResult> LocateInTarget(const TargetRequest& request,
                                            const OpSet& operators,
                                            const LocateOptions& options = {});

// Returns a maker of runners in which the reference computes all nodes of the
// target, each tensor with memory of its own. Making one fails with
// kUnimplemented if a node does not say what it computes.
absl::StatusOr<RunnerMaker> MakerOfReference(
    const std::shared_ptr<const GraphTarget>& target, const OpSet& operators);

// Ranks many inputs and locates on the worst (LocateInSamples()), with the
// runners of LocateInTarget(). Fails as making these does.
absl::StatusOr<SamplesResult> LocateSamplesInTarget(
    const TargetRequest& request, const std::vector<InputSample>& samples,
    const OpSet& operators, const LocateOptions& options = {},
    const SamplesOptions& samples_options = {});

}  // namespace nodewise
