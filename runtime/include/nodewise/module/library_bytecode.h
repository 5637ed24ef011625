#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/support/file.h"

namespace nodewise {

// The bytecode that a library file carries for TVM's Relax VM, unread.
struct LibraryBytecode {
  std::shared_ptr<const MappedFile> file;  // `bytes` borrows it.
  std::string where;                       // The name for messages.
  absl::Span<const uint8_t> bytes;
  uint64_t offset = 0;  // Where bytes[0] is in its symbol.
  bool is_ffi = true;   // Made by TVM 0.21 or later; else by 0.18 to 0.20.
  // The functions that the library's own code has, as the bytecode calls them;
  // sorted.
  std::vector<std::string> kernels;
};

// Finds the bytecode without loading any code; returns nothing if the library
// has none. Fails as MappedFile::Open does, or with kInvalidArgument for a file
// that is not a library, or kDataLoss for a damaged one.
absl::StatusOr<std::optional<LibraryBytecode>> FindBytecode(
    const std::string& path);

}  // namespace nodewise
