#include "nodewise/device/workspace_pool.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

#include "fmt/format.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

constexpr size_t kPageBytes = 4096;
// Not a whole page: buffers that all start at the same offset in their page
// compete for the same cache sets.
constexpr size_t kAlignment = 128;
constexpr size_t kMaxBytes =
    std::numeric_limits<ptrdiff_t>::max() - kPageBytes + 1;

std::atomic<uint64_t> total_bytes{0};

// Sizes in whole pages let a block serve again for a size that is only nearly
// the same.
size_t RoundUp(size_t bytes) {
  if (bytes == 0) return kPageBytes;
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

}  // namespace

// Each thread has a pool of its own, which needs no lock: kernels ask at the
// start of each call.
WorkspacePool& WorkspacePool::ThisThread() {
  thread_local WorkspacePool pool;
  return pool;
}

uint64_t WorkspacePool::TotalBytes() {
  return total_bytes.load(std::memory_order_relaxed);
}

WorkspacePool::~WorkspacePool() {
  for (Block& block : blocks_) block.Reset();
}

// Used blocks stand in front of the border and free ones behind it.
void* WorkspacePool::AllocWorkspace(size_t bytes) {
  if (bytes > kMaxBytes) return nullptr;
  const size_t rounded = RoundUp(bytes);
  Block* block = FindFree(rounded);
  if (block == nullptr) block = GrowOne(rounded);
  if (block == nullptr) return nullptr;
  // The block becomes the latest in use. The free ones that it passes stay in
  // the order in which they were freed, which FindFree() goes by.
  Block* const border = blocks_.data() + num_used_;
  std::rotate(border, block, block + 1);
  ++num_used_;
  ++allocations_;
  return border->data;
}

// Kernels free their latest block first, so the search begins there.
absl::Status WorkspacePool::FreeWorkspace(void* data) {
  Block* const border = blocks_.data() + num_used_;
  Block* block = border;
  do {
    if (block == blocks_.data()) {
      return InvalidArgument(
          "workspace pool: found {}, which was not allocated by this thread or "
          "is free already, expected a pointer from AllocWorkspace",
          data == nullptr ? "(nil)" : fmt::format("{}", data));
    }
    --block;
  } while (block->data != data);
  std::rotate(block, block + 1, border);
  --num_used_;
  return absl::OkStatus();
}

// Returns the smallest free block that is large enough, or null. Among equal
// ones it is the one freed last, which is the most likely to be in the cache.
WorkspacePool::Block* WorkspacePool::FindFree(size_t bytes) {
  Block* best = nullptr;
  Block* const end = blocks_.data() + blocks_.size();
  for (Block* block = blocks_.data() + num_used_; block != end; ++block) {
    if (block->bytes == bytes) return block;
    if (block->bytes < bytes) continue;
    if (best == nullptr || block->bytes < best->bytes) best = block;
  }
  return best;
}

// Returns a new free block of `bytes`, or null if there is no memory. It
// replaces the largest free block, all of which are too small: otherwise sizes
// that grow from call to call would pile up.
WorkspacePool::Block* WorkspacePool::GrowOne(size_t bytes) {
  if (num_used_ == blocks_.size()) {
    try {
      blocks_.emplace_back();
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
  const auto first_free = blocks_.begin() + static_cast<ptrdiff_t>(num_used_);
  const auto block = std::max_element(
      first_free, blocks_.end(),
      [](const Block& a, const Block& b) { return a.bytes < b.bytes; });
  block->Reset();
  if (block->Fill(bytes)) return &*block;
  std::for_each(first_free, blocks_.end(), [](Block& b) { b.Reset(); });
  return block->Fill(bytes) ? &*block : nullptr;
}

bool WorkspacePool::Block::Fill(size_t new_bytes) {
  data = std::aligned_alloc(kAlignment, new_bytes);
  if (data == nullptr) return false;
  bytes = new_bytes;
  total_bytes.fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

void WorkspacePool::Block::Reset() {
  std::free(data);
  total_bytes.fetch_sub(bytes, std::memory_order_relaxed);
  *this = {};
}

}  // namespace nodewise
