#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nodewise/graph/graph_json.h"

namespace nodewise {

// How tensors are called in a dump's output_tensors.params
// (docs/formats/dump.md). Any thread may call these functions.

// The parts of a key as TVM 0.8 and later write it. ParseDumpKey() fails with
// kInvalidArgument for other text.
struct DumpKey {
  std::string node;
  uint32_t topo_index = 0;
  bool has_topo_index = false;  // False for the keys of TVM 0.8.
  uint32_t output = 0;
};
absl::StatusOr<DumpKey> ParseDumpKey(std::string_view key);
std::string DumpKeyOf(std::string_view node, NodeId id, uint32_t output);

// Returns the node one of whose outputs a key means: the node with its number,
// if it has its name too. A key of TVM 0.8, without a number, means the only
// input of the graph with that name. None for other text, and for keys of other
// graphs.
std::optional<NodeId> NodeOfDumpKey(const Graph& graph, std::string_view key);

}  // namespace nodewise
