#include "contrib/locate/halving.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "contrib/locate/partial_graph.h"
#include "nodewise/locate/layer_comparator.h"
#include "nodewise/runner/node_graph.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// One of the cuts, which are sorted, lies in the range.
bool IsLiveAtAny(const BisectPath::Live& live,
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

absl::StatusOr<size_t> FirstLeap(
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

// Items are added from the first one on until it holds; the item at which it
// begins to hold is needed and stays. Then items are added to that one, and so
// on, until those that were found hold by themselves. Each of them costs one
// halving, where trying all sets would take 2^items questions.
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
  // It holds for the first `count` items together with those that were found.
  // The item at which it begins to hold is one more that is needed.
  size_t count = items.size();
  bool is_enough = false;
  while (!is_enough && count > 0) {
    NODEWISE_ASSIGN_OR_RETURN(count, FirstLeap(0, count, [&](size_t k) {
                                return holds(with_first(k));
                              }));
    found.push_back(items[--count]);
    if (count == 0) break;
    NODEWISE_ASSIGN_OR_RETURN(is_enough, holds(with_first(0)));
  }
  std::ranges::reverse(found);
  // One that was needed beside others may not be any more.
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
    if (IsLiveAtAny(each, cuts)) entries.push_back(each.entry);
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

absl::Status ReferenceRest::Prepare(absl::Span<const NodeId> nodes) {
  for (const NodeId node : nodes) {
    if (kernels_[node] != nullptr || !CallsLibrary(graph_.node(node))) continue;
    auto region = RegionOfNode(graph_, node, ops_);
    if (!region.ok()) {
      return Unimplemented("{}: {}, so the reference cannot compute it",
                           index_.TitleOf(node), MessageOf(region.status()));
    }
    kernels_[node] = std::make_shared<const Kernel>(*std::move(region));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NDArray>> ReferenceRest::Run(
    absl::Span<const NodeId> nodes, ByEntry<NDArray> tensors,
    absl::Span<const EntryId> wanted) {
  // A tensor that is wanted is never let go.
  constexpr size_t kToTheEnd = SIZE_MAX;
  ByEntry<size_t> last_read(graph_);
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const EntryRef& ref : graph_.node(nodes[i]).inputs) {
      last_read[graph_.EntryOf(ref)] = i;
    }
  }
  for (const EntryId entry : wanted) last_read[entry] = kToTheEnd;
  for (size_t i = 0; i < nodes.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(
        At("the reference",
           At(index_.TitleOf(nodes[i]), Compute(nodes[i], &tensors))));
    for (const EntryRef& ref : graph_.node(nodes[i]).inputs) {
      const EntryId entry = graph_.EntryOf(ref);
      if (last_read[entry] <= i) tensors[entry] = NDArray();
    }
  }
  std::vector<NDArray> outputs;
  for (const EntryId entry : wanted) outputs.push_back(tensors[entry]);
  return outputs;
}

absl::Status ReferenceRest::Compute(NodeId id,
                                    ByEntry<NDArray>* tensors) const {
  const GraphNode& node = graph_.node(id);
  std::vector<NDArray> inputs;
  for (const EntryRef& ref : node.inputs) {
    const EntryId entry = graph_.EntryOf(ref);
    inputs.push_back((*tensors)[entry]);
    if (inputs.back().defined()) continue;
    return NotFound("the run has not handed out {}", index_.KeyOf(entry));
  }
  // The reference hands the input of a node on that computes nothing.
  if (!CallsLibrary(node)) {
    const EntryId made = graph_.EntryOf(id, 0);
    const GraphEntry& type = graph_.entry(made);
    NODEWISE_ASSIGN_OR_RETURN((*tensors)[made],
                              inputs[0].View(type.shape, type.dtype));
    return absl::OkStatus();
  }
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> made,
                            kernels_[id]->interpreter.Run(std::move(inputs)));
  for (uint32_t slot = 0; slot < made.size(); ++slot) {
    (*tensors)[graph_.EntryOf(id, slot)] = made[slot];
  }
  return absl::OkStatus();
}

absl::StatusOr<WrongOutputs> FindWrongOutputs(
    const std::vector<NDArray>& reference,
    const std::vector<NamedTensor>& outputs, Tolerance tolerance,
    std::vector<TensorComparison>* compared) {
  NODEWISE_ASSIGN_OR_RETURN(
      std::vector<TensorComparison> all,
      CompareNetworkOutputs(reference, outputs, tolerance));
  WrongOutputs found;
  found.tolerance = tolerance;
  std::vector<TensorComparison> wrong;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].is_wrong()) continue;
    found.heads.push_back(i);
    found.names.push_back(outputs[i].name);
    found.reference.push_back(reference[i]);
    wrong.push_back(all[i]);
  }
  // Outputs that are within the tolerance have errors, too, which would only
  // blur the shares.
  found.error = ErrorOf(wrong);
  if (compared != nullptr) *compared = std::move(all);
  return found;
}

absl::StatusOr<double> WrongOutputs::ShareLeft(
    std::vector<NDArray> outputs) const {
  // Names are for messages alone: outputs are compared by place.
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < outputs.size(); ++i) {
    named.push_back({names[i], std::move(outputs[i])});
  }
  NODEWISE_ASSIGN_OR_RETURN(const auto compared,
                            CompareNetworkOutputs(reference, named, tolerance));
  return 1 - ShareGone(error, ErrorOf(compared));
}

absl::StatusOr<double> WrongOutputs::ShareLeftIn(
    const std::vector<NamedTensor>& outputs) const {
  std::vector<NDArray> tensors;
  for (const size_t head : heads) tensors.push_back(outputs[head].tensor);
  return ShareLeft(std::move(tensors));
}

}  // namespace nodewise
