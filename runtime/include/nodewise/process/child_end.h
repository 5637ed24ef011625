#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

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

}  // namespace nodewise
