#include "runtime/dump/dump_flusher.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "nodewise/support/thread_pool.h"
#include "runtime/dump/dump_stream.h"

namespace nodewise {
namespace {

constexpr std::chrono::milliseconds kPeriod(50);
constexpr int kIdlePeriods = 20;

class Flusher {
 public:
  // Never destroyed: the thread may run during static destruction.
  static Flusher& OfThisProcess();

  void Watch(ChunkWriter* writer);
  void End(ChunkWriter* writer);

 private:
  Flusher() : process_(getpid()) {}
  void StartThread();
  void Run();
  bool FlushAll();

  const pid_t process_;
  std::mutex mutex_;
  std::vector<ChunkWriter*> watched_;  // mutex_
  int idle_periods_ = 0;               // mutex_
  bool has_thread_ = false;            // mutex_
};

Flusher& Flusher::OfThisProcess() {
  static std::atomic<Flusher*> current = nullptr;
  Flusher* flusher = current.load();
  // A parent's flusher may be locked by a thread that does not exist here.
  while (flusher == nullptr || flusher->process_ != getpid()) {
    auto* const fresh = new Flusher();
    if (current.compare_exchange_strong(flusher, fresh)) return *fresh;
    delete fresh;
  }
  return *flusher;
}

void Flusher::Watch(ChunkWriter* writer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  watched_.push_back(writer);
  idle_periods_ = 0;
  if (!has_thread_) StartThread();
}

void Flusher::End(ChunkWriter* writer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  watched_.erase(std::remove(watched_.begin(), watched_.end(), writer),
                 watched_.end());
}

void Flusher::StartThread() {
  const auto thread = StartQuietThread([this] { Run(); });
  if (thread == nullptr) return;  // The next writer to be watched tries again.
  thread->detach();
  has_thread_ = true;
}

void Flusher::Run() {
  do {
    std::this_thread::sleep_for(kPeriod);
  } while (FlushAll());
}

// Returns whether it is to be called again.
bool Flusher::FlushAll() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (ChunkWriter* const writer : watched_) writer->FlushOpen();
  if (!watched_.empty() || ++idle_periods_ < kIdlePeriods) return true;
  has_thread_ = false;
  return false;
}

}  // namespace

void WatchForFlushing(ChunkWriter* writer) {
  Flusher::OfThisProcess().Watch(writer);
}

void EndFlushing(ChunkWriter* writer) { Flusher::OfThisProcess().End(writer); }

}  // namespace nodewise
