#include "contrib/locate/peak_memory.h"

#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

namespace nodewise {
namespace {

// A line of /proc/self/status; 0 if there is none.
uint64_t BytesOfStatus(std::string_view field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    uint64_t kib = 0;
    if (word == field && status >> kib) return kib * 1024;
  }
  return 0;
}

}  // namespace

PeakMemory::PeakMemory() {
  // 5 sets VmHWM back to what is resident now (proc(5)).
  std::ofstream("/proc/self/clear_refs") << "5";
  start_ = BytesOfStatus("VmRSS:");
}

uint64_t PeakMemory::bytes() const {
  const uint64_t peak = BytesOfStatus("VmHWM:");
  return peak - std::min(peak, start_);
}

void ReturnFreedMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace nodewise
