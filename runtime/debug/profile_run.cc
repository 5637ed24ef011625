// Runs that are only timed: in place, and every node by itself.

#include <algorithm>
#include <chrono>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_format.h"
#include "nodewise/runtime/debug_executor.h"
#include "nodewise/support/clock.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/thread_pool.h"
#include "runtime/debug/worker_watch.h"

namespace nodewise {
namespace {

// Counts between nodes what collectors count.
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

  absl::Status BeforeNode(NodeId) override {
    for (size_t c = 0; c < collectors_.size(); ++c) {
      collectors_[c]->Read(absl::MakeSpan(before_[c]));
    }
    return absl::OkStatus();
  }

  absl::Status AfterNode(NodeId node, NodeTime) override {
    for (size_t c = collectors_.size(); c-- > 0;) {
      collectors_[c]->Read(absl::MakeSpan(after_[c]));
    }
    size_t next = 0;
    for (size_t c = 0; c < collectors_.size(); ++c) {
      for (size_t i = 0; i < before_[c].size(); ++i, ++next) {
        counts_[next].by_node[Index(node)] += after_[c][i] - before_[c][i];
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
  // Two collectors may offer the same; names are keys in JSON.
  std::string FreeName(const std::string& name) const {
    const auto is_taken = [this](const std::string& key) {
      return std::any_of(counts_.begin(), counts_.end(),
                         [&](const NodeCounts& c) { return c.name == key; });
    };
    std::string key = name;
    for (int i = 2; is_taken(key); ++i) key = absl::StrFormat("%s#%d", name, i);
    return key;
  }

  absl::Span<Collector* const> collectors_;
  std::vector<std::vector<double>> before_;
  std::vector<std::vector<double>> after_;
  std::vector<NodeCounts> counts_;
};

}  // namespace

// What is measured is the compiled code, called as a plain run calls it.
absl::Status DebugExecutor::CheckPlain() const {
  if (!patches_.empty()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "profile: %d %s patched, expected none "
        "(ClearPatches() first)",
        patches_.size(), patches_.size() == 1 ? "entry is" : "entries are"));
  }
  if (!invoker_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "profile: an invoker is set, expected none (SetInvoker(nullptr) first)");
}

absl::StatusOr<Profile> DebugExecutor::RunProfile(
    const ProfileOptions& options) {
  if (options.runs < 1 || options.warm_up < 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "got %d runs and %d to warm up, expected at least 1 and 0",
        options.runs, options.warm_up));
  }
  NODEWISE_RETURN_IF_ERROR(CheckPlain());
  Profile profile;
  profile.wall_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                        std::chrono::system_clock::now().time_since_epoch())
                        .count();
  profile.monotonic_ns = ClockNanoseconds();
  profile.threads = NumThreads();
  NODEWISE_RETURN_IF_ERROR(TimePairs(options, &profile));
  if (!options.collectors.empty()) {
    NODEWISE_RETURN_IF_ERROR(CollectCounts(options, &profile));
  }
  if (options.isolated.has_value()) {
    NODEWISE_ASSIGN_OR_RETURN(profile.isolated,
                              RunIndividual(*options.isolated));
  }
  if (options.watches_workers) {
    NODEWISE_RETURN_IF_ERROR(WatchWorkers(&profile));
  }
  return profile;
}

absl::Status DebugExecutor::TimePairs(const ProfileOptions& options,
                                      Profile* profile) {
  // Room is made as runs are measured: there may never be as many as wanted.
  const int64_t pairs = int64_t{options.warm_up} + options.runs;
  for (int64_t i = 0; i < pairs; ++i) {
    int64_t plain = 0;
    // Whichever is second finds warmer caches: they take turns.
    for (const bool is_plain : {i % 2 == 0, i % 2 != 0}) {
      const int64_t start = ClockNanoseconds();
      const absl::Status status = is_plain ? GraphExecutor::Run() : RunTimed();
      const int64_t end = ClockNanoseconds();
      if (is_plain && !status.ok()) MarkAllLost();
      NODEWISE_RETURN_IF_ERROR(status);
      if (is_plain) {
        plain = end - start;
        EndPass();
      } else {
        times_.whole = {start, end};
      }
    }
    if (options.progress) {
      options.progress(static_cast<size_t>(i) + 1, static_cast<size_t>(pairs));
    }
    if (i < options.warm_up) continue;
    profile->runs.push_back(times_);
    profile->plain_ns.push_back(plain);
  }
  return absl::OkStatus();
}

// Passes of their own, since reading counters takes system calls.
absl::Status DebugExecutor::CollectCounts(const ProfileOptions& options,
                                          Profile* profile) {
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
  CountingObserver counting(started, graph().nodes.size());
  observers_.push_back(&counting);
  const absl::Cleanup stop = [&] {
    RemoveObserver(&counting);
    for (Collector* collector : started) collector->Stop();
  };
  absl::Status status;
  for (int i = 0; i < options.runs && status.ok(); ++i) {
    status = Restart();
    if (status.ok()) status = Continue();
  }
  profile->counters = std::move(counting).MeanOver(options.runs);
  return status;
}

// A run of its own, since watching costs each task two readings of the clock.
absl::Status DebugExecutor::WatchWorkers(Profile* profile) {
  WorkerWatch watch;
  observers_.push_back(&watch);
  const absl::Cleanup remove = [&] { RemoveObserver(&watch); };
  absl::Status status = Restart();
  if (status.ok()) status = Continue();
  profile->watched = times_;
  profile->workers = watch.TakeSpans();
  return status;
}

absl::StatusOr<std::vector<std::vector<double>>> DebugExecutor::RunIndividual(
    const RepeatOptions& options) {
  NODEWISE_RETURN_IF_ERROR(CheckRepeatOptions(options));
  NODEWISE_RETURN_IF_ERROR(CheckPlain());
  std::vector<std::vector<double>> seconds(graph().nodes.size());
  // Node after node, so that each finds the inputs that it has in a real run.
  in_pass_ = false;
  NODEWISE_RETURN_IF_ERROR(PrepareRun());
  for (const Call& call : calls()) {
    auto measured = MeasureApart(call, options);
    absl::Status status = measured.status();
    if (status.ok()) status = CallNode(call);
    if (!status.ok()) {
      LeavePass(call.node);
      return status;
    }
    seconds[Index(call.node)] = *std::move(measured);
  }
  EndPass();
  NODEWISE_RETURN_IF_ERROR(FinishRun());
  for (std::vector<double>& node : seconds) {
    node.resize(static_cast<size_t>(options.repeat));
  }
  return seconds;
}

absl::StatusOr<std::vector<double>> DebugExecutor::RunIndividualNode(
    NodeId node, const RepeatOptions& options) {
  NODEWISE_RETURN_IF_ERROR(CheckRepeatOptions(options));
  NODEWISE_RETURN_IF_ERROR(CheckPlain());
  if (Index(node) >= graph().nodes.size()) {
    return absl::OutOfRangeError(absl::StrFormat(
        "node %d: the graph has %d nodes", Index(node), graph().nodes.size()));
  }
  NODEWISE_RETURN_IF_ERROR(Restart());
  while (Index(position_) < Index(node)) NODEWISE_RETURN_IF_ERROR(Advance());
  std::vector<double> seconds;
  const uint32_t index = call_of_[Index(node)];
  if (index < calls().size()) {
    auto measured = MeasureApart(calls()[index], options);
    if (!measured.ok()) {
      LeavePass(node);
      return measured.status();
    }
    seconds = *std::move(measured);
  }
  NODEWISE_RETURN_IF_ERROR(Advance());
  seconds.resize(static_cast<size_t>(options.repeat));
  return seconds;
}

bool DebugExecutor::WritesItsInput(NodeId node) const {
  for (const DLTensor* output : OutputsOf(node)) {
    for (const DLTensor* input : InputsOf(node)) {
      if (input->data == output->data) return true;
    }
  }
  return false;
}

// A node that works in place would read its own result the second time: while
// it is measured it writes elsewhere.
absl::StatusOr<std::vector<double>> DebugExecutor::MeasureApart(
    const Call& call, const RepeatOptions& options) {
  const auto measure = [&] {
    return TimeRepeats(
        options, [&](int64_t number) { return TimeCalls(call, number); },
        [] { return absl::OkStatus(); });
  };
  if (!WritesItsInput(call.node)) return measure();
  std::vector<std::pair<uint32_t, void*>> places;
  std::vector<NDArray> elsewhere;
  for (uint32_t o = 0; o < graph().OutputsOf(call.node); ++o) {
    const uint32_t entry = Index(graph().EntryOf(call.node, o));
    const DLTensor& own = tensor(EntryId{entry});
    NODEWISE_ASSIGN_OR_RETURN(
        NDArray memory, NDArray::Empty(ShapeOf(own), own.dtype, own.device));
    places.emplace_back(plan().base_of[entry], own.data);
    elsewhere.push_back(std::move(memory));
  }
  for (size_t o = 0; o < places.size(); ++o) {
    Repoint(places[o].first, elsewhere[o].data());
  }
  const absl::Cleanup repoint = [&] {
    for (const auto& [base, data] : places) Repoint(base, data);
  };
  return measure();
}

absl::StatusOr<int64_t> DebugExecutor::TimeCalls(const Call& call,
                                                 int64_t number) {
  const int64_t start = ClockNanoseconds();
  for (int64_t i = 0; i < number; ++i) NODEWISE_RETURN_IF_ERROR(CallNode(call));
  return ClockNanoseconds() - start;
}

}  // namespace nodewise
