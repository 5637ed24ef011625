// The verdicts of a walk: which entries are fine, and about which nothing can
// be said.

#include <algorithm>
#include <set>
#include <vector>

#include "contrib/align/graph_walk.h"
#include "contrib/align/precision.h"

namespace nodewise {

std::vector<bool> GraphWalk::EntriesBehindUnknown() const {
  const Graph& graph = scene_.index.graph();
  std::vector<bool> behind(entries_.size());
  for (uint32_t e = 0; e < entries_.size(); ++e) {
    const WalkedEntry& walked = entries_[e];
    if (walked.is_explained()) continue;
    if (walked.is_blamed) behind[e] = true;
    const NodeId node = scene_.index.NodeOf(EntryId{e});
    for (const EntryRef& input : graph.node(node).inputs) {
      if (behind[Index(graph.EntryOf(input))]) behind[e] = true;
    }
  }
  return behind;
}

// A later node adds the rest of the operation, and a fault in that rest is the
// later node's.
bool GraphWalk::IsSoundPart(EntryId id) const {
  const AlignedEntry& entry = scene_.alignment.entries[Index(id)];
  if (entry.matches.empty()) return false;
  const EntryMatch& nearest = entry.matches.front();
  const DLDataType compiled = scene_.index.graph().entry(id).dtype;
  const DLDataType source = scene_.network.value(nearest.value).type.dtype;
  return nearest.without_input.has_value() &&
         !is_changed_[Index(nearest.value)] &&
         nearest.distance <= CleanDistance(source, compiled);
}

std::vector<bool> GraphWalk::FineEntries() const {
  const Graph& graph = scene_.index.graph();
  std::vector<bool> fine(entries_.size(), true);
  std::set<EntryId> heads;
  for (const EntryRef& head : graph.heads) heads.insert(graph.EntryOf(head));
  const std::vector<bool> behind = EntriesBehindUnknown();
  std::vector<bool> is_node_fine(graph.nodes.size(), true);
  for (size_t n = graph.nodes.size(); n > 0; --n) {
    const NodeId node{static_cast<uint32_t>(n - 1)};
    for (uint32_t output = 0; output < graph.OutputsOf(node); ++output) {
      const EntryId id = graph.EntryOf(node, output);
      const WalkedEntry& walked = entries_[Index(id)];
      if (!scene_.alignment.entries[Index(id)].varies ||
          walked.is_explained() || behind[Index(id)] || IsSoundPart(id)) {
        continue;
      }
      const absl::Span<const NodeId> readers = scene_.index.ReadersOf(id);
      // An entry that no node reads may be a second output that is not wanted.
      const bool is_last = heads.count(id) > 0;
      fine[Index(id)] =
          !is_last &&
          std::all_of(readers.begin(), readers.end(), [&](NodeId reader) {
            return is_node_fine[Index(reader)];
          });
      if (!fine[Index(id)]) is_node_fine[n - 1] = false;
    }
  }
  return fine;
}

}  // namespace nodewise
