#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "nodewise/dump/dump.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/ndarray/tensor_stats.h"
#include "runtime/dump/dump_stream.h"

namespace nodewise {

// _nodewise_nodes.bin as it lies on disk (docs/formats/dump.md). These structs
// are written as they are in memory: little-endian, without padding.

struct RecordFileHeader {
  char magic[8] = {'N', 'O', 'D', 'E', 'W', 'I', 'S', 'E'};
  uint32_t version = 2;
  uint32_t record_bytes = 0;
  char hash[8] = {'X', 'X', 'H', '3', '-', '6', '4', 0};
};
static_assert(sizeof(RecordFileHeader) == 24);

// The header of version 1 ended before the hash, which was nodewise's own.
inline constexpr uint32_t kOldRecordVersion = 1;
inline constexpr size_t kOldHeaderBytes = 16;
static_assert(offsetof(RecordFileHeader, hash) == kOldHeaderBytes);

struct DiskRecord {
  uint16_t kind = 0;
  uint16_t flags = 0;
  uint32_t node = 0;
  uint32_t slot = 0;
  uint32_t entry = 0;
  uint64_t first = 0;   // The hash, or the start in nanoseconds.
  uint64_t second = 0;  // The elements, or the end.
};
static_assert(sizeof(DiskRecord) == 32);

// Follow each record if the header's record_bytes says so.
static_assert(sizeof(NumberStats) == 56);

inline constexpr uint32_t kShortRecordBytes = sizeof(DiskRecord);
inline constexpr uint32_t kLongRecordBytes =
    sizeof(DiskRecord) + sizeof(NumberStats);

inline constexpr uint16_t kRecordHasStats = 1;
inline constexpr uint16_t kRecordHasNumbers = 2;
// In a record of a time, slot and entry are the floating-point environment
// before the node and after it.
inline constexpr uint16_t kRecordHasFloats = 4;

// The bytes that every run of one plan writes alike, made once so that
// recording an entry takes two copies: what precedes its data, and its data.
struct DumpLayout {
  struct Entry {
    uint32_t item = kNoItem;  // Index in the plan, if its tensor is written.
    uint32_t head_size = 0;
    size_t head_at = 0;  // Offset in `heads`.
    uint64_t bytes = 0;
    uint64_t elements = 0;  // Lanes counted one by one.
  };
  static constexpr uint32_t kNoItem = UINT32_MAX;

  ByEntry<Entry> entries;
  std::string heads;
  ByNode<bool> is_recorded;
  std::string params_header;
  // Shared by the writers of successive runs.
  std::shared_ptr<ChunkPool> chunks = std::make_shared<ChunkPool>();
  std::string graph_json;  // Empty if it is too long to be kept.
};

}  // namespace nodewise
