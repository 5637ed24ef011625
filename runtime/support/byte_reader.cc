#include "nodewise/support/byte_reader.h"

#include "fmt/format.h"
#include "nodewise/support/status.h"

namespace nodewise {

ByteReader::ByteReader(absl::Span<const uint8_t> bytes, std::string where,
                       uint64_t base)
    : bytes_(bytes), where_(std::move(where)), base_(base) {}

// The comparison is with what is left, since an offset and a hostile size may
// add up to more than a number holds.
absl::StatusOr<absl::Span<const uint8_t>> ByteReader::Bytes(const char* what,
                                                            uint64_t size) {
  if (left() < size) return TooShort(what, size);
  const absl::Span<const uint8_t> result = bytes_.subspan(offset_, size);
  offset_ += size;
  return result;
}

absl::StatusOr<std::string_view> ByteReader::String(const char* what) {
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t size, Read<uint64_t>(what));
  NODEWISE_ASSIGN_OR_RETURN(const auto bytes, Bytes(what, size));
  return std::string_view(reinterpret_cast<const char*>(bytes.data()),
                          bytes.size());
}

// The division is on the side of what is known: a hostile count, multiplied,
// could wrap around to a small number.
absl::StatusOr<uint64_t> ByteReader::Count(const char* what,
                                           uint64_t least_bytes,
                                           uint64_t most) {
  const size_t start = offset_;
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t count, Read<uint64_t>(what));
  if (count > left() / least_bytes) {
    return RanOut(start, fmt::format("{} is {}, but only {} bytes are left",
                                     what, count, left()));
  }
  if (count <= most) return count;
  return ErrorAt(start, fmt::format("{}: found {}, expected at most {}", what,
                                    count, most));
}

// The place is that in the whole file, where a user can look.
absl::Status ByteReader::ErrorAt(size_t offset,
                                 std::string_view message) const {
  return DataLoss("{}: byte {}: {}", where_, base_ + offset, message);
}

// Readers of files that may be cut short ask ran_out() afterwards.
absl::Status ByteReader::RanOut(size_t offset, std::string_view message) {
  ran_out_ = true;
  return ErrorAt(offset, message);
}

absl::Status ByteReader::TooShort(const char* what, uint64_t wanted) {
  return RanOut(offset_, fmt::format("{} needs {} bytes, {} are left", what,
                                     wanted, left()));
}

}  // namespace nodewise
