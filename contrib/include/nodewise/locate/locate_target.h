#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/locate/locate.h"
#include "nodewise/locate/outside_reference.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/runner/graph_target.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// Many inputs for one network. A fault often shows on some of them alone, and
// Locate() looks at one: all samples run from end to end on both sides, which
// is cheap, and those with the largest errors are examined.

struct InputSample {
  std::string name;  // For messages: a path.
  // Reads the inputs. Called whenever they are wanted, so that only those of
  // one sample are in memory.
  std::function<absl::StatusOr<std::vector<NamedTensor>>()> read;
};

// The request for a search. Everything must outlive the call.
struct SamplesRequest {
  const Graph& graph;  // The candidate's; its types decide on the tolerance.
  const std::vector<InputSample>& samples;
  // Make runners of the network. They are made once.
  RunnerMaker candidate;
  RunnerMaker reference;
  // Does what Locate() does with one sample's inputs.
  std::function<absl::StatusOr<LocateResult>(
      const std::vector<NamedTensor>& inputs)>
      locate;
};

struct SamplesOptions {
  size_t most_located = 3;         // How many of the worst are examined.
  int64_t node_limit_ms = 60'000;  // RunOptions::node_limit_ms.
  // Called with the samples that have run, and their number.
  std::function<void(size_t done, size_t total)> progress = nullptr;
};

// A sample that both sides were given.
struct RankedSample {
  size_t sample = 0;  // In SamplesRequest::samples.
  // How far the outputs are from the reference's, as Locate() measures it:
  // elements that are not finite on one side alone, then the root of the sum of
  // the squared RelativeError() of all outputs.
  uint64_t non_finite = 0;
  double error = 0;
  bool is_wrong = false;  // An output is beyond the tolerance.
  // Why the candidate made no outputs, which is worse than any wrong ones:
  // "node 3 (conv1): crashed with SIGSEGV". Else empty.
  std::string why_no_outputs;
  std::optional<LocateResult> located;  // If it was examined.
  absl::Status not_located;             // Why that failed, if it did.
};

// A sample that could not be read, or that the reference fails on.
struct FailedSample {
  size_t sample = 0;
  absl::Status why;
};

// A verdict that samples have in common: one that accuses, or inconclusive.
struct RecurringVerdict {
  std::string node;  // GraphIndex::KeyOf().
  NodeVerdict kind = NodeVerdict::kBroken;
  std::vector<size_t> samples;  // Those examined that have it, worst first.
};

struct SamplesResult {
  std::vector<RankedSample> ranked;  // The worst first.
  std::vector<FailedSample> failed;  // In the order of the samples.
  // What is found in most samples first, and accusations before the others.
  std::vector<RecurringVerdict> recurring;

  size_t num_located() const;
};

// Runs all samples and examines the worst. A sample that cannot be read ends
// nothing. Fails with kInvalidArgument if there is no sample, and as making
// runners does.
absl::StatusOr<SamplesResult> LocateInSamples(
    const SamplesRequest& request, const SamplesOptions& options = {});

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
