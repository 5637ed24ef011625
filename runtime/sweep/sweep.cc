#include "nodewise/sweep/sweep.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/thread_pool.h"
#include "runtime/sweep/sweep_memory.h"
#include "runtime/sweep/sweep_observer.h"

namespace nodewise {
namespace {

// Sets the number of threads, and restores it at the end.
class ThreadCount {
 public:
  ThreadCount() : before_(NumThreads()) {}
  ~ThreadCount() { SetNumThreads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

absl::Status CheckOptions(const SweepOptions& options) {
  if (options.layouts < 1 || options.repeats < 1) {
    return absl::InvalidArgumentError(
        fmt::format("sweep: found {} layouts and {} repeats, expected 1 or "
                    "more of each",
                    options.layouts, options.repeats));
  }
  for (const int threads : options.threads) {
    if (threads >= 1 && threads <= kMaxTasks) continue;
    return absl::InvalidArgumentError(
        fmt::format("sweep: found a thread count of {}, expected 1 to {}",
                    threads, kMaxTasks));
  }
  return absl::OkStatus();
}

// Returns all runs. Those that differ from the first in one thing come before
// those that differ in two, so that findings are attributed to the one.
std::vector<SweepRun> RunsOf(const SweepOptions& options) {
  std::vector<int> threads = options.threads;
  if (threads.empty()) threads = {1, 2, 3, NumThreads()};
  std::vector<int> once;
  for (const int count : threads) {
    if (std::find(once.begin(), once.end(), count) == once.end()) {
      once.push_back(count);
    }
  }
  std::vector<SweepRun> all;
  for (const int count : once) {
    for (int layout = 0; layout < options.layouts; ++layout) {
      for (int repeat = 0; repeat < options.repeats; ++repeat) {
        all.push_back({count, layout, repeat});
      }
    }
  }
  const auto things = [&](const SweepRun& c) {
    return (c.threads != once[0] ? 1 : 0) + (c.layout != 0 ? 1 : 0);
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const SweepRun& a, const SweepRun& b) {
                     return things(a) < things(b);
                   });
  return all;
}

}  // namespace

absl::StatusOr<SweepReport> Sweep(const ExecutorMaker& make,
                                  const SweepOptions& options) {
  NODEWISE_RETURN_IF_ERROR(CheckOptions(options));
  const ThreadCount restored;
  const auto memory = std::make_shared<SweepMemory>();
  SweepObserver observer;
  SweepReport report;
  const std::vector<SweepRun> runs = RunsOf(options);
  for (const SweepRun& run : runs) {
    memory->SetLayout(run.layout);
    SetNumThreads(run.threads);
    DebugExecutor::DebugOptions debug_options;
    debug_options.records = false;
    debug_options.allocate = [memory](uint32_t slot, size_t bytes,
                                      DLDevice device) {
      return memory->Allocate(slot, bytes, device);
    };
    NODEWISE_ASSIGN_OR_RETURN(const auto executor,
                              make(std::move(debug_options)));
    observer.Begin(run);
    executor->AddObserver(&observer);
    executor->SetPutsFloatsBack(true);
    const absl::Status status = executor->Run();
    executor->RemoveObserver(&observer);
    // A failure of the first run is returned as it is.
    if (!status.ok() && report.runs > 0) {
      return At(fmt::format("run {} of the sweep (threads: {}, layout: {})",
                            report.runs + 1, run.threads, run.layout + 1),
                status);
    }
    NODEWISE_RETURN_IF_ERROR(status);
    ++report.runs;
    if (options.progress) options.progress(report.runs, runs.size());
  }
  observer.Finish(&report);
  return report;
}

}  // namespace nodewise
