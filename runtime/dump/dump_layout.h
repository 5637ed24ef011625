#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "nodewise/dump/dump.h"
#include "nodewise/graph/by_node.h"
#include "runtime/dump/dump_stream.h"

namespace nodewise {

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
