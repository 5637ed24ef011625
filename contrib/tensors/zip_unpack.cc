#include <zlib.h>

#include <algorithm>
#include <new>

#include "contrib/tensors/zip_format.h"
#include "contrib/tensors/zip_reader.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// zlib counts in 32 bits, so data goes in and comes out in pieces.
constexpr size_t kMaxPiece = size_t{1} << 30;
constexpr size_t kFirstBuffer = size_t{1} << 20;

// Owns the state of zlib's inflate.
class Inflater {
 public:
  Inflater() { ready_ = inflateInit2(&stream_, -MAX_WBITS) == Z_OK; }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() {
    if (ready_) inflateEnd(&stream_);
  }

  bool ready() const { return ready_; }
  z_stream* operator->() { return &stream_; }

  // Unpacks from the front of `*packed` to the front of `*room` and cuts off
  // what it used from both.
  int Step(absl::Span<const uint8_t>* packed, absl::Span<char>* room) {
    const size_t in = std::min(packed->size(), kMaxPiece);
    const size_t out = std::min(room->size(), kMaxPiece);
    stream_.next_in = const_cast<uint8_t*>(packed->data());
    stream_.avail_in = static_cast<uInt>(in);
    stream_.next_out = reinterpret_cast<uint8_t*>(room->data());
    stream_.avail_out = static_cast<uInt>(out);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    packed->remove_prefix(in - stream_.avail_in);
    room->remove_prefix(out - stream_.avail_out);
    return result;
  }

 private:
  z_stream stream_{};
  bool ready_ = false;
};

absl::Status Resize(size_t size, std::string* buffer) {
  try {
    buffer->resize(size);
  } catch (const std::exception&) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot allocate {} bytes to unpack to", size));
  }
  return absl::OkStatus();
}

// Unpacks to `buffer`, which grows only as the data really comes. One spare
// byte at the end reveals data beyond `size`.
absl::Status Inflate(absl::Span<const uint8_t> packed, uint64_t size,
                     std::string* buffer) {
  Inflater inflater;
  if (!inflater.ready()) {
    return absl::ResourceExhaustedError("cannot allocate zlib's state");
  }
  size_t used = 0;
  int result = Z_OK;
  buffer->clear();
  while (result == Z_OK && used <= size) {
    if (used == buffer->size()) {
      const size_t larger = std::max(kFirstBuffer, 2 * used);
      NODEWISE_RETURN_IF_ERROR(
          Resize(std::min<uint64_t>(larger, size + 1), buffer));
    }
    absl::Span<char> room(buffer->data() + used, buffer->size() - used);
    result = inflater.Step(&packed, &room);
    used = buffer->size() - room.size();
  }
  if (result == Z_MEM_ERROR) {
    return absl::ResourceExhaustedError("cannot allocate zlib's window");
  }
  if (result == Z_STREAM_END && used == size && packed.empty()) {
    buffer->resize(size);
    return absl::OkStatus();
  }
  return absl::DataLossError(
      fmt::format("packed data is damaged: {} after {} bytes, expected {}",
                  used > size              ? "goes on"
                  : result == Z_STREAM_END ? "ends"
                  : result == Z_BUF_ERROR  ? "is cut short"
                                           : "breaks",
                  std::min<uint64_t>(used, size), size));
}

}  // namespace

absl::StatusOr<absl::Span<const uint8_t>> UnpackZipMember(
    const ZipMember& member, std::string* buffer) {
  absl::Span<const uint8_t> bytes = member.packed;
  if (member.method == kZipDeflated) {
    NODEWISE_RETURN_IF_ERROR(Inflate(member.packed, member.size, buffer));
    bytes = {reinterpret_cast<const uint8_t*>(buffer->data()), buffer->size()};
  }
  const uint32_t crc =
      static_cast<uint32_t>(crc32_z(0, bytes.data(), bytes.size()));
  if (crc == member.crc) return bytes;
  return absl::DataLossError(fmt::format(
      "data has the CRC-32 {:08x}, expected {:08x}", crc, member.crc));
}

}  // namespace nodewise
