#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/support/file.h"

namespace nodewise {

// How the records of a zip archive begin, from PKWARE's APPNOTE.TXT 6.3.10
// (docs/formats/npz.md). All fields are little-endian.
inline constexpr uint32_t kZipLocalMagic = 0x04034b50;
inline constexpr uint32_t kZipEntryMagic = 0x02014b50;
inline constexpr uint32_t kZipEndMagic = 0x06054b50;
// A 32-bit field with this value stands for one in the zip64 extra field.
inline constexpr uint32_t kZipInExtra = 0xFFFFFFFF;

// One file in a zip archive.
struct ZipMember {
  std::string name;
  uint16_t method = 0;
  uint32_t crc = 0;
  uint64_t size = 0;                 // Unpacked.
  uint64_t offset = 0;               // Where `packed` begins.
  absl::Span<const uint8_t> packed;  // Borrows the archive.
};

// True if the bytes begin as a zip archive does.
bool LooksLikeZip(absl::Span<const uint8_t> bytes);

// Returns the members in the order of the central directory. All offsets and
// sizes have been checked: members lie in the archive and do not overlap, and
// none claims more bytes than deflate could have packed into what is there.
// `where` names the archive in messages. Fails with kDataLoss, giving the byte,
// for a damaged archive, and with kUnimplemented for members that are encrypted
// or packed by other methods.
absl::StatusOr<std::vector<ZipMember>> ReadZipDirectory(
    absl::Span<const uint8_t> bytes, const std::string& where);

// Returns the bytes of a member, checked against their CRC-32: those in the
// archive if it is stored, otherwise unpacked into `buffer`. Fails with
// kDataLoss without a place.
absl::StatusOr<absl::Span<const uint8_t>> UnpackZipMember(
    const ZipMember& member, std::string* buffer);

// Returns a member's name for messages: in quotes, with any bytes that it may
// have.
std::string QuotedZipName(const std::string& name);

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
