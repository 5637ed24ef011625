#include "contrib/onednn/omp_team.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <thread>

#include "nodewise/support/float_environment.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/omp_waiting.h"
#include "nodewise/support/thread_pool.h"

// The functions of <omp.h>, and the one that g++ calls for a parallel region,
// declared here: clang has another OpenMP runtime with a header of its own,
// whose numbers oneDNN, which is linked against g++'s, would never see.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int);
void GOMP_parallel(void (*function)(void*), void* data, unsigned threads,
                   unsigned flags);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
int omp_get_num_procs(void);
void omp_init_lock(void** lock);
void omp_set_lock(void** lock);
void omp_unset_lock(void** lock);
void omp_destroy_lock(void** lock);
}

[[gnu::visibility("default")]] int NodewiseOmpThreads() {
  return omp_get_max_threads();
}

namespace nodewise::onednn {

namespace {

// A program's own constructors run after those of its libraries.
[[gnu::constructor]] void AfterLibgomp() { RestoreOmpEnvironment(); }

// What the threads of this thread's team have of the floating-point
// environment: that of the time when they were made, unless they are told.
thread_local FloatEnvironment team_floats = DefaultFloats();

void CopyFloatsToTeam(int count) {
  const FloatEnvironment now = ReadFloatEnvironment();
  if (now == team_floats) return;
  team_floats = now;
  OnOmpTeam(count, [&](int, int) { WriteFloatEnvironment(now); });
}

// How many CPUs libgomp has counted when it was loaded. A thread that has begun
// no region still has that number for its own, unless the environment says
// another; the calling thread may be kept to fewer CPUs by now.
int CpusOfLibgomp() {
  const int cpus = omp_get_num_procs();
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return cpus;
  return std::max(cpus, omp_get_max_threads());
}

// How many nanoseconds this thread could have run, had there been a CPU for it;
// 0 where the system does not tell.
int64_t TimeWithoutCpu() {
  std::ifstream file("/proc/thread-self/schedstat");
  int64_t ran_ns = 0;
  int64_t waited_ns = 0;
  file >> ran_ns >> waited_ns;
  return file ? waited_ns : 0;
}

// A team of as many threads as there are CPUs, which does nothing for as long
// as the object lives.
class IdleTeam {
 public:
  IdleTeam() {
    omp_init_lock(&lock_);
    omp_set_lock(&lock_);
    std::atomic<bool> has_begun = false;
    holder_ = StartQuietThread([&] {
      OnOmpTeam(CpusOfLibgomp(), [](int, int) {});
      has_begun = true;
      has_begun.notify_one();
      // It waits in libgomp's own code, so that a ThreadCensus knows this
      // thread for one of OpenMP's.
      omp_set_lock(&lock_);
    });
    if (holder_ != nullptr) has_begun.wait(false);
  }
  IdleTeam(const IdleTeam&) = delete;
  IdleTeam& operator=(const IdleTeam&) = delete;
  ~IdleTeam() {
    omp_unset_lock(&lock_);
    if (holder_ != nullptr) holder_->join();
    omp_destroy_lock(&lock_);
  }

 private:
  void* lock_ = nullptr;  // An int, which a pointer has room for.
  std::unique_ptr<std::thread> holder_;
};

}  // namespace

void ReduceOmpPolling(bool is_calm) {
  // A program that asked for another way of waiting has had it from the start.
  static const bool is_told = OmpWaitsBriefly() ||
                              std::getenv("OMP_WAIT_POLICY") != nullptr ||
                              std::getenv("GOMP_SPINCOUNT") != nullptr;
  if (is_told) return;
  static std::mutex mutex;
  static IdleTeam* team = nullptr;
  const std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock.owns_lock() || (team != nullptr) == is_calm) return;
  if (is_calm) {
    team = new IdleTeam;
  } else {
    delete team;
    team = nullptr;
  }
}

bool IsStarvedOfCpu() {
  constexpr int64_t kBetweenLooksNs = 50'000'000;
  // A fifth of the time is more than daemons take that wake up.
  constexpr int64_t kMostShare = 5;
  thread_local int64_t looked_ns = 0;
  thread_local int64_t waited_ns = 0;
  thread_local bool is_kept_waiting = false;
  const int64_t now_ns = ClockNanoseconds();
  const int64_t passed_ns = now_ns - looked_ns;
  if (passed_ns < kBetweenLooksNs) return is_kept_waiting;
  const int64_t waits_ns = TimeWithoutCpu();
  is_kept_waiting =
      looked_ns > 0 && (waits_ns - waited_ns) * kMostShare > passed_ns;
  looked_ns = now_ns;
  waited_ns = waits_ns;
  return is_kept_waiting;
}

OmpThreads::OmpThreads(int count) : before_(omp_get_max_threads()) {
  if (count > 1) {
    NoteOmpThreads();
    ReduceOmpPolling(IsStarvedOfCpu());
  }
  if (count != before_) omp_set_num_threads(count);
  if (count > 1) CopyFloatsToTeam(count);
}
OmpThreads::~OmpThreads() {
  if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
}

void OnOmpTeam(int threads, absl::FunctionRef<void(int, int)> f) {
  if (threads == 1) {
    f(0, 1);
    return;
  }
  const auto task = [](void* data) {
    (*static_cast<absl::FunctionRef<void(int, int)>*>(data))(
        omp_get_thread_num(), omp_get_num_threads());
  };
  GOMP_parallel(task, &f, static_cast<unsigned>(threads), 0);
}

}  // namespace nodewise::onednn
