#include "nodewise/support/memory_use.h"

#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace nodewise {
namespace {

// The numbers of some lines of a file such as /proc/self/status, added up.
uint64_t BytesIn(const char* path, std::initializer_list<const char*> fields) {
  std::ifstream status(path);
  uint64_t kib = 0;
  for (std::string word; status >> word;) {
    const bool is_wanted =
        std::find(fields.begin(), fields.end(), word) != fields.end();
    uint64_t number = 0;
    if (is_wanted && status >> number) kib += number;
    status.clear();
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return kib * 1024;
}

uint64_t BytesOfStatus(const char* field) {
  return BytesIn("/proc/self/status", {field});
}

// 5 sets VmHWM back to what is resident now (proc(5)).
void SetMarkBack() { std::ofstream("/proc/self/clear_refs") << "5"; }

thread_local int little_memories = 0;

// The numbers are read one after the other, while other threads go on: a
// difference may come out below 0.
uint64_t Less(uint64_t a, uint64_t b) { return a - std::min(a, b); }

}  // namespace

// The mark would otherwise be that of the whole process since it began.
PeakMemory::PeakMemory() {
  SetMarkBack();
  start_ = BytesOfStatus("VmRSS:");
}

// What another process took at the same time was resident together with this.
void PeakMemory::Note(uint64_t beside) {
  noted_ = std::max(noted_, Less(BytesOfStatus("VmHWM:"), start_) + beside);
  SetMarkBack();
}

uint64_t PeakMemory::bytes() const {
  return std::max(noted_, Less(BytesOfStatus("VmHWM:"), start_));
}

// Pages that are shared with the parent are not the child's own, until it
// writes to them.
uint64_t MostPrivateBytes() {
  const uint64_t now =
      BytesIn("/proc/self/smaps_rollup", {"Private_Clean:", "Private_Dirty:"});
  return now + Less(BytesOfStatus("VmHWM:"), BytesOfStatus("VmRSS:"));
}

uint64_t AvailableMemory() {
  const uint64_t available = BytesIn("/proc/meminfo", {"MemAvailable:"});
  // A container may have a limit of its own; there is no number if it has none.
  uint64_t limit = 0, used = 0;
  std::ifstream("/sys/fs/cgroup/memory.max") >> limit;
  std::ifstream("/sys/fs/cgroup/memory.current") >> used;
  return limit == 0 ? available : std::min(available, Less(limit, used));
}

LowMemoryScope::LowMemoryScope() { ++little_memories; }
LowMemoryScope::~LowMemoryScope() { --little_memories; }
bool LowMemoryScope::IsWanted() { return little_memories > 0; }

void ReturnFreedMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

void ReturnLargeBlocksAtOnce() {
#ifdef __GLIBC__
  // This is the value at the start. Unless it is set, it grows with the blocks
  // that are freed, and large blocks are then put together from pages that were
  // written.
  constexpr int kLargeBytes = 128 << 10;
  mallopt(M_MMAP_THRESHOLD, kLargeBytes);
#endif
}

}  // namespace nodewise
