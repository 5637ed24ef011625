#include "nodewise/locate/locate_target.h"

#include <set>
#include <thread>
#include <utility>

#include "fmt/format.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/locate/private_storage.h"
#include "nodewise/runner/mixed_target.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/support/memory_use.h"
#include "nodewise/support/status.h"

#ifdef NODEWISE_USE_PROFILER
#include "contrib/locate/stray_writes.h"
#endif

namespace nodewise {
namespace {

// Runners of this kind have a process of their own for each run. "debug" ones,
// which can also run on devices, have not.
constexpr std::string_view kGuarded = "guarded";
// Runners of this kind put tensors at other addresses: results that depend on
// addresses have other bits there.
constexpr std::string_view kElsewhere = "barely_aligned";

absl::StatusOr<RunnerMaker> RunnersOf(
    const std::shared_ptr<const GraphTarget>& graph) {
  RunnerTarget target{graph->name(), graph};
  const std::string_view kind =
      HasRunnerFor(kGuarded, target) ? kGuarded : "debug";
  return MakerOf(kind, std::move(target));
}

// A run takes the plan's memory, and as much again where kernels keep constants
// in an order of their own.
bool FitsConcurrentRuns(const StoragePlan& plan) {
  // Three runs go on together: the one that is followed, one that repeats it,
  // and one with guarded memory. Half of the memory is left to the other
  // programs on this machine.
  constexpr uint64_t kRuns = 3, kTimes = 2, kShare = 2;
  uint64_t bytes = 0;
  for (const StorageSlot& slot : plan.slots) bytes += slot.bytes;
  return std::thread::hardware_concurrency() > 1 &&
         bytes * kRuns * kTimes < AvailableMemory() / kShare;
}

absl::StatusOr<std::shared_ptr<const GraphTarget>> WithSeparateStorage(
    const GraphTarget& target, std::string_view how) {
  const Artefact& artefact = target.artefact();
  return GraphTarget::FromArtefact(
      fmt::format("{} {}", target.name(), how),
      {WithPrivateStorage(artefact.graph), artefact.library, artefact.params},
      target.devices());
}

}  // namespace

absl::StatusOr<CandidateMakers> MakersOf(
    const std::shared_ptr<const GraphTarget>& target) {
  CandidateMakers makers;
  NODEWISE_ASSIGN_OR_RETURN(makers.candidate, RunnersOf(target));
  // The other storage is only planned if such a run is asked for.
  makers.with_private_storage =
      [target]() -> absl::StatusOr<std::unique_ptr<Runner>> {
    NODEWISE_ASSIGN_OR_RETURN(
        const auto apart,
        WithSeparateStorage(*target, "with memory of its own for each tensor"));
    NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker maker, RunnersOf(apart));
    return maker();
  };
  const RunnerTarget guarded{target->name(), target};
  if (HasRunnerFor(kGuarded, guarded)) {
    NODEWISE_ASSIGN_OR_RETURN(makers.elsewhere, MakerOf(kElsewhere, guarded));
  }
  return makers;
}

absl::StatusOr<CandidateMakers> MakersWithStandIns(
    const GraphTarget& target, const OpSet& operators,
    const std::vector<std::string>& nodes) {
  // The choice is asked for later, when runners are made, and so holds its own
  // copy.
  const std::set<std::string> replaced(nodes.begin(), nodes.end());
  NODEWISE_ASSIGN_OR_RETURN(
      const auto graph,
      WithStandIns(target, operators, [replaced](const std::string& node) {
        return replaced.contains(node);
      }));
  return MakersOf(graph);
}

absl::StatusOr<LocateResult> LocateInTarget(const TargetRequest& request,
                                            const OpSet& operators,
                                            const LocateOptions& options) {
  const GraphTarget& target = *request.target;
  NODEWISE_ASSIGN_OR_RETURN(const GraphIndex* index, target.PlannedIndex());
  NODEWISE_ASSIGN_OR_RETURN(CandidateMakers makers, MakersOf(request.target));
  LocateRequest located{*index,
                        operators,
                        std::move(makers.candidate),
                        std::move(makers.with_private_storage),
                        request.inputs,
                        std::move(makers.elsewhere)};
  located.stand_ins = request.stand_ins;
  located.with_stand_ins = [&](const std::vector<std::string>& nodes) {
    return MakersWithStandIns(target, operators, nodes);
  };
  located.runs_at_once = FitsConcurrentRuns(index->plan());
#ifdef NODEWISE_USE_PROFILER
  // Only these builds have the sanitizer that looks for such writes.
  std::unique_ptr<StrayWriteSearch> search;
  const auto start = [&] {
    return StrayWriteSearch::Start(target, request.inputs,
                                   options.node_limit_ms);
  };
  if (HasRunnerFor(kGuarded, {target.name(), request.target})) {
    // The search for stray writes goes on while Locate() runs the candidate.
    if (located.runs_at_once && options.checks_storage) {
      NODEWISE_ASSIGN_OR_RETURN(search, start());
    }
    located.find_stray_writes =
        [&]() -> absl::StatusOr<std::vector<NodeFailure>> {
      if (search == nullptr) {
        NODEWISE_ASSIGN_OR_RETURN(search, start());
      }
      return search->Finish();
    };
  }
#endif
  NODEWISE_ASSIGN_OR_RETURN(LocateResult result, Locate(located, options));
  if (request.referee != nullptr) {
    NODEWISE_ASSIGN_OR_RETURN(*request.opinions,
                              AskReferee(located, result, request.referee));
  }
  // No node has ended this process, or there would be no result; but the user
  // should know that such a node could not have been found.
  if (!HasRunnerFor(kGuarded, {target.name(), request.target})) {
    result.notes.push_back(fmt::format(
        "{}: is on a device, where a node that crashes or hangs would have "
        "ended this process",
        target.name()));
  }
  return result;
}

absl::StatusOr<RunnerMaker> MakerOfReference(
    const std::shared_ptr<const GraphTarget>& target, const OpSet& operators) {
  NODEWISE_ASSIGN_OR_RETURN(const auto apart,
                            WithSeparateStorage(*target, "by the reference"));
  NODEWISE_ASSIGN_OR_RETURN(
      const auto replaced,
      WithStandIns(*apart, operators, [](const std::string&) { return true; }));
  return MakerOf("plain", {replaced->name(), replaced});
}

absl::StatusOr<SamplesResult> LocateSamplesInTarget(
    const TargetRequest& request, const std::vector<InputSample>& samples,
    const OpSet& operators, const LocateOptions& options,
    const SamplesOptions& samples_options) {
  // The runners that rank samples are made once; each sample that is examined
  // gets its own.
  NODEWISE_ASSIGN_OR_RETURN(RunnerMaker candidate, RunnersOf(request.target));
  NODEWISE_ASSIGN_OR_RETURN(RunnerMaker reference,
                            MakerOfReference(request.target, operators));
  const auto locate = [&](const std::vector<NamedTensor>& inputs) {
    TargetRequest one = request;
    one.inputs = inputs;
    return LocateInTarget(one, operators, options);
  };
  return LocateInSamples({request.target->graph(), samples,
                          std::move(candidate), std::move(reference), locate},
                         samples_options);
}

}  // namespace nodewise
