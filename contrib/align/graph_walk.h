#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/align/align_limits.h"
#include "contrib/align/precision.h"
#include "contrib/align/tensor_match.h"
#include "nodewise/align/alignment.h"
#include "nodewise/align/followed_reference.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// A guess about what is wrong: this entry should hold this tensor.
struct Guess {
  EntryId entry{};
  ValueId value = kNoValue;
  Layout layout;
  double distance = kInfinity;  // From the entry, where it is known.
  // How many of the nodes behind the entry that were judged are explained then:
  // direct readers or not, the next kMostFollowers at most. 1 without counting
  // for a near miss or a misread tensor; 0 if only a change explains it.
  double share = 0;
  // How many of these hold nothing but what they read.
  size_t idle = 0;
  // Tensors of the network that are made of the same numbers, of which it may
  // be meant to be any just as well.
  std::vector<ValueId> alike = {};
  // It is an output whose shape is another one than the network's.
  bool has_output_shape = false;
  // The entry had been taken for another tensor, with all that is behind it.
  bool is_misread = false;
};

// The findings of a walk about an entry.
struct WalkedEntry {
  // The evidence for the tensors that it holds. A walk that comes by again
  // judges it anew only if it was by its numbers.
  enum class By {
    kNumbers,  // They are those of the tensors, or of none so far.
    // GraphWalk::Accept(): it holds the first tensor, though only what is
    // behind it has shown that.
    kAccepted,
    // GraphWalk::Blame(): it should hold the first tensor, and does not; or
    // GraphWalk::GiveUp(), if there are no tensors.
    kBlamed,
  };
  By by = By::kNumbers;
  // It holds these tensors of the network, as the network makes them of what
  // the graph's own nodes have made before; or should hold them.
  std::vector<HeldTensor> tensors;
  double distance = 0;  // From the nearest of them.
  // The nearest tensor that is too far away to be the same and near enough to
  // be known again.
  std::optional<EntryMatch> nearest;
  // The tensors of the network that a reader of the entry depends on: its own,
  // or where it has none those of what its node reads.
  std::vector<ValueId> sources;

  // It holds known tensors, or was blamed for not holding them.
  bool is_explained() const { return !tensors.empty(); }
  bool is_blamed() const { return by == By::kBlamed; }
  bool is_decided() const { return by != By::kNumbers; }
  bool IsDecidedAs(ValueId id) const {
    return is_decided() && tensors[0].value == id;
  }
  bool Holds(ValueId id) const {
    return std::ranges::find(tensors, id, &HeldTensor::value) != tensors.end();
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

  // Look at all nodes from `begin` on, or as far as the one before `end`, and
  // at one alone. Fail as TensorSpool::Load().
  absl::Status ExplainNodes(uint32_t begin, uint32_t end = UINT32_MAX);
  absl::Status ExplainNode(NodeId node);

  // Says that the guess is right, regardless of the entry's present numbers:
  // the entry should be this tensor, and every other one that is made alike and
  // that no entry holds. Its wrong numbers are pinned in the place of the
  // tensor, so that what lies behind is judged by them. It no longer holds what
  // it held before. Another entry that held the tensor together with an equal
  // one now holds only the equal one.
  absl::Status Blame(const Guess& guess);
  // Says that the entry is this tensor, and right. Likewise.
  absl::Status Accept(const Guess& guess);
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
  // ExplainNodes() looks at them anew.
  void UnpinDependents(ValueId id) { reference_.UnpinDependents(id); }

  const WalkScene& scene() const { return scene_; }
  const Graph& graph() const { return scene_.index.graph(); }
  const Network& network() const { return scene_.network; }
  const AlignedEntry& aligned(EntryId id) const {
    return scene_.alignment.entries[Index(id)];
  }
  const std::vector<int64_t>& ShapeOf(EntryId id) const {
    return graph().entry(id).shape;
  }
  NodeId NodeOf(EntryId id) const { return scene_.index.NodeOf(id); }
  absl::Span<const NodeId> ReadersOf(EntryId id) const {
    return scene_.index.ReadersOf(id);
  }
  // Returns whether a node makes the entry: it is not an input or a parameter.
  bool IsMade(EntryId id) const { return graph().IsFunction(NodeOf(id)); }
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
  bool MayBeIntended(ValueId id) const;
  // Returns whether the entry holds nothing but what its node has read.
  bool IsIdle(EntryId id) const;
  // Returns the entries that hold it.
  std::vector<EntryId> HoldersOf(ValueId id) const;
  // Returns whether something of the wrong size was blamed, so that tensors may
  // have other shapes than the network says.
  bool HasOtherShapes() const { return has_other_shapes_; }
  // Returns by entry whether nothing is left to find out about it: it is
  // explained or blamed with a tensor, does not depend on inputs, is behind one
  // that was given up or a sound part, or is only on the way to such entries.
  std::vector<bool> SettledEntries() const;
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
                                        ValueId value, const Layout& layout,
                                        double roundoff);
  absl::StatusOr<double> RoundoffOf(EntryId entry, ValueId value) const;
  // Returns the integers or truth values that the entry has but for some that
  // rounding may decide.
  absl::StatusOr<std::optional<HeldTensor>> DiscreteMatch(
      EntryId entry, const TensorMatcher& matcher,
      const std::vector<ValueId>& sources);
  std::vector<ValueId> CandidatesFor(EntryId entry,
                                     const std::vector<ValueId>& sources) const;
  // Puts the entry's numbers in the place of the tensor.
  absl::Status PinTo(EntryId entry, ValueId value, const Layout& layout);
  // Takes what this entry holds away from it, and the value from every entry
  // that holds it beside others.
  absl::Status UnassignEntry(EntryId entry, ValueId value);
  void UnpinIfNotHeld(ValueId id);
  void MarkChanged(ValueId value);

  WalkScene scene_;
  // Shared by copies: it does not depend on what was found before.
  std::shared_ptr<GraphPrecision> precision_;
  // By value: the others that are made alike. Likewise.
  std::shared_ptr<const std::vector<std::vector<ValueId>>> alike_;
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
