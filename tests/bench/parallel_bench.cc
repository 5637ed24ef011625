#include <condition_variable>
#include <mutex>
#include <thread>

#include "nodewise/func/c_api.h"
#include "nodewise/support/check.h"
#include "nodewise/support/thread_pool.h"
#include "tests/bench/bench_list.h"
#include "tests/bench/ratio.h"

namespace nodewise {
namespace {

constexpr double kLimit = 3;
constexpr int kRounds = 101;
constexpr int kRepeats = 500;

// The minimum time for handing something to another thread and waiting for it,
// where both sleep in between.
class RoundTrip {
 public:
  RoundTrip() : thread_([this] { Loop(); }) {}
  ~RoundTrip() {
    Set(kEnd);
    thread_.join();
  }
  void Go() {
    Set(kAsked);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return state_ == kIdle; });
  }

 private:
  enum State { kIdle, kAsked, kEnd };

  void Set(State state) {
    const std::lock_guard lock(mutex_);
    state_ = state;
    changed_.notify_one();
  }
  void Loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return state_ != kIdle; });
      if (state_ == kEnd) return;
      state_ = kIdle;
      changed_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = kIdle;
  std::thread thread_;
};

template <typename Launch>
bool RunAgainstRoundTrip(const std::string& name, Launch launch) {
  RoundTrip trip;
  return RunContest(
      {name, kLimit, kRounds,
       [&] { return NanosecondsOfEach(kRepeats, launch); },
       [&] { return NanosecondsOfEach(kRepeats, [&] { trip.Go(); }); }});
}

}  // namespace

bool BenchParallelRun(const std::string& name) {
  return RunAgainstRoundTrip(name, [] {
    NODEWISE_CHECK(
        ParallelRun(2, [](int, TaskGroup&) { return absl::OkStatus(); }).ok());
  });
}

bool BenchParallelLaunch(const std::string& name) {
  const FTVMParallelLambda empty = [](int, TVMParallelGroupEnv*, void*) {
    return 0;
  };
  return RunAgainstRoundTrip(name, [empty] {
    NODEWISE_CHECK(TVMBackendParallelLaunch(empty, nullptr, 2) == 0);
  });
}

}  // namespace nodewise
