#pragma once

#include "absl/functional/function_ref.h"

namespace nodewise::onednn {

// Says that OpenMP is about to begin threads in this process. They are lost in
// its children, where OneDnnThreads::Count() is 1 from then on.
void NoteOmpThreads();

// Whether the calling thread lately had to wait for a CPU for a fifth of its
// time, as on a busy machine. Looks no more than twenty times a second, so it
// may be asked often.
bool IsStarvedOfCpu();

// Has the threads of OpenMP in this process poll for a microsecond only before
// they sleep, or again as long as libgomp has them, where
// nodewise/support/omp_waiting.h has come too late. For small operations on a
// quiet machine a microsecond is too short, so it is for busy ones. What
// OMP_WAIT_POLICY or GOMP_SPINCOUNT say wins. May be called from any thread,
// however often.
//
// libgomp's threads poll three thousand times shorter while it has more of them
// than there are CPUs; so it is given as many that do nothing.
void ReduceOmpPolling(bool is_calm);

// While this lives, OpenMP regions that the calling thread begins have so many
// threads.
class OmpThreads {
 public:
  explicit OmpThreads(int count);
  OmpThreads(const OmpThreads&) = delete;
  OmpThreads& operator=(const OmpThreads&) = delete;
  ~OmpThreads();

 private:
  int before_;
};

// Runs f(index, count) on each of the threads that oneDNN runs on. Those of
// nodewise's own pool would compete with them, which poll for
// a while after each region.
void OnOmpTeam(int threads, absl::FunctionRef<void(int, int)> f);

}  // namespace nodewise::onednn
