#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "fmt/format.h"
#include "nodewise/support/byte_reader.h"
#include "nodewise/support/status.h"
#include "runtime/dump/dump_layout.h"

namespace nodewise {
namespace {

using Kind = NodeRecord::Kind;

// The magic is looked at first and the hash last, since older headers end
// before it. A part that is missing has our own defaults, with which every
// check passes.
absl::Status CheckHeader(const ByteReader& reader,
                         const RecordFileHeader& header) {
  const RecordFileHeader ours;
  if (std::memcmp(header.magic, ours.magic, sizeof(ours.magic)) != 0) {
    return reader.ErrorAt(
        0, "is not a node record file, expected it to begin with NODEWISE");
  }
  if (header.version != ours.version && header.version != kOldRecordVersion) {
    return reader.ErrorAt(
        offsetof(RecordFileHeader, version),
        fmt::format("version is {}, expected {} or {}", header.version,
                    kOldRecordVersion, ours.version));
  }
  if (header.record_bytes != kShortRecordBytes &&
      header.record_bytes != kLongRecordBytes) {
    return reader.ErrorAt(
        offsetof(RecordFileHeader, record_bytes),
        fmt::format("records have {} bytes, expected {} or {}",
                    header.record_bytes, kShortRecordBytes, kLongRecordBytes));
  }
  if (header.version == kOldRecordVersion ||
      std::memcmp(header.hash, ours.hash, sizeof(ours.hash)) == 0) {
    return absl::OkStatus();
  }
  const std::string name(header.hash, strnlen(header.hash, sizeof(ours.hash)));
  return reader.ErrorAt(offsetof(RecordFileHeader, hash),
                        fmt::format("hash is \"{}\", expected \"{}\"",
                                    absl::CHexEscape(name), ours.hash));
}

// Flags that are not known are refused: they may change what the other fields
// mean.
absl::Status CheckRecord(const ByteReader& reader, size_t offset,
                         const DiskRecord& disk, bool is_long) {
  if (disk.kind < 1 || disk.kind > 3) {
    return reader.ErrorAt(
        offset, fmt::format("record kind is {}, expected 1 to 3", disk.kind));
  }
  const uint16_t known = disk.kind == static_cast<uint16_t>(Kind::kTime)
                             ? kRecordHasFloats
                         : is_long ? kRecordHasStats | kRecordHasNumbers
                                   : 0;
  if ((disk.flags & ~known) == 0) return absl::OkStatus();
  return reader.ErrorAt(
      offset + offsetof(DiskRecord, flags),
      fmt::format("record flags are {}, expected none beyond {}", disk.flags,
                  known));
}

// Two of the fields mean other things for times than for tensors; see the flags
// in dump_layout.h.
NodeRecord FromDisk(const DiskRecord& disk, const NumberStats& stats,
                    HashKind hash_kind) {
  NodeRecord record;
  record.kind = static_cast<Kind>(disk.kind);
  record.node = NodeId{disk.node};
  if (record.kind == Kind::kTime) {
    record.time = {static_cast<int64_t>(disk.first),
                   static_cast<int64_t>(disk.second)};
    if ((disk.flags & kRecordHasFloats) != 0) {
      record.floats =
          FloatChange{UnpackFloats(disk.slot), UnpackFloats(disk.entry)};
    }
    return record;
  }
  record.slot = disk.slot;
  record.entry = EntryId{disk.entry};
  record.hash_kind = hash_kind;
  record.has_stats = (disk.flags & kRecordHasStats) != 0;
  record.stats = {stats, disk.first, disk.second,
                  (disk.flags & kRecordHasNumbers) != 0};
  return record;
}

}  // namespace

// A file that is cut short is read as far as whole records go, because a killed
// run leaves one; bytes at the end that are less than a record are ignored.
absl::StatusOr<std::vector<NodeRecord>> ParseNodeRecords(
    absl::Span<const uint8_t> bytes, std::string where) {
  ByteReader reader(bytes, std::move(where));
  // A header that is cut short is judged by the part that is there.
  RecordFileHeader header;
  header.record_bytes = kShortRecordBytes;
  const size_t there = std::min(bytes.size(), sizeof(header));
  if (there > 0) std::memcpy(&header, bytes.data(), there);
  NODEWISE_RETURN_IF_ERROR(CheckHeader(reader, header));
  const bool is_old = header.version == kOldRecordVersion;
  const HashKind hash_kind = is_old ? HashKind::kNodewiseOwn : HashKind::kXxh3;
  const size_t header_bytes = is_old ? kOldHeaderBytes : sizeof(header);
  NODEWISE_RETURN_IF_ERROR(
      reader.Bytes("header", std::min(bytes.size(), header_bytes)).status());

  std::vector<NodeRecord> records;
  records.reserve(reader.left() / header.record_bytes);
  while (reader.left() >= header.record_bytes) {
    const size_t start = reader.offset();
    NODEWISE_ASSIGN_OR_RETURN(const auto data,
                              reader.Bytes("record", header.record_bytes));
    DiskRecord disk;
    NumberStats stats;
    std::memcpy(&disk, data.data(), sizeof(disk));
    std::memcpy(&stats, data.data() + sizeof(disk), data.size() - sizeof(disk));
    NODEWISE_RETURN_IF_ERROR(CheckRecord(
        reader, start, disk, header.record_bytes == kLongRecordBytes));
    records.push_back(FromDisk(disk, stats, hash_kind));
  }
  return records;
}

}  // namespace nodewise
