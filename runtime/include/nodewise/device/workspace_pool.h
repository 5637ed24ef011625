#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace nodewise {

// Scratch memory in host memory for generated code, which asks for it at the
// start of a kernel and frees it at the end. Freed memory is kept and used
// again; a pool never holds more blocks than were in use at once.
//
// A pool belongs to one thread; only TotalBytes() may be called from another.
class WorkspacePool {
 public:
  // Returns the pool of the calling thread. When the thread ends, all the
  // pool's memory is given back, whether freed or not.
  static WorkspacePool& ThisThread();

  // Returns what the pools of all threads hold now, in use or kept. Any thread
  // may call.
  static uint64_t TotalBytes();

  WorkspacePool() = default;
  WorkspacePool(const WorkspacePool&) = delete;
  WorkspacePool& operator=(const WorkspacePool&) = delete;
  ~WorkspacePool();

  // Returns at least `bytes` bytes (a multiple of 4096, and not 0) of
  // uninitialised memory, aligned to 128; null if there is not that much
  // memory. They are the caller's until FreeWorkspace() or the end of the
  // thread.
  void* AllocWorkspace(size_t bytes);

  // Takes back what AllocWorkspace() returned, in any order; it is fastest if
  // the latest comes first. Fails with kInvalidArgument if this pool did not
  // hand out `data` or has it back already.
  absl::Status FreeWorkspace(void* data);

  // Returns how often AllocWorkspace() has returned memory.
  uint64_t allocations() const { return allocations_; }

 private:
  struct Block {
    bool Fill(size_t new_bytes);  // False if there is no memory.
    void Reset();

    void* data = nullptr;
    size_t bytes = 0;
  };

  Block* FindFree(size_t bytes);
  Block* GrowOne(size_t bytes);

  // Blocks in use, the latest last; then free ones, the latest first. While
  // blocks come and go like a stack, only the border between them moves.
  std::vector<Block> blocks_;
  size_t num_used_ = 0;
  uint64_t allocations_ = 0;
};

}  // namespace nodewise
