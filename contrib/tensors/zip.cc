#include "contrib/tensors/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "absl/strings/escaping.h"
#include "fmt/format.h"
#include "nodewise/support/byte_reader.h"
#include "nodewise/support/check.h"
#include "nodewise/support/status.h"
#include "nodewise/tensors/archive.h"

namespace nodewise {

namespace {

// Archives of more than 4 GiB, or of more than 65534 members, have these
// beside the records of zip.h.
constexpr uint32_t kZip64EndMagic = 0x06064b50;
constexpr uint32_t kZip64LocatorMagic = 0x07064b50;

// Sizes of the records' fixed parts.
constexpr size_t kZipLocalBytes = 30;
constexpr size_t kZipEntryBytes = 46;
constexpr size_t kZipEndBytes = 22;
constexpr size_t kZip64EndBytes = 56;
constexpr size_t kZip64LocatorBytes = 20;

constexpr uint16_t kZipStored = 0;
constexpr uint16_t kZipDeflated = 8;
constexpr uint16_t kZip64Extra = 0x0001;

// Deflate packs at most 258 bytes into 2 bits, and needs a few to begin.
constexpr uint64_t kMaxDeflateRatio = 1032;

// These flags of a member say that its bytes cannot be taken as they are.
constexpr uint16_t kFlagEncrypted = 1 << 0;
constexpr uint16_t kFlagPatched = 1 << 5;
constexpr uint16_t kFlagStrongEncryption = 1 << 6;
constexpr uint16_t kFlagMaskedHeaders = 1 << 13;

struct MethodName {
  uint16_t method;
  std::string_view name;
};

// The names are for messages: a refusal says by which method a member is
// packed.
constexpr MethodName kMethods[] = {
    {1, "shrink"}, {6, "implode"}, {9, "deflate64"},
    {12, "bzip2"}, {14, "lzma"},   {93, "zstd"},
    {95, "xz"},    {98, "ppmd"},   {99, "encrypted"},
};

struct Directory {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t count = 0;
};

// The archive that all functions below read. All offsets in an archive come
// from the file, so that everything here looks at places by their offset, and
// nothing is taken for a pointer.
class Archive {
 public:
  Archive(absl::Span<const uint8_t> bytes, std::string_view where)
      : bytes_(bytes), where_(where) {}

  absl::Span<const uint8_t> bytes() const { return bytes_; }
  // REQUIRES: the field lies in the archive.
  template <typename T>
  T Get(uint64_t offset) const {
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  bool HasRecord(uint64_t offset, uint32_t magic, size_t size) const {
    return offset <= bytes_.size() && size <= bytes_.size() - offset &&
           Get<uint32_t>(offset) == magic;
  }
  template <typename... Args>
  absl::Status ErrorAt(uint64_t offset, fmt::format_string<Args...> message,
                       Args&&... args) const {
    return ByteReader({}, std::string(where_), offset)
        .ErrorAt(0, fmt::format(message, std::forward<Args>(args)...));
  }
  template <typename... Args>
  absl::Status Refusal(uint64_t offset, fmt::format_string<Args...> message,
                       Args&&... args) const {
    return absl::UnimplementedError(
        ErrorAt(offset, message, std::forward<Args>(args)...).message());
  }

 private:
  absl::Span<const uint8_t> bytes_;
  std::string_view where_;
};

// The end record is last, except for a comment whose length it gives. The
// comment has at most 65,535 bytes, and a record only counts if its comment
// ends exactly where the file does: the comment itself may hold a magic number.
absl::StatusOr<uint64_t> FindEndRecord(const Archive& archive) {
  const size_t size = archive.bytes().size();
  for (size_t comment = 0; comment <= 0xFFFF && comment + kZipEndBytes <= size;
       ++comment) {
    const size_t at = size - kZipEndBytes - comment;
    if (archive.HasRecord(at, kZipEndMagic, kZipEndBytes) &&
        archive.Get<uint16_t>(at + 20) == comment) {
      return at;
    }
  }
  return archive.ErrorAt(size,
                         "a zip archive has its directory here, found none (is "
                         "the file cut short?)");
}

// Reads the end record at `at`. Both kinds have the same fields in the same
// order, in other widths, from the byte `first` of the record on: this disk and
// the directory's, the members here and in all, the directory's size and
// offset.
template <typename Disk, typename Count, typename Size>
absl::StatusOr<Directory> ReadEndRecord(const Archive& archive, uint64_t at,
                                        uint64_t first) {
  const uint64_t disks = at + first;
  const uint64_t counts = disks + 2 * sizeof(Disk);
  const uint64_t sizes = counts + 2 * sizeof(Count);
  const Directory directory{
      .offset = archive.Get<Size>(sizes + sizeof(Size)),
      .size = archive.Get<Size>(sizes),
      .count = archive.Get<Count>(counts + sizeof(Count))};
  if (archive.Get<Disk>(disks) != 0 ||
      archive.Get<Disk>(disks + sizeof(Disk)) != 0 ||
      archive.Get<Count>(counts) != directory.count) {
    return archive.Refusal(disks, "archive has several parts, expected one");
  }
  if (directory.offset > at || directory.size != at - directory.offset) {
    return archive.ErrorAt(
        sizes, "directory does not end where its end record begins");
  }
  return directory;
}

// The locator stands right before the end record, and points to the zip64 end
// record, which must end where the locator begins. Its size leaves out the 12
// bytes of its magic number and of the size itself.
absl::StatusOr<Directory> FindZip64Directory(const Archive& archive,
                                             uint64_t locator) {
  const uint64_t at = archive.Get<uint64_t>(locator + 8);
  if (!archive.HasRecord(at, kZip64EndMagic, kZip64EndBytes) ||
      at > locator - kZip64EndBytes ||
      archive.Get<uint64_t>(at + 4) != locator - at - 12) {
    return archive.ErrorAt(locator + 8,
                           "no zip64 end record where this points");
  }
  return ReadEndRecord<uint32_t, uint64_t, uint64_t>(archive, at, 16);
}

absl::StatusOr<Directory> FindDirectory(const Archive& archive) {
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t end, FindEndRecord(archive));
  if (end >= kZip64LocatorBytes + kZip64EndBytes &&
      archive.HasRecord(end - kZip64LocatorBytes, kZip64LocatorMagic,
                        kZip64LocatorBytes)) {
    return FindZip64Directory(archive, end - kZip64LocatorBytes);
  }
  return ReadEndRecord<uint16_t, uint16_t, uint32_t>(archive, end, 4);
}

// Replaces each field that is all ones by its value in the zip64 extra field,
// which holds only these fields, in this order.
absl::Status ReadZip64Extra(const Archive& archive, uint64_t at, size_t size,
                            absl::Span<uint64_t* const> fields) {
  const uint64_t end = at + size;
  while (end - at >= 4) {
    const uint16_t id = archive.Get<uint16_t>(at);
    uint64_t left = archive.Get<uint16_t>(at + 2);
    at += 4;
    if (left > end - at) return archive.ErrorAt(at - 2, "extra field too long");
    // Other fields, such as times of Unix, are passed over by their length.
    if (id != kZip64Extra) {
      at += left;
      continue;
    }
    for (uint64_t* field : fields) {
      if (*field != kZipInExtra) continue;
      if (left < sizeof(uint64_t)) {
        return archive.ErrorAt(at, "zip64 extra field too short");
      }
      *field = archive.Get<uint64_t>(at);
      at += sizeof(uint64_t);
      left -= sizeof(uint64_t);
    }
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

// The refusals come before anything is read of the member, and are told from
// damage: another program can read such an archive.
absl::Status CheckPacking(const Archive& archive, uint64_t at, uint16_t flags,
                          const ZipMember& member) {
  if (flags & (kFlagEncrypted | kFlagStrongEncryption | kFlagMaskedHeaders)) {
    return archive.Refusal(at + 8, "member {} is encrypted",
                           QuotedZipName(member.name));
  }
  if (flags & kFlagPatched) {
    return archive.Refusal(at + 8, "member {} is a patch",
                           QuotedZipName(member.name));
  }
  if (member.method == kZipStored || member.method == kZipDeflated) {
    return absl::OkStatus();
  }
  std::string_view name = "unknown";
  for (const MethodName& row : kMethods) {
    if (row.method == member.method) name = row.name;
  }
  return archive.Refusal(at + 10,
                         "member {} is packed by method {} ({}), "
                         "expected 0 (stored) or 8 (deflate)",
                         QuotedZipName(member.name), member.method, name);
}

// A member that claims more than its bytes can hold is refused before memory is
// taken for it.
absl::Status CheckSize(const Archive& archive, uint64_t at, uint64_t packed,
                       const ZipMember& member) {
  const bool possible =
      member.method == kZipStored
          ? member.size == packed
          : member.size / kMaxDeflateRatio <= packed;  // Cannot overflow.
  if (possible) return absl::OkStatus();
  return archive.ErrorAt(at + 20,
                         "member {} claims {} bytes, but no {} bytes "
                         "can be unpacked to so many",
                         QuotedZipName(member.name), member.size, packed);
}

// Finds the data after the member's local header. Only the header's lengths
// count: writers that stream leave its sizes empty.
absl::Status FindData(const Archive& archive, uint64_t local, uint64_t packed,
                      uint64_t directory, ZipMember* member) {
  const std::string name = QuotedZipName(member->name);
  if (!archive.HasRecord(local, kZipLocalMagic, kZipLocalBytes)) {
    return archive.ErrorAt(
        local, "member {} is not here, where the directory has it", name);
  }
  // The extra field of a local header may be longer or shorter than that of the
  // directory, so that its own length decides where the data begins.
  const size_t name_bytes = archive.Get<uint16_t>(local + 26);
  const size_t extra_bytes = archive.Get<uint16_t>(local + 28);
  member->offset = local + kZipLocalBytes + name_bytes + extra_bytes;
  if (member->offset > directory || packed > directory - member->offset) {
    return archive.ErrorAt(local,
                           "member {} has {} bytes, which reach into the "
                           "directory at byte {}",
                           name, packed, directory);
  }
  if (name_bytes != member->name.size() ||
      std::memcmp(archive.bytes().data() + local + kZipLocalBytes,
                  member->name.data(), name_bytes) != 0) {
    return archive.ErrorAt(
        local + kZipLocalBytes,
        "member has another name than in the directory, expected {}", name);
  }
  if (archive.Get<uint16_t>(local + 8) != member->method) {
    return archive.ErrorAt(
        local + 8, "member {} has another method than in the directory", name);
  }
  member->packed = archive.bytes().subspan(member->offset, packed);
  return absl::OkStatus();
}

absl::StatusOr<ZipMember> ReadEntry(const Archive& archive,
                                    const Directory& directory, uint64_t* at) {
  const uint64_t start = *at;
  const uint64_t end = directory.offset + directory.size;
  if (end - start < kZipEntryBytes ||
      archive.Get<uint32_t>(start) != kZipEntryMagic) {
    return archive.ErrorAt(start, "no entry of the directory begins here");
  }
  const size_t name_bytes = archive.Get<uint16_t>(start + 28);
  const size_t extra_bytes = archive.Get<uint16_t>(start + 30);
  const size_t comment_bytes = archive.Get<uint16_t>(start + 32);
  const uint64_t name_at = start + kZipEntryBytes;
  if (name_bytes + extra_bytes + comment_bytes > end - name_at) {
    return archive.ErrorAt(start + 28, "entry is longer than the directory");
  }
  *at = name_at + name_bytes + extra_bytes + comment_bytes;
  ZipMember member;
  member.name.assign(
      reinterpret_cast<const char*>(archive.bytes().data()) + name_at,
      name_bytes);
  member.method = archive.Get<uint16_t>(start + 10);
  member.crc = archive.Get<uint32_t>(start + 16);
  member.size = archive.Get<uint32_t>(start + 24);
  uint64_t packed = archive.Get<uint32_t>(start + 20);
  uint64_t local = archive.Get<uint32_t>(start + 42);
  NODEWISE_RETURN_IF_ERROR(
      CheckPacking(archive, start, archive.Get<uint16_t>(start + 8), member));
  NODEWISE_RETURN_IF_ERROR(ReadZip64Extra(archive, name_at + name_bytes,
                                          extra_bytes,
                                          {&member.size, &packed, &local}));
  NODEWISE_RETURN_IF_ERROR(CheckSize(archive, start, packed, member));
  NODEWISE_RETURN_IF_ERROR(
      FindData(archive, local, packed, directory.offset, &member));
  return member;
}

// If members shared bytes, a small archive could unpack to petabytes.
absl::Status CheckOverlap(const Archive& archive,
                          absl::Span<const ZipMember> members) {
  // Members that are sorted by their place only need to be compared with their
  // neighbours.
  std::vector<const ZipMember*> sorted;
  for (const ZipMember& member : members) sorted.push_back(&member);
  std::ranges::sort(sorted, {}, &ZipMember::offset);
  for (size_t i = 1; i < sorted.size(); ++i) {
    const ZipMember& before = *sorted[i - 1];
    const ZipMember& member = *sorted[i];
    const uint64_t header = kZipLocalBytes + member.name.size();
    if (before.offset + before.packed.size() + header <= member.offset) {
      continue;
    }
    return archive.ErrorAt(member.offset, "members {} and {} overlap",
                           QuotedZipName(before.name),
                           QuotedZipName(member.name));
  }
  return absl::OkStatus();
}

// zlib counts in 32 bits, so data goes in and comes out in pieces.
constexpr size_t kMaxPiece = size_t{1} << 30;
// The buffer doubles from here on, so that a member that lies about its size
// takes no more memory than a megabyte, or twice what it really has.
constexpr size_t kFirstBuffer = size_t{1} << 20;

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

// std::string throws where there is no memory, and the rest of the program does
// not know exceptions.
absl::Status Resize(size_t size, std::string* buffer) {
  try {
    buffer->resize(size);
  } catch (const std::exception&) {
    return ResourceExhausted("cannot allocate {} bytes to unpack to", size);
  }
  return absl::OkStatus();
}

// Unpacks to `buffer`, which grows only as the data really comes. One spare
// byte at the end reveals data beyond `size`.
absl::Status Inflate(absl::Span<const uint8_t> packed, uint64_t size,
                     std::string* buffer) {
  Inflater inflater;
  if (!inflater.ready()) {
    return ResourceExhausted("cannot allocate zlib's state");
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
    return ResourceExhausted("cannot allocate zlib's window");
  }
  if (result == Z_STREAM_END && used == size && packed.empty()) {
    buffer->resize(size);
    return absl::OkStatus();
  }
  return DataLoss("packed data is damaged: {} after {} bytes, expected {}",
                  used > size              ? "goes on"
                  : result == Z_STREAM_END ? "ends"
                  : result == Z_BUF_ERROR  ? "is cut short"
                                           : "breaks",
                  std::min<uint64_t>(used, size), size);
}

// A reader needs version 2.0 of the format for folders and deflate, and 4.5 for
// zip64.
constexpr uint16_t kVersion = 20;
constexpr uint16_t kVersionWithZip64 = 45;
// With this flag a name is UTF-8. Without it readers take some old code page of
// PCs, and these agree on ASCII alone.
constexpr uint16_t kFlagUtf8 = 1 << 11;
// The earliest time that a zip archive can have: day and month count from 1,
// the year from 1980.
constexpr uint16_t kMidnight = 0;
constexpr uint16_t kFirstOfJanuary1980 = 1 << 5 | 1;

// Appends the fields, each in as many bytes as its type has. The machine must
// be little-endian, as ByteReader assumes, too.
template <typename... T>
void Put(std::string* bytes, T... fields) {
  (bytes->append(reinterpret_cast<const char*>(&fields), sizeof(fields)), ...);
}

bool IsAscii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c & 0x80) == 0; });
}

// The fields that local headers and directory entries share.
void PutCommon(const std::string& name, uint32_t crc, uint32_t size,
               uint16_t extra_bytes, std::string* bytes) {
  const uint16_t version = extra_bytes > 0 ? kVersionWithZip64 : kVersion;
  const uint16_t flags = IsAscii(name) ? 0 : kFlagUtf8;
  Put(bytes, version, flags, kZipStored, kMidnight, kFirstOfJanuary1980, crc,
      size, size, static_cast<uint16_t>(name.size()), extra_bytes);
}

// Only fields that do not fit where they belong are in the extra field, which
// is left out where all fit.
std::string Zip64Extra(std::initializer_list<uint64_t> fields) {
  std::string extra;
  if (fields.size() == 0) return extra;
  Put(&extra, kZip64Extra,
      static_cast<uint16_t>(fields.size() * sizeof(uint64_t)));
  for (const uint64_t field : fields) Put(&extra, field);
  return extra;
}

// The bytes are borrowed, and members are unpacked when they are asked for.
class ZipArchive final : public FileArchive {
 public:
  ZipArchive(std::vector<ZipMember> members, std::string where)
      : members_(std::move(members)), where_(std::move(where)) {}

  std::vector<std::string> Names() const override {
    std::vector<std::string> names;
    for (const ZipMember& member : members_) names.push_back(member.name);
    return names;
  }

  absl::StatusOr<std::string> Read(const std::string& name) const override {
    for (const ZipMember& member : members_) {
      if (member.name != name) continue;
      std::string buffer;
      const auto bytes = UnpackZipMember(member, &buffer);
      if (!bytes.ok()) {
        return At(fmt::format("{}: member {}", where_, QuotedZipName(name)),
                  bytes.status());
      }
      // A stored member lies in the archive, not in the buffer.
      if (buffer.empty()) buffer.assign(bytes->begin(), bytes->end());
      return buffer;
    }
    return NotFound("{}: has no member {}", where_, QuotedZipName(name));
  }

 private:
  const std::vector<ZipMember> members_;
  const std::string where_;
};

}  // namespace

std::string QuotedZipName(const std::string& name) {
  return fmt::format("\"{}\"", absl::Utf8SafeCHexEscape(name));
}

bool LooksLikeZip(absl::Span<const uint8_t> bytes) {
  const Archive archive(bytes, "");
  return archive.HasRecord(0, kZipLocalMagic, sizeof(uint32_t)) ||
         archive.HasRecord(0, kZipEndMagic, sizeof(uint32_t));
}

absl::StatusOr<std::vector<ZipMember>> ReadZipDirectory(
    absl::Span<const uint8_t> bytes, const std::string& where) {
  const Archive archive(bytes, where);
  NODEWISE_ASSIGN_OR_RETURN(const Directory directory, FindDirectory(archive));
  if (directory.count > directory.size / kZipEntryBytes) {
    return archive.ErrorAt(directory.offset,
                           "directory of {} bytes claims {} members",
                           directory.size, directory.count);
  }
  std::vector<ZipMember> members;
  members.reserve(directory.count);
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.count; ++i) {
    NODEWISE_ASSIGN_OR_RETURN(auto member, ReadEntry(archive, directory, &at));
    members.push_back(std::move(member));
  }
  if (at != directory.offset + directory.size) {
    return archive.ErrorAt(at, "directory goes on behind its {} members",
                           directory.count);
  }
  NODEWISE_RETURN_IF_ERROR(CheckOverlap(archive, members));
  return members;
}

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
  return DataLoss("data has the CRC-32 {:08x}, expected {:08x}", crc,
                  member.crc);
}

// The header gives the CRC of the data and stands before it, so that the data
// has to be complete when it is added.
absl::Status ZipWriter::Add(std::string_view name, std::string_view head,
                            absl::Span<const uint8_t> rest) {
  NODEWISE_CHECK(name.size() <= kMaxNameBytes);
  Entry entry{.name = std::string(name),
              .size = head.size() + rest.size(),
              .offset = offset_};
  uLong crc =
      crc32_z(0, reinterpret_cast<const uint8_t*>(head.data()), head.size());
  // To zlib a null pointer means "begin anew".
  if (!rest.empty()) crc = crc32_z(crc, rest.data(), rest.size());
  entry.crc = static_cast<uint32_t>(crc);
  NODEWISE_RETURN_IF_ERROR(Write(LocalHeader(entry)));
  NODEWISE_RETURN_IF_ERROR(Write(head));
  NODEWISE_RETURN_IF_ERROR(
      Write({reinterpret_cast<const char*>(rest.data()), rest.size()}));
  entries_.push_back(std::move(entry));
  return absl::OkStatus();
}

absl::Status ZipWriter::Finish() {
  const uint64_t start = offset_;
  for (const Entry& entry : entries_) {
    NODEWISE_RETURN_IF_ERROR(Write(DirectoryEntry(entry)));
  }
  return Write(EndRecords(offset_ - start));
}

std::string ZipWriter::LocalHeader(const Entry& entry) const {
  const bool large = IsLarge(entry.size);
  const std::string extra =
      large ? Zip64Extra({entry.size, entry.size}) : Zip64Extra({});
  std::string bytes;
  Put(&bytes, kZipLocalMagic);
  PutCommon(entry.name, entry.crc,
            large ? kZipInExtra : static_cast<uint32_t>(entry.size),
            static_cast<uint16_t>(extra.size()), &bytes);
  return bytes + entry.name + extra;
}

std::string ZipWriter::DirectoryEntry(const Entry& entry) const {
  const bool large = IsLarge(entry.size);
  const bool far = IsLarge(entry.offset);
  const std::string extra =
      large && far ? Zip64Extra({entry.size, entry.size, entry.offset})
      : large      ? Zip64Extra({entry.size, entry.size})
      : far        ? Zip64Extra({entry.offset})
                   : Zip64Extra({});
  std::string bytes;
  // Marked as written on MS-DOS: on Unix the file modes would have to make
  // sense.
  Put(&bytes, kZipEntryMagic, kVersionWithZip64);
  PutCommon(entry.name, entry.crc,
            large ? kZipInExtra : static_cast<uint32_t>(entry.size),
            static_cast<uint16_t>(extra.size()), &bytes);
  constexpr uint16_t kCommentBytes = 0, kDisk = 0, kInternalAttributes = 0;
  constexpr uint32_t kExternalAttributes = 0;
  Put(&bytes, kCommentBytes, kDisk, kInternalAttributes, kExternalAttributes,
      far ? kZipInExtra : static_cast<uint32_t>(entry.offset));
  return bytes + entry.name + extra;
}

std::string ZipWriter::EndRecords(uint64_t directory_bytes) const {
  const uint64_t count = entries_.size();
  // A count of 65,535 means in the old record that the true one is in the zip64
  // record.
  const uint64_t start = offset_ - directory_bytes;
  const bool large =
      count >= 0xFFFF || IsLarge(start) || IsLarge(directory_bytes);
  std::string bytes;
  // The record says how many bytes follow its magic and this number.
  constexpr uint64_t kBytesBehind = kZip64EndBytes - 12;
  if (large) {
    Put(&bytes, kZip64EndMagic, kBytesBehind, kVersionWithZip64,
        kVersionWithZip64, uint64_t{0},  // This disk and the directory's.
        count, count, directory_bytes, start, kZip64LocatorMagic,
        uint32_t{0},            // Disk of the zip64 end record.
        offset_, uint32_t{1});  // Number of disks.
  }
  const auto count16 = static_cast<uint16_t>(large ? 0xFFFF : count);
  Put(&bytes, kZipEndMagic, uint32_t{0},  // This disk and the directory's.
      count16, count16,
      large ? kZipInExtra : static_cast<uint32_t>(directory_bytes),
      large ? kZipInExtra : static_cast<uint32_t>(start),
      uint16_t{0});  // Comment bytes.
  return bytes;
}

absl::Status ZipWriter::Write(std::string_view bytes) {
  offset_ += bytes.size();
  return file_->Write(bytes);
}

bool FileArchive::IsOne(absl::Span<const uint8_t> bytes) {
  return LooksLikeZip(bytes);
}

absl::StatusOr<std::unique_ptr<const FileArchive>> FileArchive::Open(
    absl::Span<const uint8_t> bytes, std::string where) {
  NODEWISE_ASSIGN_OR_RETURN(auto members, ReadZipDirectory(bytes, where));
  return std::make_unique<const ZipArchive>(std::move(members),
                                            std::move(where));
}

}  // namespace nodewise
