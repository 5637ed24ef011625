#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "contrib/tensors/zip_format.h"
#include "nodewise/support/file.h"

namespace nodewise {

// Writes a zip archive of stored members, one after the other; only their
// directory entries stay in memory. Equal members always make equal bytes: each
// has the time stamp 1980-01-01.
class ZipWriter {
 public:
  static constexpr size_t kMaxNameBytes = 0xFFFF;

  // The file is borrowed. Sizes and offsets from `zip64_from` on are written in
  // zip64 form, which is required from the default on; tests use smaller
  // limits.
  explicit ZipWriter(OutputFile* file, uint64_t zip64_from = kZipInExtra)
      : file_(file), zip64_from_(zip64_from) {}

  // Adds a member that consists of the two parts. REQUIRES: the name has at
  // most kMaxNameBytes.
  absl::Status Add(std::string_view name, std::string_view head,
                   absl::Span<const uint8_t> rest);
  // Writes the directory. REQUIRES: nothing is added afterwards.
  absl::Status Finish();

 private:
  struct Entry {
    std::string name;
    uint32_t crc = 0;
    uint64_t size = 0;
    uint64_t offset = 0;
  };

  std::string LocalHeader(const Entry& entry) const;
  std::string DirectoryEntry(const Entry& entry) const;
  std::string EndRecords(uint64_t directory_bytes) const;
  bool IsLarge(uint64_t value) const { return value >= zip64_from_; }
  absl::Status Write(std::string_view bytes);

  OutputFile* file_;
  uint64_t zip64_from_;
  uint64_t offset_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace nodewise
