#include "tests/bench/memory.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include "nodewise/support/check.h"

namespace nodewise {
namespace {

// A line of /proc/self/status.
size_t StatusBytes(const char* field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    size_t kib = 0;
    if (word == field && status >> kib) return kib * 1024;
  }
  return 0;
}

size_t AnonymousBytes() { return StatusBytes("RssAnon:"); }

size_t AnonymousGrowth(const std::function<void()>& work) {
  std::atomic<bool> done = false;
  std::atomic<size_t> most = 0;
  std::thread sampler([&] {
    while (!done) most = std::max<size_t>(most, AnonymousBytes());
  });
  while (most == 0) std::this_thread::yield();
  const size_t before = AnonymousBytes();
  work();
  most = std::max<size_t>(most, AnonymousBytes());
  done = true;
  sampler.join();
  return most - before;
}

}  // namespace

size_t PeakBytes() { return StatusBytes("VmHWM:"); }

void AlwaysFreshPages() {
  constexpr int kDefault = 128 * 1024;
  mallopt(M_MMAP_THRESHOLD, kDefault);
  mallopt(M_TRIM_THRESHOLD, kDefault);
  malloc_trim(0);
}

size_t GrowthInChild(const std::function<void()>& prepare,
                     const std::function<void()>& work) {
  void* const shared = mmap(nullptr, sizeof(size_t), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  NODEWISE_CHECK(shared != MAP_FAILED);
  auto* const growth = static_cast<size_t*>(shared);
  const pid_t child = fork();
  if (child == 0) {
    AlwaysFreshPages();
    prepare();
    *growth = AnonymousGrowth(work);
    _exit(0);
  }
  int status = 0;
  NODEWISE_CHECK(child > 0 && waitpid(child, &status, 0) == child);
  NODEWISE_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  const size_t result = *growth;
  munmap(shared, sizeof(size_t));
  return result;
}

}  // namespace nodewise
