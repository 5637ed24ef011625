#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_index.h"

namespace nodewise {

// Which entries hold their values in the course of a pass over the graph: what
// has been computed, and which entry's value lies in each slot of storage.
class Liveness {
 public:
  // `is_in_slot` says whether an entry lies in the slot that the plan gives it,
  // or in memory of the caller's. All of these must outlive the object.
  Liveness(const GraphIndex& index, std::function<bool(EntryId)> is_in_slot);

  // No entry has a value.
  void Clear();
  // The outputs of the node have got their values, in place of what lay there.
  void MarkComputed(NodeId node);
  // The node failed: the contents of its outputs are undefined.
  void MarkLost(NodeId node);
  // A base entry has got its value where it is now, and not from a node.
  void SetValue(EntryId base);
  // A base entry lies in memory that does not hold its value, and so do the
  // entries that are the same tensor.
  void DropValue(EntryId base);

  bool IsLive(EntryId entry) const;
  // OK if the entry is live; else kFailedPrecondition that says which node will
  // compute it or has written over it. REQUIRES: the graph has the entry.
  absl::Status Check(EntryId entry) const;
  // The base entry whose value lies in the slot of this one, if any.
  std::optional<EntryId> OwnerOfSlot(EntryId entry) const;

 private:
  static constexpr uint32_t kNoOwner = UINT32_MAX;

  uint32_t SlotOf(EntryId entry) const { return plan_.slot_of[Index(entry)]; }

  const GraphIndex& index_;
  const Graph& graph_;
  const StoragePlan& plan_;
  const std::function<bool(EntryId)> is_in_slot_;
  std::vector<uint32_t> owner_;  // By slot: a base entry, or kNoOwner.
  ByEntry<bool> computed_;
};

}  // namespace nodewise
