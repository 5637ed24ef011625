#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "fmt/format.h"
#include "nodewise/cpu/cpu.h"

namespace nodewise {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

class CpuDevice final : public Device {
 public:
  absl::StatusOr<void*> Allocate(int, size_t bytes, size_t alignment) override {
    const bool huge = bytes >= kHugePage;
    const size_t align = std::max(alignment, huge ? kHugePage : sizeof(void*));
    void* data = nullptr;
    if (posix_memalign(&data, align, std::max<size_t>(bytes, 1)) != 0) {
      return absl::ResourceExhaustedError(
          fmt::format("cpu: cannot allocate {} bytes", bytes));
    }
    // Whole pages only, so that no memory beyond the block is ever touched.
    if (huge) madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
    return data;
  }

  void Free(int, void* data, size_t) override { std::free(data); }

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
