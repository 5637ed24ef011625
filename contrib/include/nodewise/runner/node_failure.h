#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace nodewise {

// A node that ended its run, or spoils the memory of what runs beside it.
// Runners whose nodes run in another process ("guarded") survive the former,
// and say so with a status that carries this.
struct NodeFailure {
  enum class Kind : uint8_t {
    kCrash,       // A signal.
    kHang,        // It did not return in time.
    kExit,        // It ended the process.
    kError,       // It returned an error, or threw.
    kStrayWrite,  // It wrote to memory that is not its own.
    kSideEffect,  // It left something changed that all code shares.
  };
  Kind kind = Kind::kCrash;
  std::string node;  // Its key.
  std::string what;  // "crashed with SIGSEGV at address 0x10"
  // For a side effect that shows only in a later node: that node's key.
  std::string victim = {};
};
// Returns "crash", "hang", "exit", "error", "stray write" or "side effect".
std::string_view NameOf(NodeFailure::Kind kind);

// Returns the status that carries the failure: its message begins with `title`
// ("node 3 (conv1)"), and goes on with what the node did. REQUIRES: `code` is
// an error's.
absl::Status StatusOf(const NodeFailure& failure, std::string_view title,
                      absl::StatusCode code);

// Returns the failure that a status carries; none for any other status.
std::optional<NodeFailure> FailureOf(const absl::Status& status);

}  // namespace nodewise
