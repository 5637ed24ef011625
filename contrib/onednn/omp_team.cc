#include "contrib/onednn/omp_team.h"

#include "nodewise/support/float_environment.h"

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
}

namespace nodewise::onednn {

namespace {

// What the threads of this thread's team have of the floating-point
// environment: that of the time when they were made, unless they are told.
thread_local FloatEnvironment team_floats = DefaultFloats();

void HandFloatsToTeam(int count) {
  const FloatEnvironment now = ReadFloatEnvironment();
  if (now == team_floats) return;
  team_floats = now;
  OnOmpTeam(count, [&](int, int) { WriteFloatEnvironment(now); });
}

}  // namespace

OmpThreads::OmpThreads(int count) : before_(omp_get_max_threads()) {
  if (count > 1) NoteOmpThreads();
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
