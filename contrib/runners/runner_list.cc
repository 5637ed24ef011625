#include "nodewise/runners/runner_list.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "nodewise/runner/network_runner.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"

#ifdef NODEWISE_USE_PROFILER
#include "nodewise/guarded/guarded_runner.h"
#include "nodewise/runner/debug_runner.h"
#endif

namespace nodewise {
namespace {

// These say what each kind takes and how it is made. A new kind needs a row in
// kKinds and nothing else: options, messages and tests read the list.
bool IsGraph(const RunnerTarget& target) { return target.graph != nullptr; }
bool IsNetwork(const RunnerTarget& target) { return target.network != nullptr; }
bool IsForeign(const RunnerTarget& target) { return target.foreign != nullptr; }

using Made = absl::StatusOr<std::unique_ptr<Runner>>;

Made MakePlain(const RunnerTarget& target) {
  NODEWISE_ASSIGN_OR_RETURN(auto executor, target.graph->MakeExecutor());
  return std::make_unique<GraphRunner>("plain", target.graph,
                                       std::move(executor));
}

#ifdef NODEWISE_USE_PROFILER
// A device does not survive the fork that each of these runs begins with.
bool IsGuardable(const RunnerTarget& target) {
  return IsGraph(target) && CanBeGuarded(*target.graph);
}
template <TensorAddresses kAddresses>
Made MakeGuarded(const RunnerTarget& target) {
  return MakeGuardedRunner(target.graph, kAddresses);
}
Made MakeDebug(const RunnerTarget& target) {
  return MakeDebugRunner(target.graph);
}
#endif

Made MakeInterpreter(const RunnerTarget& target) {
  return MakeNetworkRunner("interpreter", target.name, target.network);
}

Made MakeForeign(const RunnerTarget& target) {
  return MakeForeignRunner(*target.foreign);
}

// Builds without USE_PROFILER have no debug executor, on which three of them
// rest.
constexpr RunnerKind kKinds[] = {
    {"plain", "a compiled graph as it is deployed", &IsGraph, &MakePlain},
#ifdef NODEWISE_USE_PROFILER
    {"debug", "a compiled graph that can be looked into", &IsGraph, &MakeDebug},
    {"guarded",
     "a compiled graph on a CPU that can be looked into, each run in a process "
     "of its own",
     &IsGuardable, &MakeGuarded<TensorAddresses::kUsual>},
    {"barely_aligned",
     "as guarded, with tensors at odd multiples of the 64 bytes that TVM "
     "promises",
     &IsGuardable, &MakeGuarded<TensorAddresses::kBarelyAligned>},
#endif
    {"interpreter", "a network by the definitions of its operators", &IsNetwork,
     &MakeInterpreter},
    {"foreign", "a network and another program that runs it", &IsForeign,
     &MakeForeign},
};

}  // namespace

absl::Span<const RunnerKind> RunnerKinds() { return kKinds; }

bool HasRunnerFor(std::string_view kind, const RunnerTarget& target) {
  return std::ranges::any_of(kKinds, [&](const RunnerKind& row) {
    return row.name == kind && row.takes(target);
  });
}

absl::StatusOr<RunnerMaker> MakerOf(std::string_view kind,
                                    RunnerTarget target) {
  std::vector<std::string> names;
  for (const RunnerKind& row : kKinds) {
    names.emplace_back(row.name);
    if (row.name != kind) continue;
    if (!row.takes(target)) {
      // The kind exists, so the target is what has to change.
      return InvalidArgument(
          "{}: is nothing that runner {} can run, expected {}", target.name,
          kind, row.summary);
    }
    // The maker holds the target, so that it may be called when the caller has
    // long forgotten it.
    return RunnerMaker(
        [make = row.make, target = std::move(target)] { return make(target); });
  }
  return NotFound("runner {}: this build has none of that name{}", kind,
                  DidYouMean(kind, names));
}

}  // namespace nodewise
