#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace nodewise {

// Zeroed memory that a process shares with the children it forks later.
class SharedMemory {
 public:
  static absl::StatusOr<SharedMemory> Create(size_t bytes);
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  uint8_t* data() const { return data_; }

 private:
  SharedMemory(uint8_t* data, size_t bytes) : data_(data), bytes_(bytes) {}

  uint8_t* data_;
  size_t bytes_;
};

// How a child ended.
struct ChildEnd {
  enum class Kind {
    kReturned,
    kSignal,
    kTimeout,
    kExit,      // The work ended the process.
    kVanished,  // Somebody else in this process collected it.
  };
  Kind kind = Kind::kVanished;
  absl::Status status;  // kReturned: the work's status.
  int signal = 0;
  bool has_address = false;
  uint64_t address = 0;  // The address whose access failed.
  int exit_status = 0;
};

// While one exists in this process, SIGCHLD is not ignored: otherwise the
// kernel would discard how a child ended.
class KeepChildStatuses {
 public:
  KeepChildStatuses();
  KeepChildStatuses(const KeepChildStatuses&) = delete;
  KeepChildStatuses& operator=(const KeepChildStatuses&) = delete;
  ~KeepChildStatuses();
};

// Runs work in children.
class ChildRunner {
 public:
  static absl::StatusOr<ChildRunner> Create();

  // Forks, runs `work` in the child on a new thread, and waits. Whatever the
  // work does to memory is lost afterwards, but for SharedMemory. The child and
  // the processes of its group are killed after `limit_ms`, which is at most
  // kMostTimeLimitMs.
  // The child runs no exit handlers and writes none of this process's buffered
  // output. Fails with kResourceExhausted if no child can be created.
  absl::StatusOr<ChildEnd> Run(absl::FunctionRef<absl::Status()> work,
                               int64_t limit_ms);

 private:
  explicit ChildRunner(SharedMemory shared) : shared_(std::move(shared)) {}

  SharedMemory shared_;  // A ChildReport.
  std::unique_ptr<KeepChildStatuses> keep_statuses_ =
      std::make_unique<KeepChildStatuses>();
};

}  // namespace nodewise
