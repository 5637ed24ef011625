#include "contrib/locate/halving.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "nodewise/runner/node_graph.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// The cuts are sorted.
bool IsLiveAtAnyCut(const BisectPath::Live& live,
                    const std::vector<size_t>& cuts) {
  const auto found = std::ranges::lower_bound(cuts, live.from);
  return found != cuts.end() && *found <= live.to;
}

// The cuts that halving may ask for in its first `depth` questions.
void AddMiddles(size_t low, size_t high, size_t depth,
                std::vector<size_t>* cuts) {
  if (depth == 0 || high - low < 2) return;
  const size_t middle = low + (high - low) / 2;
  AddMiddles(low, middle, depth - 1, cuts);
  cuts->push_back(middle);
  AddMiddles(middle, high, depth - 1, cuts);
}

// The nodes that the outputs depend on, in the graph's order. Nodes read
// earlier ones alone, so that one pass from the end finds them all.
std::vector<NodeId> NodesBefore(const GraphIndex& index,
                                const std::vector<EntryId>& outputs) {
  const Graph& graph = index.graph();
  ByNode<bool> is_needed(graph);
  for (const EntryId entry : outputs) is_needed[index.NodeOf(entry)] = true;
  std::vector<NodeId> nodes;
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const NodeId node{static_cast<uint32_t>(n)};
    if (!is_needed[node]) continue;
    nodes.push_back(node);
    for (const EntryRef& ref : graph.nodes[n].inputs) {
      is_needed[NodeId{ref.node}] = true;
    }
  }
  std::ranges::reverse(nodes);
  return nodes;
}

}  // namespace

absl::StatusOr<size_t> BisectFirstTrue(
    size_t low, size_t high,
    absl::FunctionRef<absl::StatusOr<bool>(size_t)> asks) {
  while (high - low > 1) {
    // Both ends stay what they are known to be, also if answers jump.
    const size_t middle = low + (high - low) / 2;
    NODEWISE_ASSIGN_OR_RETURN(const bool answer, asks(middle));
    (answer ? high : low) = middle;
  }
  return high;
}

// Items are added from the first one on until `holds` says true; the item at
// which it begins to do so is needed and stays. Then items are added to that
// one, and so on, until `holds` is true for those that were found by
// themselves. Each of them costs one halving, where trying all sets would take
// 2^items questions.
absl::StatusOr<std::vector<size_t>> SmallestSet(
    const std::vector<size_t>& items,
    absl::FunctionRef<absl::StatusOr<bool>(const std::vector<size_t>&)> holds) {
  std::vector<size_t> found;  // Last items first.
  // Sets are asked about in the order of the items, so that an answer that is
  // known for a set is found again.
  const auto with_first = [&](size_t count) {
    std::vector<size_t> set(items.begin(),
                            items.begin() + static_cast<ptrdiff_t>(count));
    set.insert(set.end(), found.rbegin(), found.rend());
    return set;
  };
  // `holds` is true for the first `count` items together with those that were
  // found. The item at which it begins to be true is one more that is needed.
  size_t count = items.size();
  bool is_enough = false;
  while (!is_enough && count > 0) {
    NODEWISE_ASSIGN_OR_RETURN(count, BisectFirstTrue(0, count, [&](size_t k) {
                                return holds(with_first(k));
                              }));
    found.push_back(items[--count]);
    if (count == 0) break;
    NODEWISE_ASSIGN_OR_RETURN(is_enough, holds(with_first(0)));
  }
  std::ranges::reverse(found);
  // An item that was needed when it was found may not be needed beside those
  // that were found after it.
  for (size_t i = 0; found.size() > 1 && i < found.size();) {
    std::vector<size_t> without = found;
    without.erase(without.begin() + static_cast<ptrdiff_t>(i));
    NODEWISE_ASSIGN_OR_RETURN(const bool still, holds(without));
    if (still) {
      found = std::move(without);
    } else {
      ++i;
    }
  }
  return found;
}

BisectPath::BisectPath(const GraphIndex& graph_index,
                       const std::vector<size_t>& heads)
    : index(&graph_index) {
  const Graph& graph = index->graph();
  for (const size_t head : heads) {
    outputs.push_back(graph.EntryOf(graph.heads[head]));
  }
  for (const NodeId node : NodesBefore(*index, outputs)) {
    if (graph.IsFunction(node)) {
      nodes.push_back(node);
    } else {
      given.push_back(graph.EntryOf(node, 0));
    }
  }
  // Cut k lies before node k of the path, and the last cut behind all of them.
  // An entry is live from the cut behind its node to the one before the last
  // node that reads it, and outputs are so to the end.
  ByEntry<size_t> last_cut(graph);  // 0: no cut needs it.
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const EntryRef& ref : graph.node(nodes[i]).inputs) {
      last_cut[graph.EntryOf(ref)] = i;
    }
  }
  // Behind the last node, outputs are still wanted.
  for (const EntryId entry : outputs) last_cut[entry] = nodes.size();
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const EntryId entry : EntriesMadeBy(graph, nodes[i])) {
      if (last_cut[entry] > i) live.push_back({entry, i + 1, last_cut[entry]});
    }
  }
}

std::vector<EntryId> BisectPath::LiveAt(const std::vector<size_t>& cuts) const {
  std::vector<EntryId> entries;
  for (const Live& each : live) {
    if (IsLiveAtAnyCut(each, cuts)) entries.push_back(each.entry);
  }
  return entries;
}

std::vector<size_t> BisectPath::CutsBetween(size_t low, size_t high,
                                            size_t most_bytes) const {
  const auto bytes_at = [this](const std::vector<size_t>& cuts) {
    size_t bytes = 0;
    for (const EntryId entry : LiveAt(cuts)) bytes += index->BytesOf(entry);
    return bytes;
  };
  std::vector<size_t> cuts;
  for (size_t depth = 1; cuts.size() < high - low - 1; ++depth) {
    std::vector<size_t> deeper;
    AddMiddles(low, high, depth, &deeper);
    // The middle is asked for next, however much memory its tensors take.
    if (depth > 1 && bytes_at(deeper) > most_bytes) break;
    cuts = std::move(deeper);
  }
  return cuts;
}

}  // namespace nodewise
