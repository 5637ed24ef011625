#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/func/time_repeats.h"
#include "nodewise/profile/profile.h"

namespace nodewise {

// Counts something around every node. Read() is called before the first node
// and after each one, on the thread that runs the graph; a node's count is the
// difference between two readings.
class Collector {
 public:
  virtual ~Collector() = default;
  // Returns the names of what is counted, with the unit where there is one.
  virtual std::vector<std::string> Names() const = 0;
  // Begins counting. An error says what the system does not allow.
  virtual absl::Status Start() = 0;
  // Writes the totals since Start(), which never decrease, in the order of
  // Names(). REQUIRES: `values` has one place for each name.
  virtual void Read(absl::Span<double> values) = 0;
  virtual void Stop() = 0;
};

// Returns a collector of the processor's counters, read by perf_event_open(2):
// "cycles", "instructions", "cache-misses", "branch-misses", "page-faults", ...
//
// It counts in all threads that this process has when Start() is called and in
// those that they create later: the workers of thread pools are included, and
// so is everything else that the process does meanwhile. The processor's events
// are counted outside of the kernel only. Where more events are asked for than
// there are counters, the kernel takes turns counting them and the figures are
// scaled up, so that they mean little for a node of less than a few
// milliseconds; ask for four or fewer.
//
// The events are tried out at once. Fails with kUnavailable, with the event,
// what the system said and what would allow it, where the kernel refuses; with
// kInvalidArgument, with the nearest name, for an unknown name, for a name
// given twice and for no name at all.
absl::StatusOr<std::unique_ptr<Collector>> PerfCollector(
    absl::Span<const std::string> events);

// Returns the names that PerfCollector knows.
std::vector<std::string> PerfEventNames();

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

// What runs of a debug executor left: TVM's debug executor prints the table and
// writes the dump in one run() too.
struct RecordedRuns {
  // The runs that came to their end, without plain runs beside them.
  Profile profile;
  // SummariseProfile and ProfileTable of them; empty if no run came to its end.
  ProfileSummary summary;
  std::string table;
  // The folder of each run's dump, also of one that failed; no more than that
  // if the executor records nothing.
  std::vector<std::string> dumps;
  absl::Status status;       // That of the run that failed, which is the last.
  absl::Status dump_status;  // What went wrong with writing the last dump.
};

struct RecordedRunOptions {
  int runs = 1;  // As many, unless one fails or its dump cannot be written.
  TableOptions table = {};
};

// Runs the executor as DebugExecutor::Run() does, and makes the table of the
// very runs that it recorded. Between two nodes the run records what they made,
// so that rows do not follow one another at once, and a node finds caches in
// which its inputs have just been read. REQUIRES: options.runs is at least 1.
RecordedRuns RunRecorded(DebugExecutor* executor,
                         const RecordedRunOptions& options = {});

}  // namespace nodewise
