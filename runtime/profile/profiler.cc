#include "nodewise/profile/profiler.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "fmt/format.h"
#include "nodewise/debug/run_observer.h"
#include "nodewise/graph/finding.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/status.h"
#include "nodewise/support/thread_pool.h"

namespace nodewise {
namespace {

// Keeps what the pool reports. Never destroyed: a launch of another thread may
// still report after the last listener has gone.
class TaskLog final : public TaskObserver {
 public:
  static TaskLog& Get() {
    static auto* const log = new TaskLog;
    return *log;
  }

  std::mutex turn;  // Held by the observer that listens.

  void Open() {
    {
      const std::lock_guard lock(mutex_);
      is_open_ = true;
      workers_ = {{std::this_thread::get_id(), 0}};
    }
    SetTaskObserver(this);
  }
  void Close() {
    SetTaskObserver(nullptr);
    const std::lock_guard lock(mutex_);
    is_open_ = false;
    spans_.clear();
  }

  void TaskRan(int64_t start_ns, int64_t end_ns) noexcept override {
    const std::lock_guard lock(mutex_);
    if (!is_open_) return;
    const auto next = static_cast<int>(workers_.size());
    const auto known = workers_.try_emplace(std::this_thread::get_id(), next);
    spans_.push_back({start_ns, end_ns, known.first->second, NodeId{}});
  }

  std::vector<WorkerSpan> DrainSpans() {
    const std::lock_guard lock(mutex_);
    return std::exchange(spans_, {});
  }

 private:
  std::mutex mutex_;
  bool is_open_ = false;                    // mutex_
  std::map<std::thread::id, int> workers_;  // mutex_
  std::vector<WorkerSpan> spans_;           // mutex_
};

// Sees which thread of the pool works when, node by node, for as long as it
// lives. Tasks of other launches within a node's time count as the node's.
// There is one at a time in a process: constructing another waits.
class WorkerObserver : public NodeObserver {
 public:
  // The constructing thread is worker 0.
  WorkerObserver() : turn_(TaskLog::Get().turn) { TaskLog::Get().Open(); }
  ~WorkerObserver() override { TaskLog::Get().Close(); }

  absl::Status BeforeNode(const NodeRun&) override {
    (void)TaskLog::Get().DrainSpans();
    return absl::OkStatus();
  }

  absl::Status AfterNode(const NodeRun& node) override {
    for (WorkerSpan& span : TaskLog::Get().DrainSpans()) {
      if (span.start_ns < node.time.start_ns ||
          span.end_ns > node.time.end_ns) {
        continue;
      }
      span.node = node.node;
      spans_.push_back(span);
    }
    return absl::OkStatus();
  }

  std::vector<WorkerSpan> TakeSpans() { return std::move(spans_); }

 private:
  const std::unique_lock<std::mutex> turn_;
  std::vector<WorkerSpan> spans_;
};

// Reads the collectors between nodes. Several collectors nest: the one read
// first before a node is read last after it, so that reading one is counted by
// as few others as possible.
class CountingObserver : public NodeObserver {
 public:
  CountingObserver(absl::Span<Collector* const> collectors, size_t num_nodes)
      : collectors_(collectors) {
    for (Collector* collector : collectors) {
      const std::vector<std::string> names = collector->Names();
      before_.emplace_back(names.size());
      after_.emplace_back(names.size());
      for (const std::string& name : names) {
        counts_.push_back({FreeName(name), std::vector<double>(num_nodes)});
      }
    }
  }

  absl::Status BeforeNode(const NodeRun&) override {
    for (size_t c = 0; c < collectors_.size(); ++c) {
      collectors_[c]->Read(absl::MakeSpan(before_[c]));
    }
    return absl::OkStatus();
  }

  absl::Status AfterNode(const NodeRun& node) override {
    for (size_t c = collectors_.size(); c-- > 0;) {
      collectors_[c]->Read(absl::MakeSpan(after_[c]));
    }
    size_t next = 0;
    for (size_t c = 0; c < collectors_.size(); ++c) {
      for (size_t i = 0; i < before_[c].size(); ++i, ++next) {
        counts_[next].by_node[Index(node.node)] += after_[c][i] - before_[c][i];
      }
    }
    return absl::OkStatus();
  }

  std::vector<NodeCounts> MeanOver(int runs) && {
    for (NodeCounts& counts : counts_) {
      for (double& value : counts.by_node) value /= runs;
    }
    return std::move(counts_);
  }

 private:
  // Two collectors may use the same name, but names are keys in JSON.
  std::string FreeName(const std::string& name) const {
    const auto is_taken = [this](const std::string& key) {
      return std::any_of(counts_.begin(), counts_.end(),
                         [&](const NodeCounts& c) { return c.name == key; });
    };
    std::string key = name;
    for (int i = 2; is_taken(key); ++i) key = fmt::format("{}#{}", name, i);
    return key;
  }

  absl::Span<Collector* const> collectors_;
  std::vector<std::vector<double>> before_;
  std::vector<std::vector<double>> after_;
  std::vector<NodeCounts> counts_;
};

}  // namespace

// Both clocks are read next to each other, since times of day are calculated
// from the distance between the two.
Profile BeginProfile() {
  Profile profile;
  profile.wall_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                        std::chrono::system_clock::now().time_since_epoch())
                        .count();
  profile.monotonic_ns = ClockNanoseconds();
  profile.threads = NumThreads();
  return profile;
}

// The pairs come first, before anything that may warm or disturb caches in ways
// of its own.
absl::StatusOr<Profile> Profiler::Run(const Options& options) {
  if (options.runs < 1 || options.warm_up < 0) {
    return InvalidArgument(
        "got {} runs and {} to warm up, expected at least 1 and 0",
        options.runs, options.warm_up);
  }
  NODEWISE_RETURN_IF_ERROR(executor_->CheckPlain());
  Profile profile = BeginProfile();
  NODEWISE_RETURN_IF_ERROR(TimePairs(options, &profile));
  if (!options.collectors.empty()) {
    NODEWISE_RETURN_IF_ERROR(CollectCounts(options, &profile));
  }
  if (options.isolated.has_value()) {
    NODEWISE_ASSIGN_OR_RETURN(profile.isolated, TimeNodes(*options.isolated));
  }
  if (options.watches_workers) {
    NODEWISE_RETURN_IF_ERROR(WatchWorkers(&profile));
  }
  return profile;
}

// Plain and timed runs alternate, so that a machine that gets slower or faster
// meanwhile does so for both, and the difference stays the cost of timing.
absl::Status Profiler::TimePairs(const Options& options, Profile* profile) {
  // Memory grows with the runs that were measured, and is not taken for all of
  // them in advance: there may never be as many as wanted.
  const int64_t pairs = int64_t{options.warm_up} + options.runs;
  for (int64_t i = 0; i < pairs; ++i) {
    int64_t plain = 0;
    NodeTime timed;
    // The second run of a pair finds warmer caches, so the two kinds take turns
    // at being first.
    for (const bool is_plain : {i % 2 == 0, i % 2 != 0}) {
      const NotedRun run(executor_->graph().text.name);
      const int64_t start = ClockNanoseconds();
      NODEWISE_RETURN_IF_ERROR(is_plain ? executor_->RunPlain()
                                        : executor_->RunTimed());
      const int64_t end = ClockNanoseconds();
      if (is_plain) {
        plain = end - start;
      } else {
        timed = {start, end};
      }
    }
    if (options.progress) {
      options.progress(static_cast<size_t>(i) + 1, static_cast<size_t>(pairs));
    }
    if (i < options.warm_up) continue;
    profile->runs.push_back(executor_->times());
    profile->runs.back().whole = timed;
    profile->plain_ns.push_back(plain);
  }
  return absl::OkStatus();
}

// Makes separate passes, since reading counters takes system calls.
absl::Status Profiler::CollectCounts(const Options& options, Profile* profile) {
  std::vector<Collector*> started;
  for (Collector* collector : options.collectors) {
    const absl::Status status = collector->Start();
    if (status.ok()) {
      started.push_back(collector);
    } else {
      profile->notes.emplace_back(MessageOf(status));
    }
  }
  if (started.empty()) return absl::OkStatus();
  CountingObserver counting(started, executor_->graph().nodes.size());
  executor_->AddObserver(&counting);
  const absl::Cleanup stop = [&] {
    executor_->RemoveObserver(&counting);
    for (Collector* collector : started) collector->Stop();
  };
  absl::Status status;
  for (int i = 0; i < options.runs && status.ok(); ++i) {
    status = executor_->Restart();
    if (status.ok()) status = executor_->Continue();
  }
  profile->counters = std::move(counting).MeanOver(options.runs);
  return status;
}

// Makes a separate run, since watching costs each task two readings of the
// clock.
absl::Status Profiler::WatchWorkers(Profile* profile) {
  WorkerObserver watch;
  executor_->AddObserver(&watch);
  const absl::Cleanup remove = [&] { executor_->RemoveObserver(&watch); };
  absl::Status status = executor_->Restart();
  if (status.ok()) status = executor_->Continue();
  profile->watched = executor_->times();
  profile->workers = watch.TakeSpans();
  return status;
}

// Each node is timed on the inputs that it has in a real run: the pass goes on
// by one real step after each measurement.
absl::StatusOr<std::vector<std::vector<double>>> Profiler::TimeNodes(
    const RepeatOptions& options) {
  NODEWISE_RETURN_IF_ERROR(CheckRepeatOptions(options));
  NODEWISE_RETURN_IF_ERROR(executor_->CheckPlain());
  std::vector<std::vector<double>> seconds;
  NODEWISE_RETURN_IF_ERROR(executor_->Restart());
  while (!executor_->AtEnd()) {
    NODEWISE_ASSIGN_OR_RETURN(seconds.emplace_back(),
                              executor_->TimeNext(options));
    NODEWISE_RETURN_IF_ERROR(executor_->RunUntil(executor_->Position()));
  }
  return seconds;
}

// Runs everything before the node first, for its inputs.
absl::StatusOr<std::vector<double>> Profiler::TimeNode(
    NodeId node, const RepeatOptions& options) {
  NODEWISE_RETURN_IF_ERROR(CheckRepeatOptions(options));
  NODEWISE_RETURN_IF_ERROR(executor_->CheckPlain());
  NODEWISE_RETURN_IF_ERROR(executor_->index().NodeAt(Index(node)).status());
  NODEWISE_RETURN_IF_ERROR(executor_->Restart());
  if (Index(node) > 0) {
    NODEWISE_RETURN_IF_ERROR(executor_->RunUntil(NodeId{Index(node) - 1}));
  }
  NODEWISE_ASSIGN_OR_RETURN(std::vector<double> seconds,
                            executor_->TimeNext(options));
  NODEWISE_RETURN_IF_ERROR(executor_->RunUntil(node));
  return seconds;
}

// Stops at the first run that fails or whose dump cannot be written, and keeps
// what the runs before it have left.
RecordedRuns RunRecorded(DebugExecutor* executor,
                         const RecordedRunOptions& options) {
  RecordedRuns recorded;
  recorded.profile = BeginProfile();
  for (int i = 0; i < options.runs; ++i) {
    {
      const NotedRun run("");
      recorded.status = executor->Run();
    }
    recorded.dump_status = executor->dump_status();
    if (recorded.status.ok()) {
      recorded.profile.runs.push_back(executor->times());
    }
    const bool has_dump =
        recorded.dump_status.ok() && executor->dump_plan() != nullptr;
    if (has_dump) recorded.dumps.push_back(executor->dump_folder());
    if (!recorded.status.ok() || !recorded.dump_status.ok()) break;
  }
  if (recorded.profile.runs.empty()) return recorded;
  recorded.summary = SummariseProfile(executor->index(), recorded.profile);
  recorded.table = ProfileTable(executor->graph(), recorded.summary,
                                recorded.profile, options.table);
  return recorded;
}

}  // namespace nodewise
