#include "contrib/tensors/zip_reader.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "absl/strings/escaping.h"
#include "contrib/tensors/zip_format.h"
#include "fmt/format.h"
#include "nodewise/support/byte_reader.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Deflate packs at most 258 bytes into 2 bits, and needs a few to begin.
constexpr uint64_t kMaxDeflateRatio = 1032;

constexpr uint16_t kFlagEncrypted = 1 << 0;
constexpr uint16_t kFlagPatched = 1 << 5;
constexpr uint16_t kFlagStrongEncryption = 1 << 6;
constexpr uint16_t kFlagMaskedHeaders = 1 << 13;

struct MethodName {
  uint16_t method;
  std::string_view name;
};

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

// REQUIRES: the field lies in `bytes`.
template <typename T>
T Field(absl::Span<const uint8_t> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// The archive that all functions below read.
class Archive {
 public:
  Archive(absl::Span<const uint8_t> bytes, const std::string& where)
      : bytes_(bytes), where_(where) {}

  absl::Span<const uint8_t> bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool Holds(uint64_t offset, uint64_t size) const {
    return offset <= bytes_.size() && size <= bytes_.size() - offset;
  }
  // True if a record of `size` bytes that begins with `magic` is at `offset`.
  bool HasRecord(uint64_t offset, uint32_t magic, size_t size) const {
    return Holds(offset, size) && Field<uint32_t>(bytes_, offset) == magic;
  }
  absl::Status ErrorAt(uint64_t offset, std::string_view message) const {
    return ByteReader({}, where_, offset).ErrorAt(0, message);
  }
  absl::Status Refusal(uint64_t offset, std::string_view message) const {
    return absl::UnimplementedError(ErrorAt(offset, message).message());
  }

 private:
  absl::Span<const uint8_t> bytes_;
  const std::string& where_;
};

// The end record is last, except for a comment whose length it gives.
absl::StatusOr<uint64_t> FindEndRecord(const Archive& archive) {
  const size_t size = archive.size();
  for (size_t comment = 0; comment <= 0xFFFF && comment + kZipEndBytes <= size;
       ++comment) {
    const size_t at = size - kZipEndBytes - comment;
    if (archive.HasRecord(at, kZipEndMagic, kZipEndBytes) &&
        Field<uint16_t>(archive.bytes(), at + 20) == comment) {
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
  const absl::Span<const uint8_t> bytes = archive.bytes();
  const uint64_t disks = at + first;
  const uint64_t counts = disks + 2 * sizeof(Disk);
  const uint64_t sizes = counts + 2 * sizeof(Count);
  const Directory directory{
      .offset = Field<Size>(bytes, sizes + sizeof(Size)),
      .size = Field<Size>(bytes, sizes),
      .count = Field<Count>(bytes, counts + sizeof(Count))};
  if (Field<Disk>(bytes, disks) != 0 ||
      Field<Disk>(bytes, disks + sizeof(Disk)) != 0 ||
      Field<Count>(bytes, counts) != directory.count) {
    return archive.Refusal(disks, "archive has several parts, expected one");
  }
  if (directory.offset > at || directory.size != at - directory.offset) {
    return archive.ErrorAt(
        sizes, "directory does not end where its end record begins");
  }
  return directory;
}

absl::StatusOr<Directory> FindZip64Directory(const Archive& archive,
                                             uint64_t locator) {
  const absl::Span<const uint8_t> bytes = archive.bytes();
  const uint64_t at = Field<uint64_t>(bytes, locator + 8);
  if (!archive.HasRecord(at, kZip64EndMagic, kZip64EndBytes) ||
      at > locator - kZip64EndBytes ||
      Field<uint64_t>(bytes, at + 4) != locator - at - 12) {
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
    const uint16_t id = Field<uint16_t>(archive.bytes(), at);
    uint64_t left = Field<uint16_t>(archive.bytes(), at + 2);
    at += 4;
    if (left > end - at) return archive.ErrorAt(at - 2, "extra field too long");
    if (id != kZip64Extra) {
      at += left;
      continue;
    }
    for (uint64_t* field : fields) {
      if (*field != kZipInExtra) continue;
      if (left < sizeof(uint64_t)) {
        return archive.ErrorAt(at, "zip64 extra field too short");
      }
      *field = Field<uint64_t>(archive.bytes(), at);
      at += sizeof(uint64_t);
      left -= sizeof(uint64_t);
    }
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status CheckPacking(const Archive& archive, uint64_t at, uint16_t flags,
                          const ZipMember& member) {
  if (flags & (kFlagEncrypted | kFlagStrongEncryption | kFlagMaskedHeaders)) {
    return archive.Refusal(at + 8, fmt::format("member {} is encrypted",
                                               QuotedZipName(member.name)));
  }
  if (flags & kFlagPatched) {
    return archive.Refusal(at + 8, fmt::format("member {} is a patch",
                                               QuotedZipName(member.name)));
  }
  if (member.method == kZipStored || member.method == kZipDeflated) {
    return absl::OkStatus();
  }
  std::string_view name = "unknown";
  for (const MethodName& row : kMethods) {
    if (row.method == member.method) name = row.name;
  }
  return archive.Refusal(
      at + 10, fmt::format("member {} is packed by method {} ({}), "
                           "expected 0 (stored) or 8 (deflate)",
                           QuotedZipName(member.name), member.method, name));
}

absl::Status CheckSize(const Archive& archive, uint64_t at, uint64_t packed,
                       const ZipMember& member) {
  const bool possible =
      member.method == kZipStored
          ? member.size == packed
          : member.size / kMaxDeflateRatio <= packed;  // Cannot overflow.
  if (possible) return absl::OkStatus();
  return archive.ErrorAt(
      at + 20, fmt::format("member {} claims {} bytes, but no {} bytes "
                           "can be unpacked to so many",
                           QuotedZipName(member.name), member.size, packed));
}

// Finds the data after the member's local header. Only the header's lengths
// count: writers that stream leave its sizes empty.
absl::Status FindData(const Archive& archive, uint64_t local, uint64_t packed,
                      uint64_t directory, ZipMember* member) {
  const std::string name = QuotedZipName(member->name);
  if (!archive.HasRecord(local, kZipLocalMagic, kZipLocalBytes)) {
    return archive.ErrorAt(local, fmt::format("member {} is not here, where "
                                              "the directory has it",
                                              name));
  }
  const size_t name_bytes = Field<uint16_t>(archive.bytes(), local + 26);
  const size_t extra_bytes = Field<uint16_t>(archive.bytes(), local + 28);
  member->offset = local + kZipLocalBytes + name_bytes + extra_bytes;
  if (member->offset > directory || packed > directory - member->offset) {
    return archive.ErrorAt(
        local, fmt::format("member {} has {} bytes, which reach into the "
                           "directory at byte {}",
                           name, packed, directory));
  }
  if (name_bytes != member->name.size() ||
      std::memcmp(archive.bytes().data() + local + kZipLocalBytes,
                  member->name.data(), name_bytes) != 0) {
    return archive.ErrorAt(local + kZipLocalBytes,
                           fmt::format("member has another name than in the "
                                       "directory, expected {}",
                                       name));
  }
  if (Field<uint16_t>(archive.bytes(), local + 8) != member->method) {
    return archive.ErrorAt(local + 8, fmt::format("member {} has another "
                                                  "method than in the "
                                                  "directory",
                                                  name));
  }
  member->packed = archive.bytes().subspan(member->offset, packed);
  return absl::OkStatus();
}

// Reads the entry at `*at` and moves on to the next.
absl::StatusOr<ZipMember> ReadEntry(const Archive& archive,
                                    const Directory& directory, uint64_t* at) {
  const absl::Span<const uint8_t> bytes = archive.bytes();
  const uint64_t start = *at;
  const uint64_t end = directory.offset + directory.size;
  if (end - start < kZipEntryBytes ||
      Field<uint32_t>(bytes, start) != kZipEntryMagic) {
    return archive.ErrorAt(start, "no entry of the directory begins here");
  }
  const size_t name_bytes = Field<uint16_t>(bytes, start + 28);
  const size_t extra_bytes = Field<uint16_t>(bytes, start + 30);
  const size_t comment_bytes = Field<uint16_t>(bytes, start + 32);
  const uint64_t name_at = start + kZipEntryBytes;
  if (name_bytes + extra_bytes + comment_bytes > end - name_at) {
    return archive.ErrorAt(start + 28, "entry is longer than the directory");
  }
  *at = name_at + name_bytes + extra_bytes + comment_bytes;
  ZipMember member;
  member.name.assign(reinterpret_cast<const char*>(bytes.data()) + name_at,
                     name_bytes);
  member.method = Field<uint16_t>(bytes, start + 10);
  member.crc = Field<uint32_t>(bytes, start + 16);
  member.size = Field<uint32_t>(bytes, start + 24);
  uint64_t packed = Field<uint32_t>(bytes, start + 20);
  uint64_t local = Field<uint32_t>(bytes, start + 42);
  NODEWISE_RETURN_IF_ERROR(
      CheckPacking(archive, start, Field<uint16_t>(bytes, start + 8), member));
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
  std::vector<const ZipMember*> sorted;
  for (const ZipMember& member : members) sorted.push_back(&member);
  std::sort(sorted.begin(), sorted.end(),
            [](const ZipMember* a, const ZipMember* b) {
              return a->offset < b->offset;
            });
  for (size_t i = 1; i < sorted.size(); ++i) {
    const ZipMember& before = *sorted[i - 1];
    const ZipMember& member = *sorted[i];
    const uint64_t header = kZipLocalBytes + member.name.size();
    if (before.offset + before.packed.size() + header <= member.offset) {
      continue;
    }
    return archive.ErrorAt(
        member.offset,
        fmt::format("members {} and {} overlap", QuotedZipName(before.name),
                    QuotedZipName(member.name)));
  }
  return absl::OkStatus();
}

}  // namespace

bool LooksLikeZip(absl::Span<const uint8_t> bytes) {
  if (bytes.size() < sizeof(uint32_t)) return false;
  const uint32_t magic = Field<uint32_t>(bytes, 0);
  return magic == kZipLocalMagic || magic == kZipEndMagic;
}

absl::StatusOr<std::vector<ZipMember>> ReadZipDirectory(
    absl::Span<const uint8_t> bytes, const std::string& where) {
  const Archive archive(bytes, where);
  NODEWISE_ASSIGN_OR_RETURN(const Directory directory, FindDirectory(archive));
  if (directory.count > directory.size / kZipEntryBytes) {
    return archive.ErrorAt(
        directory.offset, fmt::format("directory of {} bytes claims {} members",
                                      directory.size, directory.count));
  }
  std::vector<ZipMember> members;
  members.reserve(directory.count);
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.count; ++i) {
    NODEWISE_ASSIGN_OR_RETURN(ZipMember member,
                              ReadEntry(archive, directory, &at));
    members.push_back(std::move(member));
  }
  if (at != directory.offset + directory.size) {
    return archive.ErrorAt(at, fmt::format("directory goes on behind its {} "
                                           "members",
                                           directory.count));
  }
  NODEWISE_RETURN_IF_ERROR(CheckOverlap(archive, members));
  return members;
}

std::string QuotedZipName(const std::string& name) {
  return fmt::format("\"{}\"", absl::Utf8SafeCHexEscape(name));
}

}  // namespace nodewise
