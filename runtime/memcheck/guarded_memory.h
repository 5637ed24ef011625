#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/memcheck/fault_handler.h"

namespace nodewise {

// A range of bytes, counted from the first byte of a block: [first, last], or
// nothing.
struct Extent {
  int64_t first = 0;
  int64_t last = -1;

  bool empty() const { return last < first; }
  uint64_t size() const { return static_cast<uint64_t>(last - first + 1); }
  void Add(int64_t from, int64_t to);
};

// Blocks of memory in pages of their own,
//
//   guard page | red zone | the block | red zone to the page's end | guard page
//
// whose pages are switched out of reach and back. While it is told to watch, it
// notes what touches a page that is out of reach, and opens that page, so that
// the touching code runs on. Guard pages are never in reach.
//
// Not thread-safe but for OnFault.
class GuardedMemory : public FaultListener {
 public:
  enum class Access { kNone, kRead, kReadWrite };

  struct Block {
    uint8_t* map = nullptr;  // The first guard page.
    size_t map_bytes = 0;
    uint8_t* data = nullptr;  // The first byte; aligned to kTensorAlignment.
    size_t bytes = 0;
    Access access = Access::kReadWrite;
    bool is_touched = false;  // Pages of it are open that should not be.
  };

  // One page that was touched while it was out of reach.
  struct Touch {
    size_t block = 0;
    uint8_t* page = nullptr;
    FaultAccess access = FaultAccess::kUnknown;
    int64_t offset = 0;  // Of the first touched byte, in the block.
    // What the page held before it could be written; null if it was only read.
    const uint8_t* before = nullptr;
  };

  // `red_zone` is the least size of a red zone. Red zones hold `zone_byte`, and
  // so does what Fill() is told to leave behind an entry; blocks begin with
  // `poison_byte` in them.
  GuardedMemory(size_t red_zone, uint8_t zone_byte, uint8_t poison_byte);
  ~GuardedMemory() override;
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  // A new block, in reach; returns its number. kResourceExhausted.
  // REQUIRES: not after Seal().
  absl::StatusOr<size_t> Add(size_t bytes);
  const Block& block(size_t number) const { return blocks_[number]; }
  size_t size() const { return blocks_.size(); }

  // From now on faults can be handled; there are no more blocks to come.
  void Seal();

  // The red zones, guard pages aside, go with the block.
  void SetAccess(size_t block, Access access);
  // Between two calls touches are noted; without, they open what is touched as
  // the runtime's own doing.
  void Watch(bool on);
  // Of the last watch, in the order of addresses, and whether there were more.
  std::vector<Touch> Touches() const;
  bool had_more_touches() const { return had_more_; }
  // The bytes of a page that are not what they were; counted from the block.
  Extent ChangedBytes(const Touch& touch) const;

  // Poison in [0, bytes), red zone all around. REQUIRES: kReadWrite.
  void Fill(size_t block, size_t bytes);
  // Red zone before the block and from `bytes` on.
  void FillZones(size_t block, size_t bytes);
  // What has been written before the block, and from `bytes` on.
  // REQUIRES: it is in reach.
  Extent ChangedBefore(size_t block) const;
  Extent ChangedBehind(size_t block, size_t bytes) const;

  bool OnFault(uint8_t* address, FaultAccess access) override;

 private:
  static constexpr size_t kMostTouches = 64;

  Block* Find(const uint8_t* address);
  bool Note(Block* block, uint8_t* address, FaultAccess access);
  uint8_t* Open(const Block& block) const { return block.map + page_bytes_; }
  size_t OpenBytes(const Block& block) const {
    return block.map_bytes - 2 * page_bytes_;
  }
  Extent ChangedIn(const Block& block, const uint8_t* from,
                   const uint8_t* to) const;

  const size_t page_bytes_;
  const size_t front_bytes_;
  const size_t red_zone_;
  const uint8_t zone_byte_;
  const uint8_t poison_byte_;
  std::vector<Block> blocks_;
  std::vector<uint32_t> by_address_;  // After Seal().
  uint8_t* saved_pages_ = nullptr;    // kMostTouches of them.

  // Guards what follows, in signal handlers.
  std::atomic_flag lock_ = ATOMIC_FLAG_INIT;
  std::atomic<bool> is_watching_{false};
  Touch touches_[kMostTouches];
  size_t num_touches_ = 0;
  size_t num_repeats_ = 0;
  bool had_more_ = false;
};

}  // namespace nodewise
