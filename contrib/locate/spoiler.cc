#include "contrib/locate/spoiler.h"

#include <algorithm>
#include <optional>
#include <string>

#include "contrib/locate/halving.h"
#include "contrib/locate/observed_run.h"
#include "contrib/locate/partial_graph.h"
#include "fmt/format.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// The most bytes of earlier nodes' outputs that are kept for each question.
constexpr uint64_t kMostKeptBytes = uint64_t{1} << 30;

// The deed of the suspect in a run: a hash of what it made; none if it failed.
using Outcome = std::optional<uint64_t>;

// The nodes that may have spoiled something for the suspect: all that are
// called before it.
std::vector<NodeId> EarlierThan(const Suspect& suspect) {
  std::vector<NodeId> earlier = FunctionNodesOf(suspect.index.graph());
  std::erase_if(earlier, [&](NodeId node) {
    return node >= suspect.node || suspect.index.IsFree(node);
  });
  return earlier;
}

// Returns what these nodes make in a whole run, which may end at the suspect.
absl::StatusOr<std::vector<TensorPatch>> PatchesOfWholeRun(
    const Suspect& suspect, absl::Span<const NodeId> nodes) {
  std::vector<TensorPatch> patches;
  if (nodes.empty()) return patches;
  const GraphIndex& index = suspect.index;
  ObserveOptions options{.may_be_cut = true,
                         .node_limit_ms = suspect.node_limit_ms};
  for (const NodeId node : nodes) {
    const auto made = EntriesMadeBy(index.graph(), node);
    options.keeps.insert(options.keeps.end(), made.begin(), made.end());
  }
  ObservedRun run(suspect.candidate, index, suspect.inputs, options);
  NODEWISE_RETURN_IF_ERROR(run.Run());
  for (const EntryId entry : options.keeps) {
    const std::string& node = index.KeyOf(index.NodeOf(entry));
    if (!run.kept()[entry].defined()) {
      return absl::NotFoundError(node + ": has handed nothing out");
    }
    patches.push_back({fmt::format("{}:{}", node, index.OutputOf(entry)),
                       run.kept()[entry], "a whole run", node});
  }
  return patches;
}

// Returns what the suspect does when these nodes do not run: what they made in
// a whole run stands in for them.
absl::StatusOr<Outcome> OutcomeWithout(const Suspect& suspect,
                                       absl::Span<const NodeId> nodes) {
  RunOptions run;
  NODEWISE_ASSIGN_OR_RETURN(run.patches, PatchesOfWholeRun(suspect, nodes));
  run.node_limit_ms = suspect.node_limit_ms;
  const std::string& key = suspect.index.KeyOf(suspect.node);
  run.stop = StopRule{key, "the node", std::nullopt};
  const auto result = suspect.candidate.Run(suspect.inputs, run);
  if (!result.ok()) {
    const auto failure = FailureOf(result.status());
    const bool is_its_own = failure.has_value() && failure->node == key;
    if (!is_its_own) return result.status();
    return Outcome();
  }
  uint64_t made = 0;
  for (const NamedTensor& output : result->outputs) {
    // Its place counts, too: outputs that have changed places are others.
    made = made * 31 + HashBytes(output.tensor.data(), output.tensor.bytes());
  }
  return Outcome(made);
}

// An earlier node is the spoiler if the suspect does what it did in the whole
// run as long as that node runs, and something else without it. The first nodes
// are left out, fewer or more by halving, until one alone makes the difference.
absl::StatusOr<std::optional<NodeId>> FindSpoiler(const Suspect& suspect) {
  for (const Capability needed :
       {Capability::kTensors, Capability::kPatches, Capability::kSteps}) {
    if (!suspect.candidate.Can(needed)) return std::nullopt;
  }
  const std::vector<NodeId> earlier = EarlierThan(suspect);
  // All that stands in for them is in memory at once.
  uint64_t bytes = 0;
  for (const NodeId node : earlier) {
    for (const EntryId entry : EntriesMadeBy(suspect.index.graph(), node)) {
      bytes += suspect.index.BytesOf(entry);
    }
  }
  if (earlier.empty() || bytes > kMostKeptBytes) return std::nullopt;
  NODEWISE_ASSIGN_OR_RETURN(const Outcome in_run, OutcomeWithout(suspect, {}));
  NODEWISE_ASSIGN_OR_RETURN(const Outcome again, OutcomeWithout(suspect, {}));
  if (in_run != again) return std::nullopt;
  NODEWISE_ASSIGN_OR_RETURN(const Outcome alone,
                            OutcomeWithout(suspect, earlier));
  if (alone == in_run) return std::nullopt;
  const auto is_sound = [&](size_t count) -> absl::StatusOr<bool> {
    NODEWISE_ASSIGN_OR_RETURN(
        const Outcome outcome,
        OutcomeWithout(suspect, absl::MakeSpan(earlier).first(count)));
    return outcome != in_run;
  };
  NODEWISE_ASSIGN_OR_RETURN(const size_t count,
                            BisectFirstTrue(0, earlier.size(), is_sound));
  return earlier[count - 1];
}

}  // namespace

absl::Status BlameSpoiler(const Suspect& suspect, std::string_view does) {
  // The search is an extra: where its runs fail, what is known counts.
  const auto found = FindSpoiler(suspect);
  if (!found.ok() || !found->has_value()) return absl::OkStatus();
  const GraphIndex& index = suspect.index;
  const NodeId spoiler = **found;
  return StatusOf(
      {NodeFailure::Kind::kSideEffect, index.KeyOf(spoiler),
       fmt::format("makes {} {}, which it does not on the same inputs without "
                   "this node",
                   index.KeyOf(suspect.node), does),
       index.KeyOf(suspect.node)},
      index.TitleOf(spoiler), absl::StatusCode::kAborted);
}

}  // namespace nodewise
