#include "contrib/onednn/omp_team.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>

#include "nodewise/support/float_environment.h"
#include "nodewise/support/omp_waiting.h"
#include "nodewise/support/quiet_thread.h"

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

void HandFloatsToTeam(int count) {
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

// Begins a team of as many threads as there are CPUs, and keeps it for ever.
void HoldIdleTeam(std::atomic<bool>* begun) {
  const int cpus = CpusOfLibgomp();
  OnOmpTeam(cpus, [](int, int) {});
  begun->store(true);
  begun->notify_one();
  if (cpus == 1) return;  // Any two threads are more than there are CPUs.
  // It waits in libgomp's own code, so that a ThreadCensus knows this thread
  // for one of OpenMP's. A lock is an int, which a pointer has room for.
  void* lock = nullptr;
  omp_init_lock(&lock);
  omp_set_lock(&lock);
  omp_set_lock(&lock);
}

void BeginIdleTeam() {
  // What has asked for another way of waiting has had it from the start.
  if (OmpWaitsBriefly() || std::getenv("OMP_WAIT_POLICY") != nullptr ||
      std::getenv("GOMP_SPINCOUNT") != nullptr) {
    return;
  }
  static std::atomic<bool> begun = false;
  const std::unique_ptr<std::thread> holder =
      StartQuietThread([] { HoldIdleTeam(&begun); });
  if (holder == nullptr) return;
  holder->detach();
  begun.wait(false);
}

}  // namespace

void CalmOmpThreads() {
  static const bool done = [] {
    BeginIdleTeam();
    return true;
  }();
  static_cast<void>(done);
}

OmpThreads::OmpThreads(int count) : before_(omp_get_max_threads()) {
  if (count > 1) {
    NoteOmpThreads();
    CalmOmpThreads();
  }
  if (count != before_) omp_set_num_threads(count);
  if (count > 1) HandFloatsToTeam(count);
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
