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
// recorded, observers do not see what is only timed, and kFailedPrecondition is
// what all of it gives while patches or an invoker are set.
class Profiler {
 public:
  struct Options {
    int runs = 10;
    int warm_up = 3;
    std::optional<RepeatOptions> isolated;
    std::vector<Collector*> collectors;
    bool watches_workers = false;  // One more run, for Profile::workers.
    // Called with done and total while it works; may be null.
    std::function<void(size_t, size_t)> progress;
  };

  // REQUIRES: `executor` outlives it.
  explicit Profiler(DebugExecutor* executor) : executor_(executor) {}

  // `runs` times in place, each paired with a plain run, by turns the one and
  // the other first, after `warm_up` pairs. Then, if wanted, every node by
  // itself, and as many passes with the collectors.
  absl::StatusOr<Profile> Run(const Options& options);

  // All nodes, or one, timed by itself on the inputs that it has in a real run:
  // seconds by node and repeat.
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
