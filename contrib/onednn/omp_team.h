#pragma once

#include "absl/functional/function_ref.h"

namespace nodewise::onednn {

// Says that OpenMP is about to begin threads in this process. They are lost in
// its children, where OneDnnThreads::Count() is 1 from then on.
void NoteOmpThreads();

// Has the threads of OpenMP in this process poll for some microseconds only
// before they sleep, where nodewise/support/omp_waiting.h has come too late.
// What OMP_WAIT_POLICY or GOMP_SPINCOUNT say wins. May be called from any
// thread, however often.
//
// libgomp's threads poll three thousand times shorter while it has more of them
// than there are CPUs; so it is given as many that never do anything.
void CalmOmpThreads();

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
