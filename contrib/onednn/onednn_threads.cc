// How many threads the kernels are made for, with oneDNN or without it.

#include "nodewise/onednn/onednn.h"
#include "nodewise/support/check.h"
#include "nodewise/support/thread_pool.h"

namespace nodewise {
namespace {

// 0: as many as nodewise uses.
thread_local int threads_of_this_thread = 0;

}  // namespace

OneDnnThreads::OneDnnThreads(int count) : before_(threads_of_this_thread) {
  NODEWISE_CHECK(count >= 1);
  threads_of_this_thread = count;
}
OneDnnThreads::~OneDnnThreads() { threads_of_this_thread = before_; }

int OneDnnThreads::Count() {
  return threads_of_this_thread > 0 ? threads_of_this_thread : NumThreads();
}

}  // namespace nodewise
