// How many threads the kernels are made for, with oneDNN or without it.

#include <unistd.h>

#include <atomic>

#include "contrib/onednn/omp_team.h"
#include "nodewise/onednn/onednn.h"
#include "nodewise/support/check.h"
#include "nodewise/support/thread_pool.h"

namespace nodewise {
namespace {

// 0: as many as nodewise uses.
thread_local int threads_of_this_thread = 0;

// The process in which OpenMP has begun threads; 0: none has been seen to.
std::atomic<pid_t> process_with_threads = 0;

}  // namespace

namespace onednn {

void NoteOmpThreads() {
  if (process_with_threads == 0) process_with_threads = getpid();
}

}  // namespace onednn

OneDnnThreads::OneDnnThreads(int count) : before_(threads_of_this_thread) {
  NODEWISE_CHECK(count >= 1);
  threads_of_this_thread = count;
}
OneDnnThreads::~OneDnnThreads() { threads_of_this_thread = before_; }

int OneDnnThreads::Count() {
  const pid_t process = process_with_threads;
  if (process != 0 && process != getpid()) return 1;
  return threads_of_this_thread > 0 ? threads_of_this_thread : NumThreads();
}

}  // namespace nodewise
