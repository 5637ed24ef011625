#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace nodewise {

// Reads little-endian fields from untrusted bytes. A read past the end is
// kDataLoss and says where it was and what it wanted:
// `lib.so: byte 24: tensor shape needs 16 bytes, 3 are left`. The data that it
// hands out borrow the bytes.
class ByteReader {
 public:
  // `where` names the file or the part of it; `base` is the offset of bytes[0]
  // in that file, for the messages.
  ByteReader(absl::Span<const uint8_t> bytes, std::string where,
             uint64_t base = 0);

  size_t offset() const { return offset_; }
  size_t left() const { return bytes_.size() - offset_; }
  const std::string& where() const { return where_; }
  // Returns true once a read went past the end, which tells bytes that are cut
  // short from bytes that are wrong.
  bool ran_out() const { return ran_out_; }

  template <typename T>
  absl::StatusOr<T> Read(const char* what) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (left() < sizeof(T)) return TooShort(what, sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }
  absl::StatusOr<absl::Span<const uint8_t>> Bytes(const char* what,
                                                  uint64_t size);
  // Reads a u64 length and as many bytes.
  absl::StatusOr<std::string_view> String(const char* what);
  // Reads a u64 count of things that take at least `least_bytes` each, so that
  // an impossible count is refused before anything is allocated for it; so is
  // one above `most`.
  absl::StatusOr<uint64_t> Count(const char* what, uint64_t least_bytes,
                                 uint64_t most = UINT64_MAX);
  // Reads such a count and calls `read` as often, which returns a StatusOr<T>.
  template <typename T, typename ReadOne>
  absl::StatusOr<std::vector<T>> List(const char* what, uint64_t least_bytes,
                                      const ReadOne& read,
                                      uint64_t most = UINT64_MAX) {
    const absl::StatusOr<uint64_t> count = Count(what, least_bytes, most);
    if (!count.ok()) return count.status();
    std::vector<T> items;
    items.reserve(*count);
    while (items.size() < *count) {
      absl::StatusOr<T> item = read();
      if (!item.ok()) return std::move(item).status();
      items.push_back(*std::move(item));
    }
    return items;
  }

  // Returns kDataLoss, beginning with the place, for what the caller finds
  // wrong with a field that began at `offset`.
  absl::Status ErrorAt(size_t offset, std::string_view message) const;
  // Returns the ErrorAt() of a field that asks for more bytes than are left,
  // and sets ran_out().
  absl::Status RanOut(size_t offset, std::string_view message);

 private:
  absl::Status TooShort(const char* what, uint64_t wanted);

  absl::Span<const uint8_t> bytes_;
  std::string where_;
  uint64_t base_;
  size_t offset_ = 0;
  bool ran_out_ = false;
};

}  // namespace nodewise
