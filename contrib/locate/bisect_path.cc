#include "contrib/locate/bisect_path.h"

#include <algorithm>

namespace nodewise {
namespace {

bool IsLiveAtAny(size_t from, size_t to, const std::vector<size_t>& cuts) {
  const auto found = std::lower_bound(cuts.begin(), cuts.end(), from);
  return found != cuts.end() && *found <= to;
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

}  // namespace

BisectPath::BisectPath(const GraphIndex& index,
                       const std::vector<size_t>& heads)
    : index_(&index) {
  const Graph& graph = index.graph();
  for (const size_t head : heads) {
    outputs_.push_back(graph.EntryOf(graph.heads[head]));
  }
  FindNodes();
  FindLive();
}

void BisectPath::FindNodes() {
  const Graph& graph = index_->graph();
  ByNode<bool> is_needed(graph);
  for (const EntryId entry : outputs_) is_needed[index_->NodeOf(entry)] = true;
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    if (!is_needed[NodeId{static_cast<uint32_t>(n)}]) continue;
    for (const EntryRef& ref : graph.nodes[n].inputs) {
      is_needed[NodeId{ref.node}] = true;
    }
  }
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    if (!is_needed[NodeId{n}]) continue;
    if (graph.IsFunction(NodeId{n})) {
      nodes_.push_back(NodeId{n});
    } else {
      given_.push_back(graph.EntryOf(NodeId{n}, 0));
    }
  }
}

void BisectPath::FindLive() {
  const Graph& graph = index_->graph();
  ByEntry<size_t> last_cut(graph);  // 0: no cut needs it.
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (const EntryRef& ref : graph.node(nodes_[i]).inputs) {
      last_cut[graph.EntryOf(ref)] = i;
    }
  }
  for (const EntryId entry : outputs_) last_cut[entry] = nodes_.size();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (uint32_t slot = 0; slot < graph.OutputsOf(nodes_[i]); ++slot) {
      const EntryId entry = graph.EntryOf(nodes_[i], slot);
      if (last_cut[entry] <= i) continue;
      live_.push_back({entry, i + 1, last_cut[entry]});
    }
  }
}

std::vector<EntryId> BisectPath::LiveAt(size_t cut) const {
  return LiveAtAny({cut});
}

std::vector<EntryId> BisectPath::LiveAtAny(
    const std::vector<size_t>& cuts) const {
  std::vector<EntryId> entries;
  for (const Live& live : live_) {
    if (IsLiveAtAny(live.from, live.to, cuts)) entries.push_back(live.entry);
  }
  return entries;
}

size_t BisectPath::BytesAtAny(const std::vector<size_t>& cuts) const {
  size_t bytes = 0;
  for (const EntryId entry : LiveAtAny(cuts)) bytes += index_->BytesOf(entry);
  return bytes;
}

std::vector<size_t> BisectPath::CutsBetween(size_t low, size_t high,
                                            size_t most_bytes) const {
  std::vector<size_t> cuts;
  for (size_t depth = 1; cuts.size() < high - low - 1; ++depth) {
    std::vector<size_t> deeper;
    AddMiddles(low, high, depth, &deeper);
    if (depth > 1 && BytesAtAny(deeper) > most_bytes) break;
    cuts = std::move(deeper);
  }
  return cuts;
}

}  // namespace nodewise
