#include "nodewise/locate/dump_difference.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/dump_graph.h"

namespace nodewise {
namespace {

// In the order of DumpedNode.
constexpr std::string_view kDumpedNodeNames[] = {"unknown", "alike", "follows",
                                                 "inconclusive", "differs"};

struct IndexedGraph {
  explicit IndexedGraph(Graph read) : graph(std::move(read)), index(graph) {}
  Graph graph;
  GraphIndex index;
};

// Two builds may give one function different names, so names are not compared:
// which node reads which decides.
absl::Status CheckIsSameGraph(const Graph& graph, const Graph& other,
                              const std::string& name,
                              const std::string& other_name) {
  const auto fails = [&](const std::string& what) {
    return FailedPrecondition(
        "{}: {} {}, expected dumps of the same graph, whose nodes have the "
        "same names and read the same",
        other_name, what, name);
  };
  if (graph.nodes.size() != other.nodes.size()) {
    return fails(fmt::format("has {}, not {} as", other.nodes.size(),
                             CountOf(graph.nodes.size(), "node")));
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const GraphNode &one = graph.nodes[n], &two = other.nodes[n];
    const bool read_the_same = std::ranges::equal(
        one.inputs, two.inputs, {}, &EntryRef::node, &EntryRef::node);
    if (one.name == two.name && read_the_same) continue;
    return fails(fmt::format("node {} is {}, not {} as in", n,
                             Printable(two.name), Printable(one.name)));
  }
  return absl::OkStatus();
}

bool Differs(Verdict verdict) {
  return verdict == Verdict::kError || verdict == Verdict::kInconclusive;
}

// None for a node whose outputs were not compared.
ByNode<std::optional<bool>> DifferingNodes(const GraphIndex& index,
                                           const Comparison& comparison) {
  ByNode<std::optional<bool>> differs(index.graph());
  // Tensors of equal hashes are counted, and not named.
  if (comparison.equal_hashes > 0) std::ranges::fill(differs, false);
  const auto note = [&](const TensorKey& key, std::optional<bool> differs_now) {
    if (key.role != TensorRole::kOutput) return;
    const auto node = index.FindNode(key.node);
    if (!node.ok()) return;
    std::optional<bool>& known = differs[*node];
    if (known != true) known = differs_now;
  };
  // An output that was not compared leaves its node open, even if others are
  // equal.
  for (const TensorComparison& tensor : comparison.tensors) {
    note(tensor.key, Differs(tensor.verdict()));
  }
  for (const SkippedTensor& skipped : comparison.skipped) {
    note(skipped.key,
         skipped.is_difference() ? std::optional(true) : std::nullopt);
  }
  return differs;
}

}  // namespace

std::vector<NodeId> DumpDifference::NodesThat(DumpedNode state) const {
  std::vector<NodeId> found;
  for (const NodeId node : AllNodes(index->graph())) {
    if (nodes[node] == state) found.push_back(node);
  }
  return found;
}

std::vector<NodeId> DumpDifference::ReadersOf(NodeId node) const {
  const Graph& graph = index->graph();
  std::vector<NodeId> readers;
  for (const NodeId reader : AllNodes(graph)) {
    const std::vector<EntryRef>& reads = graph.node(reader).inputs;
    if (std::ranges::count(reads, Index(node), &EntryRef::node) > 0) {
      readers.push_back(reader);
    }
  }
  return readers;
}

std::string_view KindOf(DumpedNode state) {
  return kDumpedNodeNames[static_cast<size_t>(state)];
}

std::string_view ReasonFor(const DumpDifference& where, NodeId node) {
  return where.index->graph().IsFunction(node)
             ? "what it reads is alike, and what it makes is not"
             : "an input or a parameter, which the network does not compute";
}

absl::StatusOr<DumpDifference> LocateDumpDifference(
    const std::string& expected, const std::string& actual,
    const Comparison& comparison) {
  NODEWISE_ASSIGN_OR_RETURN(Graph graph, GraphOfDump(expected));
  NODEWISE_ASSIGN_OR_RETURN(const Graph other, GraphOfDump(actual));
  NODEWISE_RETURN_IF_ERROR(CheckIsSameGraph(graph, other, expected, actual));
  const auto kept = std::make_shared<const IndexedGraph>(std::move(graph));
  DumpDifference found{{kept, &kept->index}, ByNode<DumpedNode>(kept->graph)};
  const auto differs = DifferingNodes(kept->index, comparison);
  for (const NodeId node : AllNodes(kept->graph)) {
    DumpedNode& state = found.nodes[node];
    if (!differs[node].has_value()) continue;
    state = DumpedNode::kAlike;
    if (!*differs[node]) continue;
    state = DumpedNode::kBegins;
    // The graph that TVM's debugger writes does not say which output of a node
    // is read, so that each counts as all.
    for (const EntryRef& ref : kept->graph.node(node).inputs) {
      const std::optional<bool> read = differs[NodeId{ref.node}];
      if (!read.has_value() && state == DumpedNode::kBegins) {
        state = DumpedNode::kUnclear;
      }
      if (read == true) state = DumpedNode::kFollows;
    }
  }
  return found;
}

}  // namespace nodewise
