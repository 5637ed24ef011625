#include "runtime/profile/worker_observer.h"

#include <map>
#include <thread>
#include <utility>

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

  // Returns the spans since the last time.
  std::vector<WorkerSpan> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(spans_, {});
  }

 private:
  std::mutex mutex_;
  bool is_open_ = false;                    // mutex_
  std::map<std::thread::id, int> workers_;  // mutex_
  std::vector<WorkerSpan> spans_;           // mutex_
};

std::mutex& Turn() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

}  // namespace

WorkerObserver::WorkerObserver() : turn_(Turn()) { TaskLog::Get().Open(); }

WorkerObserver::~WorkerObserver() { TaskLog::Get().Close(); }

absl::Status WorkerObserver::BeforeNode(const NodeRun&) {
  (void)TaskLog::Get().Take();
  return absl::OkStatus();
}

absl::Status WorkerObserver::AfterNode(const NodeRun& node) {
  for (WorkerSpan& span : TaskLog::Get().Take()) {
    if (span.start_ns < node.time.start_ns || span.end_ns > node.time.end_ns) {
      continue;
    }
    span.node = node.node;
    spans_.push_back(span);
  }
  return absl::OkStatus();
}

std::vector<WorkerSpan> WorkerObserver::TakeSpans() {
  return std::move(spans_);
}

}  // namespace nodewise
