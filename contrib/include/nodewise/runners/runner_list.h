#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/foreign/foreign_runner.h"
#include "nodewise/ir/network.h"
#include "nodewise/runner/graph_target.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// What runners can be made of: a compiled graph, a network, or a network and
// another program that runs it; exactly one is set. Copies share it.
struct RunnerTarget {
  std::string name;  // What messages call it.
  std::shared_ptr<const GraphTarget> graph = nullptr;
  std::shared_ptr<const Network> network = nullptr;
  std::shared_ptr<const ForeignTarget> foreign = nullptr;
};

// A kind of runner that this build has.
struct RunnerKind {
  const char* name;     // "interpreter"
  const char* summary;  // One line.
  bool (*takes)(const RunnerTarget& target);
  // REQUIRES: takes(target).
  absl::StatusOr<std::unique_ptr<Runner>> (*make)(const RunnerTarget& target);
};

// Returns all kinds, in a fixed order. "debug" and "guarded" are only in builds
// with USE_PROFILER. "guarded" does what "debug" does, and survives nodes that
// crash or hang (nodewise/runner/node_failure.h); "barely_aligned" does that
// with tensors at addresses that are aligned no better than kernels may ask.
absl::Span<const RunnerKind> RunnerKinds();

// Returns whether this build has that kind, and it can run the target.
bool HasRunnerFor(std::string_view kind, const RunnerTarget& target);

// Returns a maker of runners of that kind. Fails with kNotFound for a kind that
// is not in this build, naming the nearest, and with kInvalidArgument for one
// that cannot run such a target.
absl::StatusOr<RunnerMaker> MakerOf(std::string_view kind, RunnerTarget target);

}  // namespace nodewise
