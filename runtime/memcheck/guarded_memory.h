#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/process/thread_census.h"

namespace nodewise {

enum class TrappedAccess { kRead, kWrite, kUnknown };

// A range of bytes, counted from the first byte of a block: [first, last], or
// nothing.
struct Extent {
  int64_t first = 0;
  int64_t last = -1;

  bool empty() const { return last < first; }
  uint64_t size() const { return static_cast<uint64_t>(last - first + 1); }
  void Add(int64_t from, int64_t to) {
    if (to < from) return;
    first = empty() ? from : std::min(first, from);
    last = std::max(last, to);
  }
};

// Blocks of memory in pages of their own,
//
//   guard page | red zone | the block | red zone to the page's end | guard page
//
// whose pages are made inaccessible and accessible again. While it is told to
// watch, it notes what touches an inaccessible page, and opens that page, so
// that the touching code runs on. Guard pages are kept inaccessible.
//
// Only OnTrap is thread-safe.
class GuardedMemory {
 public:
  enum class Access { kNone, kRead, kReadWrite };

  struct Block {
    uint8_t* map = nullptr;  // The first guard page.
    size_t map_bytes = 0;
    uint8_t* data = nullptr;  // The first byte; aligned to kTensorAlignment.
    size_t bytes = 0;
    Access access = Access::kReadWrite;
    bool is_touched = false;  // It has open pages that should be closed.
  };

  // One page that was touched while it was inaccessible.
  struct Touch {
    size_t block = 0;
    uint8_t* page = nullptr;
    TrappedAccess access = TrappedAccess::kUnknown;
    int64_t offset = 0;  // Where in the block the first touched byte is.
    // What the page held before it could be written; null if it was only read.
    const uint8_t* before = nullptr;
  };

  // A block that a thread touched which a node had left behind.
  struct StrayTouch {
    size_t block = 0;
    uint32_t node = 0;
    TrappedAccess access = TrappedAccess::kUnknown;
    int64_t offset = 0;
  };

  // `red_zone` is the minimum size of a red zone. Red zones hold `zone_byte`,
  // and so do the bytes that Fill() leaves after an entry; new blocks are
  // filled with `poison_byte`.
  GuardedMemory(size_t red_zone, uint8_t zone_byte, uint8_t poison_byte);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  // Adds an accessible block and returns its number. Fails with
  // kResourceExhausted.
  // REQUIRES: Seal() has not been called.
  absl::StatusOr<size_t> Add(size_t bytes);
  const Block& block(size_t number) const { return blocks_[number]; }
  size_t size() const { return blocks_.size(); }

  // Ends the adding of blocks; from now on accesses can be trapped.
  void Seal();

  // Whether all pages of a block are there: its address range may have been
  // given back with munmap().
  bool IsMapped(size_t block) const;
  // Puts zeros, which can be read and written, where its pages were.
  void MapAgain(size_t block);
  // Sets the access to a block and its red zones, but not its guard pages.
  void SetAccess(size_t block, Access access);
  // While `on`, touches are noted; else they are the runtime's own, and only
  // open what is touched.
  void Watch(bool on);
  // Returns the touches of the last watch, in the order of addresses;
  // had_more_touches() tells whether there were more.
  std::vector<Touch> Touches() const;
  bool had_more_touches() const { return had_more_; }
  // Whose threads touch blocks.
  ThreadCensus& census() { return census_; }
  // Returns what such threads have touched since the last call, at any time.
  std::vector<StrayTouch> TakeStrayTouches();
  // Returns the range of a page's bytes that have changed; counted from the
  // block's first byte.
  Extent ChangedBytes(const Touch& touch) const;

  // Writes poison to [0, bytes) and red zone all around. REQUIRES: kReadWrite.
  void Fill(size_t block, size_t bytes);
  // Writes red zone before the block and from `bytes` on.
  void FillZones(size_t block, size_t bytes);
  // Return what has been written before the block, and from `bytes` on.
  // REQUIRES: the block is accessible.
  Extent ChangedBefore(size_t block) const;
  Extent ChangedBehind(size_t block, size_t bytes) const;

  // Is told of an access in a signal handler, on the thread that made it, and
  // on several threads at the same time. Returns true if the access may be
  // tried again; false if it does not concern these blocks, and goes to the
  // handler that the signal had before.
  bool OnTrap(uint8_t* address, TrappedAccess access);

 private:
  static constexpr size_t kMostTouches = 64;

  Block* Find(const uint8_t* address);
  bool Note(Block* block, uint8_t* address, TrappedAccess access);
  bool NoteStray(Block* block, uint8_t* address, TrappedAccess access);
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
  uint8_t* saved_pages_ = nullptr;    // Room for kMostTouches pages.

  // Guards the members below, in signal handlers.
  std::atomic_flag lock_ = ATOMIC_FLAG_INIT;
  std::atomic<bool> is_watching_{false};
  Touch touches_[kMostTouches];
  size_t num_touches_ = 0;
  size_t num_repeats_ = 0;
  bool had_more_ = false;
  ThreadCensus census_;
  StrayTouch stray_touches_[kMostTouches];
  std::atomic<size_t> num_stray_touches_{0};
};

// Has a guarded memory told of every access to memory that may not be touched:
// catches SIGSEGV and SIGBUS in all threads for as long as it lives, and then
// restores the handlers that were there.
// REQUIRES: there is no other, and no thread touches such memory as it ends.
class AccessTrap {
 public:
  explicit AccessTrap(GuardedMemory* memory);
  ~AccessTrap();
  AccessTrap(const AccessTrap&) = delete;
  AccessTrap& operator=(const AccessTrap&) = delete;
};

}  // namespace nodewise
