#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nodewise {

// How a child process ended.
struct ChildEnd {
  enum class Kind {
    kReturned,
    kSignal,
    kTimeout,
    kExit,      // The work ended the process.
    kVanished,  // Other code in this process collected it.
  };
  Kind kind = Kind::kVanished;
  absl::Status status;  // kReturned: the work's status.
  int signal = 0;
  bool has_address = false;
  uint64_t address = 0;  // The address whose access failed.
  bool is_own = false;   // The child has sent the signal to itself.
  int exit_status = 0;
  // The first node that has left a thread behind, if any has, or the one whose
  // thread ended the process.
  std::optional<uint32_t> left_by = std::nullopt;
  bool is_left_thread = false;   // It was such a thread.
  bool is_known_thread = false;  // It is known which thread it was.

  // Returns what the child did, in words: "crashed with SIGSEGV at address
  // 0x10", or the status's message. `limit_ms` is the limit that kTimeout is
  // about.
  std::string ToString(int64_t limit_ms) const;
};

// Work in a forked child that sends bytes to this process while it runs: what
// it has sent is here, however it ends.

// The child's end of the pipe.
class PipeWriter {
 public:
  explicit PipeWriter(int descriptor);

  // Waits until the other process has room for all of it. Fails with
  // kUnavailable if that reads no more.
  absl::Status Write(const void* data, size_t bytes);

 private:
  // Whether the descriptor is still what it was.
  bool IsStillOpen() const;

  const int descriptor_;
  // Work that forks has a copy of this in each process; one of them writes.
  const int process_;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
};

// This process's end of the pipe.
class PipeReader {
 public:
  virtual ~PipeReader() = default;
  // Waits for exactly so many bytes. Fails with kDataLoss if the child ends
  // before, and with kDeadlineExceeded if it sends nothing for too long.
  virtual absl::Status Read(void* data, size_t bytes) = 0;
};

// Work in a child that goes on while this process does something else. Children
// that work at the same time know nothing of each other.
class PipedRun {
 public:
  // Forks, and runs `work` in the child on a new thread. All that the work does
  // to this process's memory is lost; it runs no exit handlers. It may use
  // threads, our pool and OpenMP, which all start afresh, but nothing that
  // another thread of this process holds meanwhile.
  //
  // Fails with kResourceExhausted if there can be no child or no pipe, and with
  // kInvalidArgument for a limit outside of 1 to kMostTimeLimitMs.
  static absl::StatusOr<std::unique_ptr<PipedRun>> Start(
      absl::FunctionRef<absl::Status(PipeWriter&)> work,
      int64_t silence_limit_ms);
  PipedRun(const PipedRun&) = delete;
  PipedRun& operator=(const PipedRun&) = delete;
  // Kills the child and the processes of its group if they have not ended.
  ~PipedRun();

  // Calls `take` whenever there is something to read, until the child has ended
  // and all is read. Called once; until then, the child waits when the pipe is
  // full.
  //
  // The child and the processes of its group are killed if `take` waits for
  // `silence_limit_ms` without a byte (kTimeout); the time that `take` spends
  // on what it has read does not count.
  //
  // An error of `take` that is not the reader's kills the child, too, and is
  // returned.
  absl::StatusOr<ChildEnd> Finish(
      absl::FunctionRef<absl::Status(PipeReader&)> take);

 private:
  struct Child;

  explicit PipedRun(std::unique_ptr<Child> child);

  std::unique_ptr<Child> child_;  // Null: it has been waited for.
};

// Starts the work and finishes it. Fails as both do.
absl::StatusOr<ChildEnd> RunPiped(
    absl::FunctionRef<absl::Status(PipeWriter&)> work,
    absl::FunctionRef<absl::Status(PipeReader&)> take,
    int64_t silence_limit_ms);

}  // namespace nodewise
