#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/compare/compare.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/locate/locate.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// Names the node that made a run wrong, from the run's dump on disk: nothing of
// it runs again, and what it ran on need not be at hand.

struct ReplayOptions {
  // Called with the nodes that the reference has computed, and their number.
  std::function<void(size_t done, size_t total)> progress = nullptr;
};

// Computes each node of a dump with the reference, from the tensors that were
// recorded for it to read, and compares what it makes with what was recorded.
// `path` is as OpenDump() takes it. The nodes of the dump's graph must say what
// they compute, as those of Lower() do. No more tensors are in memory at once
// than a run needs.
//
// If the recorded hashes say that a node did not read what had been made for
// it, a node that the storage plan lets write there is a plan fault; what the
// reader makes of it is inconclusive, since it is unknown what lay there.
//
// Nodes whose tensors are not all in the dump are inconclusive, with the
// reason. Only a complete dump says what nodes inherit, and has outputs to
// compare.
//
// Fails as OpenDump(); with kNotFound if the dump has no graph that can be run;
// with kDataLoss if it is cut short, if it is not of that graph, or if a tensor
// is not what was hashed; and with kFailedPrecondition, giving a reason, if no
// node can be judged.
absl::StatusOr<LocateResult> ReplayDump(const std::string& path,
                                        const OpSet& operators,
                                        const ReplayOptions& options = {});

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
absl::StatusOr<DumpDifference> WhereDumpsDiffer(const std::string& expected,
                                                const std::string& actual,
                                                const Comparison& comparison);

}  // namespace nodewise
