#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/align/alike_values.h"
#include "contrib/align/precision.h"
#include "contrib/align/tensor_match.h"
#include "nodewise/align/alignment.h"
#include "nodewise/align/followed_reference.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// The things that are examined; all of them outlive the walk.
struct WalkScene {
  const GraphIndex& index;
  const Network& network;
  absl::Span<const RecordedPair> pairs;
  const Alignment& alignment;
};

// The findings of a walk about an entry.
struct WalkedEntry {
  // It holds these tensors of the network, as the network makes them of what
  // the graph's own nodes have made before.
  std::vector<HeldTensor> tensors;
  // It should hold the value, and does not: GraphWalk::Blame() was called for
  // it.
  bool is_blamed = false;
  // It holds the value, though only what is behind it has shown that.
  bool is_accepted = false;
  double distance = 0;  // From the nearest of them.
  // The nearest tensor that is too far away to be the same and near enough to
  // be known again.
  std::optional<EntryMatch> nearest;
  // The tensors of the network that a reader of the entry depends on: its own,
  // or where it has none those of what its node reads.
  std::vector<ValueId> sources;

  bool is_explained() const { return !tensors.empty(); }
  bool Holds(ValueId id) const {
    return std::any_of(
        tensors.begin(), tensors.end(),
        [id](const HeldTensor& tensor) { return tensor.value == id; });
  }
  // Says that it holds these, and that its readers depend on no others.
  void Explain(std::vector<HeldTensor> held) {
    tensors = std::move(held);
    sources.clear();
    for (const HeldTensor& tensor : tensors) sources.push_back(tensor.value);
  }
};

// Goes through a compiled graph node by node and explains what each has made by
// the network: as a tensor that the network makes of what was found before. So
// every node is judged on what it has read, and nodes behind a wrong one are
// judged like any other, once Blame() has been told which tensor the wrong one
// should have made. A copy may be used to try what follows from that.
class GraphWalk {
 public:
  // Fails as TensorSpool::Load().
  static absl::StatusOr<GraphWalk> Create(const WalkScene& scene);

  // Looks at all nodes from this one on. Fails as TensorSpool::Load().
  absl::Status ExplainFrom(uint32_t node);
  absl::Status ExplainNode(NodeId node);

  // Says that the entry should be this tensor in this layout, regardless of its
  // present numbers, and every other tensor that is made alike and that no
  // entry holds. It no longer holds what it held before; and another entry that
  // holds the tensor beside one that is made of the same numbers keeps that
  // one.
  absl::Status Blame(EntryId entry, ValueId value, const Layout& layout,
                     double distance);

  // Says that the entry is this tensor in this layout, and right. Likewise.
  absl::Status Accept(EntryId entry, ValueId value, const Layout& layout,
                      double distance);
  // Says that the entry is wrong and that it is unknown what it should be.
  // Entries that are made of it are not judged, unless they are explained all
  // the same.
  void GiveUp(EntryId entry);
  // Returns by entry whether it is behind one of these, and not explained.
  std::vector<bool> EntriesBehindUnknown() const;

  // Returns how far the entry may be from the value: CleanDistance() of the
  // types, or more where what the graph has read is more coarsely rounded.
  // Fails as TensorSpool::Load().
  absl::StatusOr<double> CleanDistanceOf(EntryId entry, ValueId value) const;

  // Forgets which tensors were found that depend on the value, so that
  // ExplainFrom() looks at them anew.
  void ReleaseBehind(ValueId id) { reference_.ReleaseBehind(id); }

  const WalkedEntry& entry(EntryId id) const { return entries_[Index(id)]; }
  FollowedReference& reference() { return reference_; }
  const FollowedReference& reference() const { return reference_; }
  bool IsPinned(ValueId id) const { return reference_.IsPinned(id); }
  // Returns the tensors that are held together with this one wherever it is
  // held, though neither is made of the other: branches of the network that
  // compute the same. Which of them an entry is, its numbers do not say. Empty
  // for a tensor that some entry holds without any of these.
  std::vector<ValueId> SharedWith(ValueId id) const;
  // Returns whether an entry that is not explained may be meant to hold it: no
  // entry does, or each that does holds another tensor as well that is not made
  // of it. The result that a node has changed by mistake may be such a tensor,
  // too.
  bool MayBeMeant(ValueId id) const;
  // Returns whether the entry holds nothing but what its node has read.
  bool IsIdle(EntryId id) const;
  // Returns the entries that hold it.
  std::vector<EntryId> HoldersOf(ValueId id) const;
  // Returns whether something of the wrong size was blamed, so that tensors may
  // have other shapes than the network says.
  bool HasOtherShapes() const { return has_other_shapes_; }
  // Returns by entry whether nothing is wrong with it: it is explained, does
  // not depend on inputs, or is only something on the way to entries that are
  // fine.
  std::vector<bool> FineEntries() const;
  // Returns whether it holds what an operation makes without an optional input.
  bool IsSoundPart(EntryId id) const;
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
  // Compares the entry with what it may hold. The nearest match comes first.
  absl::StatusOr<std::vector<EntryMatch>> Compare(
      const TensorMatcher& matcher, const std::vector<ValueId>& candidates);
  // Explains an entry that is a part of a tensor, or has tensors as parts.
  absl::Status ExplainByParts(EntryId entry, const TensorMatcher& matcher);
  // Returns whether the entry is as near to what it should hold as rounding
  // allows.
  absl::StatusOr<bool> IsSound(EntryId entry, const TensorMatcher& matcher,
                               const EntryMatch& match);
  // Returns whether the entry differs by no more than the value itself does
  // when the numbers that it is made of are moved a little.
  absl::StatusOr<bool> IsWithinRounding(const TensorMatcher& matcher,
                                        const EntryMatch& match,
                                        double roundoff);
  absl::StatusOr<double> RoundoffOf(EntryId entry, ValueId value) const;
  // Returns the integers or truth values that the entry has but for some that
  // rounding may decide.
  absl::StatusOr<std::optional<EntryMatch>> DiscreteMatch(
      EntryId entry, const TensorMatcher& matcher,
      const std::vector<ValueId>& sources);
  std::vector<ValueId> CandidatesFor(EntryId entry,
                                     const std::vector<ValueId>& sources) const;
  absl::Status PinTo(EntryId entry, const EntryMatch& match);
  // Takes what this entry holds away from it, and the value from every entry
  // that holds it beside others.
  absl::Status MakeFree(EntryId entry, ValueId value);
  // Unpins the value if no entry holds it any more.
  void Forsake(ValueId id);
  void MarkChanged(ValueId value);

  WalkScene scene_;
  // Shared by copies: it does not depend on what was found before.
  std::shared_ptr<GraphPrecision> precision_;
  std::shared_ptr<const AlikeValues> alike_;  // Likewise.
  FollowedReference reference_;
  std::vector<WalkedEntry> entries_;
  bool has_other_shapes_ = false;
  // By value: it depends on what was blamed, so that it is not what the
  // alignment has compared.
  std::vector<bool> is_changed_;
  // By value: it was pinned to quantised numbers.
  std::vector<bool> is_fitted_;
};

}  // namespace nodewise
