#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/align/followed_reference.h"
#include "contrib/align/tensor_match.h"
#include "nodewise/align/alignment.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// What is examined; all of it outlives the walk.
struct WalkScene {
  const GraphIndex& index;
  const Network& network;
  absl::Span<const RecordedPair> pairs;
  const Alignment& alignment;
};

// What a walk has found out about an entry.
struct WalkedEntry {
  // It holds these tensors of the network, as the network makes them of what
  // the graph's own nodes have made before.
  std::vector<ValueId> values;
  std::vector<Layout> layouts;  // Of these.
  // It should hold the value, and does not: somebody has decided so.
  bool is_blamed = false;
  double distance = 0;  // From the nearest of them.
  // The nearest tensor that is too far away to be the same and near enough to
  // be known again.
  std::optional<EntryMatch> nearest;
  // The tensors of the network that whoever reads the entry depends on: its
  // own, or where it has none those of what its node reads.
  std::vector<ValueId> sources;

  bool is_explained() const { return !values.empty(); }
};

// Goes through a compiled graph node by node and explains what each has made
// by the network: as a tensor that the network makes of what was found before.
// So every node is judged on what it has read, and nodes behind a wrong one are
// judged like any other, once somebody has said which tensor the wrong one
// should have made (Blame()). A copy may be used to try what follows from that.
class GraphWalk {
 public:
  // Fails as TensorSpool::Load().
  static absl::StatusOr<GraphWalk> Create(const WalkScene& scene);

  // Looks at all nodes from this one on. Fails as TensorSpool::Load().
  absl::Status ExplainFrom(uint32_t node);
  absl::Status ExplainNode(NodeId node);

  // Says that the entry should be this tensor in this layout, whatever it is.
  absl::Status Blame(EntryId entry, ValueId value, const Layout& layout,
                     double distance);

  const WalkedEntry& entry(EntryId id) const { return entries_[Index(id)]; }
  FollowedReference& reference() { return reference_; }
  const FollowedReference& reference() const { return reference_; }
  bool IsPinned(ValueId id) const { return reference_.IsPinned(id); }
  // Returns by entry whether nothing is wrong with it: it is explained, does
  // not depend on inputs, or is only something on the way to entries that are
  // fine.
  std::vector<bool> FineEntries() const;
  // Returns what a node reads, as tensors of the network.
  std::vector<ValueId> SourcesOf(NodeId node) const;
  // Returns the tensors that the network makes of some, the nearest first, as
  // far as they are few operations away.
  std::vector<ValueId> ReachableFrom(const std::vector<ValueId>& sources) const;
  // Returns the entry's numbers; none if it was not recorded.
  absl::StatusOr<std::optional<TensorMatcher>> Read(EntryId entry) const;

 private:
  GraphWalk(const WalkScene& scene, FollowedReference reference);

  absl::Status ExplainEntry(EntryId entry, const std::vector<ValueId>& sources);
  std::vector<ValueId> CandidatesFor(EntryId entry,
                                     const std::vector<ValueId>& sources) const;
  bool IsSoundPart(EntryId id) const;
  absl::Status PinTo(EntryId entry, const EntryMatch& match);

  WalkScene scene_;
  FollowedReference reference_;
  std::vector<WalkedEntry> entries_;
  // By value: it depends on what was blamed, so that it is not what the
  // alignment has compared.
  std::vector<bool> is_changed_;
};

// How far two tensors may be apart that are made of the same numbers by one or
// a few operations, if both are right: the largest difference over the largest
// number.
double CleanDistance(DLDataType source, DLDataType compiled);

// Puts the elements of a compiled tensor into the order of the network's.
absl::StatusOr<NDArray> UndoLayout(const Layout& layout,
                                   const NDArray& compiled,
                                   absl::Span<const int64_t> shape,
                                   DLDataType dtype);

}  // namespace nodewise
