#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace nodewise {

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

}  // namespace nodewise
