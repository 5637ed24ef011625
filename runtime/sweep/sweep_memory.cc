#include "runtime/sweep/sweep_memory.h"

#include <sys/mman.h>

#include <cstring>

#include "fmt/format.h"
#include "nodewise/device/device.h"

namespace nodewise {
namespace {

constexpr size_t kPage = 4096;
// TVM's kAllocAlignment since 0.8.
constexpr size_t kPromised = 64;
// Room to move a buffer about, and to read past its end.
constexpr size_t kSlack = 5 * kPage;

// Returns the number of the layout's addresses. Layouts 0 and 1 share their
// addresses, layouts 0 and 2 their bytes, which shows which of them matters.
size_t AddressOf(int layout) {
  return layout < 2 ? 0 : static_cast<size_t>(layout) - 1;
}
uint8_t FillOf(int layout) {
  // NaN and -1, then plain numbers.
  static constexpr uint8_t kFills[] = {0xff, 0x41, 0x3c, 0x80};
  if (layout == 0 || layout == 2) return 0;
  return kFills[(layout / 2) % 4];
}

// Returns another place in another page, which differs between slots, since the
// fault may depend on the distance between two.
size_t OffsetOf(uint32_t slot, int layout) {
  const size_t address = AddressOf(layout);
  // Other addresses are aligned as TVM promises, and no better.
  const size_t in_page =
      address * (5 + 2 * (slot % 8)) % (kPage / kPromised) * kPromised;
  return in_page + (address + address * slot) % 4 * kPage;
}

}  // namespace

SweepMemory::~SweepMemory() {
  for (const Region& region : regions_) {
    if (region.data != nullptr) munmap(region.data, region.bytes);
  }
}

absl::StatusOr<NDArray> SweepMemory::Allocate(uint32_t slot, size_t bytes,
                                              DLDevice device) {
  if (DeviceTypeOf(device) != kDLCPU) {
    return NDArray::Empty({static_cast<int64_t>(bytes)}, {kDLUInt, 8, 1},
                          device);
  }
  if (slot >= regions_.size()) regions_.resize(slot + 1);
  Region& region = regions_[slot];
  if (region.data == nullptr || region.bytes - kSlack < bytes) {
    void* const data =
        bytes > SIZE_MAX - kSlack
            ? MAP_FAILED
            : mmap(nullptr, bytes + kSlack, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
      return absl::ResourceExhaustedError(
          fmt::format("sweep: no memory for {} bytes", bytes));
    }
    if (region.data != nullptr) munmap(region.data, region.bytes);
    region = {static_cast<uint8_t*>(data), bytes + kSlack};
  }
  std::memset(region.data, FillOf(layout_), region.bytes);
  return NDArray::BorrowBytes(region.data + OffsetOf(slot, layout_), bytes,
                              device, shared_from_this());
}

}  // namespace nodewise
