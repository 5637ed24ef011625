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
  std::shared_ptr<const MappedFile> file;  // What `bytes` borrows.
  std::string where;                       // The name for messages.
  absl::Span<const uint8_t> bytes;
  uint64_t offset = 0;  // Of bytes[0], from the beginning of its symbol.
  bool is_ffi = true;   // By TVM 0.21 and later; else by TVM 0.18 to 0.20.
  // The functions that the library's own code has, as the bytecode calls them;
  // sorted.
  std::vector<std::string> kernels;
};

// Nothing if the file is a library without bytecode; no code of it is loaded.
// Fails as MappedFile::Open, or with kInvalidArgument or kDataLoss for what is
// no library or damaged.
absl::StatusOr<std::optional<LibraryBytecode>> FindBytecode(
    const std::string& path);

}  // namespace nodewise
