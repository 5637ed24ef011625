#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/compare/compare.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_index.h"

namespace nodewise {

// Where the dumps of two runs of one graph begin to differ.

// What is known of a node that both sides have. Inputs and parameters of the
// network are nodes, too.
enum class DumpedNode : uint8_t {
  kNotCompared,
  kAlike,    // What it made is alike, as far as the rule asks.
  kFollows,  // It differs, and so does something that it reads.
  kUnclear,  // It differs, and something that it reads was not compared.
  kBegins,   // It differs, and all that it reads is alike.
};

struct DumpDifference {
  // With the graph, which stays with it.
  std::shared_ptr<const GraphIndex> index;
  ByNode<DumpedNode> nodes;

  std::vector<NodeId> NodesThat(DumpedNode state) const;
  // The function nodes that read what a node made.
  std::vector<NodeId> ReadersOf(NodeId node) const;
};

// Return what verdicts call it ("differs", "follows", "alike", ...), and why a
// node that begins it does so, in words.
std::string_view KindOf(DumpedNode state);
std::string_view ReasonFor(const DumpDifference& where, NodeId node);

// Returns what a comparison of two dumps says of their graph. Fails with
// kNotFound if one of the paths is not a dump with a graph, and with
// kFailedPrecondition if their graphs are not of the same nodes.
absl::StatusOr<DumpDifference> LocateDumpDifference(
    const std::string& expected, const std::string& actual,
    const Comparison& comparison);

}  // namespace nodewise
