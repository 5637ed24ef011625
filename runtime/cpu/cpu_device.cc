#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "fmt/format.h"
#include "nodewise/cpu/cpu.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/machine.h"

namespace nodewise {
namespace {

// The size of a huge page on x86-64 and, with pages of 4 KiB, on Arm.
constexpr size_t kHugePage = size_t{2} << 20;

// Aligned allocations of glibc take several times as long as malloc, which
// shows where small tensors come and go by the thousand. So a block of malloc
// is aligned here; its own address stands before what is returned. With
// sanitizers, which watch the end of a block, nothing may lie behind it.
// Returns nullptr if there is no memory.
void* AllocateAligned(size_t bytes, size_t alignment) {
  void* data = nullptr;
  if constexpr (kSanitized) {
    if (posix_memalign(&data, alignment, bytes) != 0) return nullptr;
    return data;
  }
  const size_t room = alignment + sizeof(void*);
  if (bytes > SIZE_MAX - room) return nullptr;
  void* const block = std::malloc(bytes + room);
  if (block == nullptr) return nullptr;
  const uintptr_t least = reinterpret_cast<uintptr_t>(block) + sizeof(void*);
  data = reinterpret_cast<void*>((least + alignment - 1) & ~(alignment - 1));
  static_cast<void**>(data)[-1] = block;
  return data;
}

void FreeAligned(void* data) {
  if (kSanitized || data == nullptr) return std::free(data);
  std::free(static_cast<void**>(data)[-1]);
}

// No call leaves work behind that would have to be waited for.
class CpuDevice final : public Device {
 public:
  // An empty tensor gets a byte, so that its address is its own.
  absl::StatusOr<void*> Allocate(int, size_t bytes, size_t alignment) override {
    const bool huge = bytes >= kHugePage;
    const size_t align = std::max(alignment, huge ? kHugePage : sizeof(void*));
    void* const data = AllocateAligned(std::max<size_t>(bytes, 1), align);
    if (data == nullptr) {
      return Shortage(fmt::format("cpu: cannot allocate {} bytes", bytes));
    }
    // Whole pages only, so that no memory beyond the block is ever touched.
    if (huge) madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
    return data;
  }

  void Free(int, void* data, size_t) override { FreeAligned(data); }

  absl::Status Copy(int, void* to, const void* from, size_t bytes) override {
    // Copying a tensor onto itself is allowed and common.
    if (bytes > 0 && to != from) std::memmove(to, from, bytes);
    return absl::OkStatus();
  }
  absl::Status CopyToHost(int id, void* to, const void* from,
                          size_t bytes) override {
    return Copy(id, to, from, bytes);
  }
  absl::Status CopyFromHost(int id, void* to, const void* from,
                            size_t bytes) override {
    return Copy(id, to, from, bytes);
  }
  absl::Status Synchronize(int) override { return absl::OkStatus(); }
};

}  // namespace

Device* OpenCpuDevice() {
  static CpuDevice* const device = new CpuDevice;
  return device;
}

}  // namespace nodewise
