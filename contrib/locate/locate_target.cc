#include "nodewise/locate/locate_target.h"

#include <cstdint>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "fmt/format.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/locate/private_storage.h"
#include "nodewise/runner/stand_in.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/support/memory_use.h"
#include "nodewise/support/status_macros.h"

#ifdef NODEWISE_USE_PROFILER
#include "contrib/locate/stray_writes.h"
#endif

namespace nodewise {
namespace {

constexpr std::string_view kGuarded = "guarded";
constexpr std::string_view kElsewhere = "barely_aligned";

bool CanBeGuarded(const RunnerTarget& target) {
  return HasRunnerFor(kGuarded, target);
}

absl::StatusOr<RunnerMaker> RunnersOf(
    const std::shared_ptr<const GraphTarget>& graph) {
  RunnerTarget target{graph->name(), graph};
  const std::string_view kind = CanBeGuarded(target) ? kGuarded : "debug";
  return MakerOf(kind, std::move(target));
}

// A run takes the plan's memory, and as much again where kernels keep constants
// in an order of their own.
bool HasRoomForRunsAtOnce(const StoragePlan& plan) {
  constexpr uint64_t kRuns = 3, kTimes = 2, kShare = 2;
  uint64_t bytes = 0;
  for (const StorageSlot& slot : plan.slots) bytes += slot.bytes;
  return std::thread::hardware_concurrency() > 1 &&
         bytes * kRuns * kTimes < AvailableMemory() / kShare;
}

// The other storage is only planned if such a run is asked for.
RunnerMaker PrivateRunnersOf(const std::shared_ptr<const GraphTarget>& graph) {
  return [graph]() -> absl::StatusOr<std::unique_ptr<Runner>> {
    const Artefact& artefact = graph->artefact();
    NODEWISE_ASSIGN_OR_RETURN(
        const auto apart,
        GraphTarget::FromArtefact(
            graph->name() + " with memory of its own for each tensor",
            {WithPrivateStorage(artefact.graph), artefact.library,
             artefact.params},
            graph->devices()));
    NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker maker, RunnersOf(apart));
    return maker();
  };
}

}  // namespace

absl::StatusOr<CandidateMakers> MakersOf(
    const std::shared_ptr<const GraphTarget>& target) {
  CandidateMakers makers;
  NODEWISE_ASSIGN_OR_RETURN(makers.candidate, RunnersOf(target));
  makers.with_private_storage = PrivateRunnersOf(target);
  const RunnerTarget guarded{target->name(), target};
  if (CanBeGuarded(guarded)) {
    NODEWISE_ASSIGN_OR_RETURN(makers.elsewhere, MakerOf(kElsewhere, guarded));
  }
  return makers;
}

absl::StatusOr<CandidateMakers> MakersWithStandIns(
    const GraphTarget& target, const OpSet& operators,
    const std::vector<std::string>& nodes) {
  const std::set<std::string> replaced(nodes.begin(), nodes.end());
  NODEWISE_ASSIGN_OR_RETURN(
      const auto graph,
      WithStandIns(target, operators, [replaced](const std::string& node) {
        return replaced.count(node) > 0;
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
  located.runs_at_once = HasRoomForRunsAtOnce(index->plan());
#ifdef NODEWISE_USE_PROFILER
  std::unique_ptr<StrayWriteSearch> search;
  const auto start_search = [&]() -> absl::Status {
    NODEWISE_ASSIGN_OR_RETURN(
        search,
        StrayWriteSearch::Start(target, request.inputs, options.node_limit_ms));
    return absl::OkStatus();
  };
  if (CanBeGuarded({target.name(), request.target})) {
    if (located.runs_at_once && options.checks_storage) {
      NODEWISE_RETURN_IF_ERROR(start_search());
    }
    located.find_stray_writes =
        [&]() -> absl::StatusOr<std::vector<NodeFailure>> {
      if (search == nullptr) NODEWISE_RETURN_IF_ERROR(start_search());
      return search->Finish();
    };
  }
#endif
  NODEWISE_ASSIGN_OR_RETURN(LocateResult result, Locate(located, options));
  if (request.referee != nullptr) {
    NODEWISE_ASSIGN_OR_RETURN(*request.opinions,
                              AskReferee(located, result, request.referee));
  }
  if (!CanBeGuarded({target.name(), request.target})) {
    result.notes.push_back(fmt::format(
        "{}: is on a device, where a node that crashes or hangs would have "
        "ended this process",
        target.name()));
  }
  return result;
}

absl::StatusOr<RunnerMaker> MakerOfReference(
    const std::shared_ptr<const GraphTarget>& target, const OpSet& operators) {
  const Artefact& artefact = target->artefact();
  NODEWISE_ASSIGN_OR_RETURN(
      const auto apart,
      GraphTarget::FromArtefact(target->name() + " by the reference",
                                {WithPrivateStorage(artefact.graph),
                                 artefact.library, artefact.params},
                                target->devices()));
  NODEWISE_ASSIGN_OR_RETURN(
      const auto replaced,
      WithStandIns(*apart, operators, [](const std::string&) { return true; }));
  return MakerOf("plain", {replaced->name(), replaced});
}

absl::StatusOr<SamplesResult> LocateSamplesInTarget(
    const TargetRequest& request, const std::vector<InputSample>& samples,
    const OpSet& operators, const LocateOptions& options,
    const SamplesOptions& samples_options) {
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
