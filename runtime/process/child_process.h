#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "nodewise/process/piped_child.h"
#include "nodewise/support/file.h"

namespace nodewise {

// Fails with kInvalidArgument for a limit outside of 1 to kMostTimeLimitMs.
absl::Status CheckTimeLimit(int64_t limit_ms);

// Memory that a process shares with the children it forks later.
struct UnmapShared {
  size_t bytes;
  void operator()(uint8_t* data) const;
};
using SharedMemory = std::unique_ptr<uint8_t, UnmapShared>;
// Returns zeroed memory.
absl::StatusOr<SharedMemory> ShareMemory(size_t bytes);

// What a child says of its own end, in shared memory.
struct ChildReport;

// A child that runs. Destroying it kills it, unless it has been waited for.
class RunningChild {
 public:
  RunningChild(RunningChild&& other) noexcept;
  RunningChild& operator=(RunningChild&&) = delete;
  ~RunningChild();

  // Returns a descriptor that can be read from once the child has ended; -1 on
  // systems that have none.
  int descriptor() const { return descriptor_.get(); }
  // Returns whether it has ended and can be collected.
  bool HasEnded() const;
  // Returns how long the thread of the child that had to wait most for a
  // processor has done so; 0 where the system does not say. Limits do not count
  // it: a busy machine is not a reason to call a child hung.
  int64_t CpuWaitMs() const;
  // Waits for its end and returns how it ended; after `limit_ms`, which is at
  // most kMostTimeLimitMs, and what it waited for a processor meanwhile, it and
  // the processes of its group are killed (kTimeout). Called once. Fails with
  // kResourceExhausted if memory ran out in the child, which says nothing of
  // its work, as do the work's own statuses of that code.
  absl::StatusOr<ChildEnd> Wait(int64_t limit_ms);

 private:
  friend class ChildRunner;
  RunningChild(pid_t pid, const ChildReport* report);

  bool WaitForEnd(int64_t limit_ms) const;
  void Kill() const;

  pid_t pid_;  // 0: it has been collected.
  OpenDescriptor descriptor_;
  const ChildReport* report_;  // The runner's.
};

// Runs work in children, one after the other.
class ChildRunner {
 public:
  static absl::StatusOr<ChildRunner> Create();

  // Forks and runs `work` in the child on a new thread. All that the work does
  // to memory is lost afterwards, but for SharedMemory. The child runs no exit
  // handlers and writes none of this process's buffered output. Fails with
  // kResourceExhausted if no child can be created. The runner must outlive it.
  absl::StatusOr<RunningChild> Start(absl::FunctionRef<absl::Status()> work);
  // Starts a child and waits for its end.
  absl::StatusOr<ChildEnd> Run(absl::FunctionRef<absl::Status()> work,
                               int64_t limit_ms);

 private:
  ChildRunner(SharedMemory shared, std::shared_ptr<void> keep_statuses)
      : shared_(std::move(shared)), keep_statuses_(std::move(keep_statuses)) {}

  SharedMemory shared_;  // A ChildReport.
  std::shared_ptr<void> keep_statuses_;
};

}  // namespace nodewise
