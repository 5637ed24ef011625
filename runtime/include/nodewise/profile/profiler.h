#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/func/time_repeats.h"
#include "nodewise/profile/collector.h"
#include "nodewise/profile/profile.h"

namespace nodewise {

// Times the compiled code of a debug executor, and that alone: nothing is
// recorded, observers do not see nodes that are only timed, and every function
// fails with kFailedPrecondition while patches or an invoker are set.
class Profiler {
 public:
  struct Options {
    int runs = 10;
    int warm_up = 3;
    std::optional<RepeatOptions> isolated;
    std::vector<Collector*> collectors;
    bool watches_workers = false;  // Makes one more run, for Profile::workers.
    // Called with the steps done and their total; may be null.
    std::function<void(size_t, size_t)> progress;
  };

  // REQUIRES: `executor` outlives it.
  explicit Profiler(DebugExecutor* executor) : executor_(executor) {}

  // Times `runs` runs in place, each paired with a plain run, taking turns at
  // which is first, after `warm_up` pairs. Then, if wanted, times every node by
  // itself, and makes `runs` passes with the collectors.
  absl::StatusOr<Profile> Run(const Options& options);

  // Time all nodes, or one, each by itself on the inputs that it has in a real
  // run. Return seconds by node and repeat.
  absl::StatusOr<std::vector<std::vector<double>>> TimeNodes(
      const RepeatOptions& options);
  absl::StatusOr<std::vector<double>> TimeNode(NodeId node,
                                               const RepeatOptions& options);

 private:
  absl::Status TimePairs(const Options& options, Profile* profile);
  absl::Status CollectCounts(const Options& options, Profile* profile);
  absl::Status WatchWorkers(Profile* profile);

  DebugExecutor* executor_;
};

}  // namespace nodewise
