#include "contrib/locate/mixture_runs.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "contrib/locate/kept_run.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

bool ComputesInLibrary(const Graph& graph, NodeId id) {
  const std::string& function = graph.node(id).function;
  return graph.IsFunction(id) && function != kNopFunction &&
         function != kCopyFunction;
}

// Only builds with USE_PROFILER have the first two kinds, and only "plain"
// cannot look into runs.
absl::StatusOr<std::unique_ptr<Runner>> SafestRunnerOf(
    const std::shared_ptr<const GraphTarget>& graph) {
  const RunnerTarget target{graph->name(), graph};
  for (const std::string_view name : {"guarded", "debug"}) {
    for (const RunnerKind& kind : RunnerKinds()) {
      if (kind.name == name && kind.takes(target)) return kind.make(target);
    }
  }
  NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker maker, MakerOf("plain", target));
  return maker();
}

}  // namespace

std::vector<MixedFunction> FunctionsOf(const GraphTarget& candidate,
                                       const GraphTarget& reference) {
  std::map<std::string, std::string> names;  // The reference's, by key.
  for (uint32_t n = 0; n < reference.graph().nodes.size(); ++n) {
    names[reference.index().KeyOf(NodeId{n})] =
        reference.graph().nodes[n].function;
  }
  std::vector<MixedFunction> functions;
  std::map<std::pair<std::string, std::string>, size_t> known;
  for (uint32_t n = 0; n < candidate.graph().nodes.size(); ++n) {
    const NodeId node{n};
    if (!ComputesInLibrary(candidate.graph(), node)) continue;
    const std::string& ours = candidate.graph().node(node).function;
    const std::string& theirs = names[candidate.index().KeyOf(node)];
    const auto [found, is_new] =
        known.emplace(std::pair(ours, theirs), functions.size());
    if (is_new) functions.push_back({ours, theirs, {}});
    functions[found->second].nodes.push_back(node);
  }
  return functions;
}

MixtureRuns::MixtureRuns(std::shared_ptr<const GraphTarget> candidate,
                         std::shared_ptr<const GraphTarget> reference,
                         MixedTarget mixed,
                         const std::vector<NamedTensor>& inputs,
                         int64_t node_limit_ms)
    : candidate_(std::move(candidate)),
      reference_(std::move(reference)),
      mixed_(std::move(mixed)),
      inputs_(&inputs),
      node_limit_ms_(node_limit_ms) {}

absl::StatusOr<MixtureRuns> MixtureRuns::Create(
    std::shared_ptr<const GraphTarget> candidate,
    std::shared_ptr<const GraphTarget> reference,
    const std::vector<NamedTensor>& inputs, int64_t node_limit_ms) {
  NODEWISE_ASSIGN_OR_RETURN(MixedTarget mixed,
                            MixedTarget::Create(*candidate, *reference));
  return MixtureRuns(std::move(candidate), std::move(reference),
                     std::move(mixed), inputs, node_limit_ms);
}

absl::StatusOr<MixtureRuns::Outputs> MixtureRuns::RunOnce(
    const std::shared_ptr<const GraphTarget>& target) {
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, SafestRunnerOf(target));
  return Run(*runner, 1);
}

absl::StatusOr<MixtureRuns::Outputs> MixtureRuns::Run(Runner& runner,
                                                      uint64_t repeats) {
  count_ += repeats;
  RunOptions run;
  run.repeats = repeats;
  run.node_limit_ms = node_limit_ms_;
  NODEWISE_ASSIGN_OR_RETURN(RunResult result, runner.Run(*inputs_, run));
  return std::move(result.outputs);
}

absl::StatusOr<MixtureRuns::Outputs> MixtureRuns::RunMixed(
    const ByNode<bool>& from_candidate, uint64_t repeats) {
  if (runner_ == nullptr) {
    NODEWISE_ASSIGN_OR_RETURN(runner_, SafestRunnerOf(mixed_.target()));
  }
  // A child is a copy of this process, and calls what is chosen here.
  mixed_.Choose(from_candidate);
  return Run(*runner_, repeats);
}

absl::StatusOr<ByEntry<NDArray>> MixtureRuns::TensorsOf(
    const ByNode<bool>& from_candidate, std::vector<EntryId> entries) {
  if (runner_ == nullptr || !runner_->Can(Capability::kTensors)) {
    return ByEntry<NDArray>(candidate_->graph());
  }
  mixed_.Choose(from_candidate);
  const NodeId last = candidate_->index().NodeOf(entries.back());
  ++count_;
  KeptRunOptions keeps{std::move(entries), last};
  keeps.node_limit_ms = node_limit_ms_;
  KeptRun run(*runner_, candidate_->index(), *inputs_, std::move(keeps));
  NODEWISE_RETURN_IF_ERROR(run.Run());
  return std::move(run.kept());
}

}  // namespace nodewise
