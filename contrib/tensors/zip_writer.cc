#include "contrib/tensors/zip_writer.h"

#include <zlib.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "nodewise/support/check.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr uint16_t kVersion = 20;
constexpr uint16_t kVersionWithZip64 = 45;
constexpr uint16_t kFlagUtf8 = 1 << 11;
constexpr uint16_t kMidnight = 0;
constexpr uint16_t kFirstOfJanuary1980 = 1 << 5 | 1;

template <typename T>
void Put(T value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c & 0x80) == 0; });
}

// The fields that local headers and directory entries share.
void PutCommon(const std::string& name, uint32_t crc, uint32_t size,
               uint16_t extra_bytes, std::string* bytes) {
  Put<uint16_t>(extra_bytes > 0 ? kVersionWithZip64 : kVersion, bytes);
  Put<uint16_t>(IsAscii(name) ? 0 : kFlagUtf8, bytes);
  Put<uint16_t>(kZipStored, bytes);
  Put(kMidnight, bytes);
  Put(kFirstOfJanuary1980, bytes);
  Put(crc, bytes);
  Put(size, bytes);
  Put(size, bytes);
  Put(static_cast<uint16_t>(name.size()), bytes);
  Put(extra_bytes, bytes);
}

std::string Zip64Extra(std::initializer_list<uint64_t> fields) {
  std::string extra;
  if (fields.size() == 0) return extra;
  Put(kZip64Extra, &extra);
  Put(static_cast<uint16_t>(fields.size() * sizeof(uint64_t)), &extra);
  for (const uint64_t field : fields) Put(field, &extra);
  return extra;
}

}  // namespace

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
  Put(kZipLocalMagic, &bytes);
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
  Put(kZipEntryMagic, &bytes);
  // Marked as written on MS-DOS: on Unix the file modes would have to make
  // sense.
  Put(kVersionWithZip64, &bytes);
  PutCommon(entry.name, entry.crc,
            large ? kZipInExtra : static_cast<uint32_t>(entry.size),
            static_cast<uint16_t>(extra.size()), &bytes);
  Put<uint16_t>(0, &bytes);  // Comment bytes.
  Put<uint16_t>(0, &bytes);  // Disk.
  Put<uint16_t>(0, &bytes);  // Internal attributes.
  Put<uint32_t>(0, &bytes);  // External attributes.
  Put(far ? kZipInExtra : static_cast<uint32_t>(entry.offset), &bytes);
  return bytes + entry.name + extra;
}

std::string ZipWriter::EndRecords(uint64_t directory_bytes) const {
  const uint64_t count = entries_.size();
  const uint64_t start = offset_ - directory_bytes;
  const bool large =
      count >= 0xFFFF || IsLarge(start) || IsLarge(directory_bytes);
  std::string bytes;
  if (large) {
    Put(kZip64EndMagic, &bytes);
    Put<uint64_t>(kZip64EndBytes - 12, &bytes);
    Put(kVersionWithZip64, &bytes);
    Put(kVersionWithZip64, &bytes);
    Put<uint64_t>(0, &bytes);  // This disk and the directory's.
    Put(count, &bytes);
    Put(count, &bytes);
    Put(directory_bytes, &bytes);
    Put(start, &bytes);
    Put(kZip64LocatorMagic, &bytes);
    Put<uint32_t>(0, &bytes);  // Disk of the zip64 end record.
    Put(offset_, &bytes);
    Put<uint32_t>(1, &bytes);  // Number of disks.
  }
  const auto count16 = static_cast<uint16_t>(large ? 0xFFFF : count);
  Put(kZipEndMagic, &bytes);
  Put<uint32_t>(0, &bytes);  // This disk and the directory's.
  Put(count16, &bytes);
  Put(count16, &bytes);
  Put(large ? kZipInExtra : static_cast<uint32_t>(directory_bytes), &bytes);
  Put(large ? kZipInExtra : static_cast<uint32_t>(start), &bytes);
  Put<uint16_t>(0, &bytes);  // Comment bytes.
  return bytes;
}

absl::Status ZipWriter::Write(std::string_view bytes) {
  offset_ += bytes.size();
  return file_->Write(bytes);
}

}  // namespace nodewise
