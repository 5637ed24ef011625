#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "nodewise/debug/run_observer.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Which entries hold their values in the course of a pass over the graph: what
// has been computed, and which entry's value lies in each slot of storage.
class Liveness {
 public:
  // `is_in_slot` says whether an entry lies in the slot that the plan gives it,
  // or in memory of the caller's. All of these must outlive the object.
  Liveness(const GraphIndex& index, std::function<bool(EntryId)> is_in_slot)
      : index_(index),
        graph_(index.graph()),
        plan_(index.plan()),
        is_in_slot_(std::move(is_in_slot)),
        owner_(plan_.slots.size(), kNoOwner),
        computed_(graph_) {}

  // No entry has a value.
  void Clear() {
    std::fill(owner_.begin(), owner_.end(), kNoOwner);
    std::fill(computed_.begin(), computed_.end(), false);
  }
  // The outputs of the node have got their values, in place of what lay there.
  void MarkComputed(NodeId node);
  // The node failed: the contents of its outputs are undefined.
  void MarkLost(NodeId node);
  // A base entry has got its value where it is now, and not from a node.
  void SetValue(EntryId base) {
    computed_[base] = true;
    if (is_in_slot_(base)) owner_[SlotOf(base)] = Index(base);
  }
  // A base entry lies in memory that does not hold its value, and so do the
  // entries that are the same tensor.
  void DropValue(EntryId base);

  bool IsLive(EntryId entry) const {
    if (!computed_[entry]) return false;
    const EntryId base = index_.BaseOf(entry);
    return !is_in_slot_(base) || owner_[SlotOf(base)] == Index(base);
  }
  // OK if the entry is live; else kFailedPrecondition that says which node will
  // compute it or has written over it. REQUIRES: the graph has the entry.
  absl::Status Check(EntryId entry) const;
  // The base entry whose value lies in the slot of this one, if any.
  std::optional<EntryId> OwnerOfSlot(EntryId entry) const {
    const uint32_t owner = owner_[SlotOf(entry)];
    if (owner == kNoOwner) return std::nullopt;
    return EntryId{owner};
  }

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

// Contents that entries are given in place of what their nodes make. A patch
// belongs to a base entry: entries that are the same tensor have one in common.
class Patches {
 public:
  // The executor of the run must outlive the object.
  explicit Patches(RunView run)
      : run_(run), index_(run.index()), graph_(run.graph()) {}

  bool empty() const { return patches_.empty(); }
  size_t size() const { return patches_.size(); }
  void Clear() { patches_.clear(); }
  // Takes the place of an earlier patch of the entry.
  void Set(EntryId base, NDArray contents);

  bool Has(EntryId entry) const { return Find(entry) != nullptr; }
  // Whether all outputs of the node are patched: it need not be called.
  bool Replace(NodeId node) const;

  // Writes the patch of a base entry, or those of all the node's outputs, to
  // where they lie. REQUIRES: the base entry has one.
  absl::Status WriteEntry(EntryId base) const;
  absl::Status WriteOutputs(NodeId node) const;

  // Whether a node before `end` reads, near or far, what a patch changed.
  ByNode<bool> Dependents(NodeId end) const;

 private:
  struct Patch {
    EntryId base;
    NDArray contents;
  };

  // Returns the patch of the entry's tensor, or null.
  const Patch* Find(EntryId entry) const;
  absl::Status Write(const Patch& patch) const;

  const RunView run_;
  const GraphIndex& index_;
  const Graph& graph_;
  std::vector<Patch> patches_;
};

}  // namespace nodewise
