#include "contrib/align/blame_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// A compiler takes one operation apart into fewer nodes than this.
constexpr size_t kMostEntries = 6;
constexpr size_t kMostValues = 32;
constexpr size_t kMostWrongSizes = 8;
constexpr size_t kMostLayouts = 3;
// How many explained, and how many unexplained, nodes behind the entry are
// looked at. One operation may be this many nodes.
constexpr size_t kMostExplained = 8;
constexpr size_t kMostUnexplained = 12;

// The function nodes that depend on an entry, in the graph's order.
class Followers {
 public:
  Followers(const GraphIndex& index, EntryId entry) : index_(index) {
    AddReadersOf(entry);
  }

  std::optional<NodeId> Next() {
    if (waiting_.empty()) return std::nullopt;
    const NodeId node = *waiting_.begin();
    waiting_.erase(waiting_.begin());
    for (uint32_t output = 0; output < index_.graph().OutputsOf(node);
         ++output) {
      AddReadersOf(index_.graph().EntryOf(node, output));
    }
    return node;
  }

 private:
  void AddReadersOf(EntryId entry) {
    for (const NodeId reader : index_.ReadersOf(entry)) {
      waiting_.insert(reader);
    }
  }

  const GraphIndex& index_;
  std::set<NodeId> waiting_;
};

class BlameSearcher {
 public:
  BlameSearcher(const WalkScene& scene, const GraphWalk& walk,
                const TimeLimit& limit)
      : scene_(scene),
        graph_(scene.index.graph()),
        walk_(walk),
        fine_(walk.FineEntries()),
        limit_(limit) {}

  // The tensors that the entry may be meant to be: up to `most`, each in a few
  // layouts.
  absl::StatusOr<std::vector<Guess>> Guesses(EntryId entry, size_t most) {
    std::vector<Guess> guesses;
    NODEWISE_ASSIGN_OR_RETURN(const auto matcher, walk_.Read(entry));
    if (!matcher.has_value()) return guesses;
    const auto& nearest = walk_.entry(entry).nearest;
    if (nearest.has_value() && nearest->layout.cut.has_value()) {
      guesses.push_back({entry, nearest->value, nearest->layout});
    }
    GraphWalk probe = walk_;
    size_t tried = 0;
    for (const ValueId id : ValuesFor(entry)) {
      if (!MayLieIn(entry, id)) continue;
      if (IsTimeOver()) break;
      const auto value = probe.reference().ValueOf(id);
      // A value that cannot be computed, or has no numbers, was not meant.
      if (!value.ok() || !(*value)->facts.stats.back().has_numbers) continue;
      const std::vector<Layout> layouts = matcher->LikelyLayouts(
          (*value)->facts, (*value)->tensors, kMostLayouts);
      for (const Layout& layout : layouts)
        guesses.push_back({entry, id, layout});
      if (!layouts.empty() && ++tried == most) break;
    }
    return guesses;
  }

  // Makes guesses for an entry whose size is not that of the tensor that it is
  // meant to be.
  absl::StatusOr<std::vector<Guess>> GuessesOfWrongSize(EntryId entry,
                                                        size_t most) {
    std::vector<Guess> guesses;
    GraphWalk probe = walk_;
    size_t tried = 0;
    for (const ValueId id : ValuesFor(entry)) {
      if (!MayBeOfWrongSize(entry, id)) continue;
      if (IsTimeOver()) break;
      const auto value = probe.reference().ValueOf(id);
      if (!value.ok() || !(*value)->facts.stats.back().has_numbers) continue;
      const std::vector<Layout> layouts =
          LayoutsOfWrongSize((*value)->facts.shape, graph_.entry(entry).shape);
      for (const Layout& layout : layouts) {
        guesses.push_back({entry, id, layout});
      }
      if (!layouts.empty() && ++tried == most) break;
    }
    return guesses;
  }

  absl::StatusOr<BlameFound> Run(NodeId suspect) {
    for (const EntryId entry : SuspectEntries(suspect)) {
      NODEWISE_RETURN_IF_ERROR(TryEntry(entry));
      if (IsSettled() || IsTimeOver()) break;
      tried_.push_back(entry);
    }
    if (best_.has_value()) {
      NODEWISE_RETURN_IF_ERROR(GoOn());
      NODEWISE_RETURN_IF_ERROR(FindAlike());
    }
    return BlameFound{std::move(best_), gave_up_};
  }

 private:
  bool IsTimeOver() {
    gave_up_ = gave_up_ || limit_.IsOver();
    return gave_up_;
  }

  // The sizes of a tensor, if these are known before it is computed.
  std::optional<std::vector<int64_t>> SizesOf(ValueId id) const {
    if (walk_.HasOtherShapes()) return std::nullopt;
    return scene_.network.value(id).type.sizes();
  }

  // Whether the entry has the size of the tensor, or may have it.
  bool MayLieIn(EntryId entry, ValueId id) const {
    const auto sizes = SizesOf(id);
    bool fits = !sizes.has_value();
    if (!fits) {
      VisitLayouts(*sizes, graph_.entry(entry).shape, [&](const Layout&) {
        fits = true;
        return false;
      });
    }
    return fits;
  }

  bool MayBeOfWrongSize(EntryId entry, ValueId id) const {
    const auto sizes = SizesOf(id);
    return !sizes.has_value() ||
           !LayoutsOfWrongSize(*sizes, graph_.entry(entry).shape).empty();
  }

  // The suspect's entries that are not fine, and those made of them.
  std::vector<EntryId> SuspectEntries(NodeId suspect) const {
    std::vector<NodeId> nodes = {suspect};
    std::vector<EntryId> entries;
    for (size_t i = 0; i < nodes.size() && entries.size() < kMostEntries; ++i) {
      for (uint32_t output = 0; output < graph_.OutputsOf(nodes[i]); ++output) {
        const EntryId entry = graph_.EntryOf(nodes[i], output);
        if (fine_[Index(entry)]) continue;
        entries.push_back(entry);
        for (const NodeId reader : scene_.index.ReadersOf(entry)) {
          if (std::find(nodes.begin(), nodes.end(), reader) == nodes.end()) {
            nodes.push_back(reader);
          }
        }
      }
    }
    return entries;
  }

  // The output of the network that the entry is by its place; kNoValue if none.
  ValueId OutputAt(EntryId entry) const {
    // Without what is opaque, a network has other outputs.
    if (graph_.heads.size() != scene_.network.outputs().size() ||
        !scene_.alignment.open.empty()) {
      return kNoValue;
    }
    for (size_t i = 0; i < graph_.heads.size(); ++i) {
      if (graph_.EntryOf(graph_.heads[i]) == entry) {
        return scene_.network.outputs()[i];
      }
    }
    return kNoValue;
  }

  std::vector<ValueId> ValuesFor(EntryId entry) const {
    std::vector<ValueId> values;
    const auto add = [&](ValueId id) {
      if (id != kNoValue && walk_.MayBeMeant(id) &&
          std::find(values.begin(), values.end(), id) == values.end()) {
        values.push_back(id);
      }
    };
    const auto& nearest = walk_.entry(entry).nearest;
    if (nearest.has_value()) add(nearest->value);
    add(OutputAt(entry));
    const NodeId node = scene_.index.NodeOf(entry);
    const std::vector<ValueId> sources = walk_.SourcesOf(node);
    for (const ValueId id : walk_.ReachableFrom(sources)) {
      // A branch that is alike to one that the node reads is not made of it.
      const bool is_read =
          std::find(sources.begin(), sources.end(), id) != sources.end();
      if (!is_read || walk_.SharedWith(id).empty()) add(id);
    }
    return values;
  }

  absl::Status TryEntry(EntryId entry) {
    NODEWISE_ASSIGN_OR_RETURN(std::vector<Guess> guesses,
                              Guesses(entry, kMostValues));
    NODEWISE_RETURN_IF_ERROR(TryAll(std::move(guesses)));
    if (IsSettled()) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(guesses,
                              GuessesOfWrongSize(entry, kMostWrongSizes));
    return TryAll(std::move(guesses));
  }

  // Until one explains all there is.
  absl::Status TryAll(std::vector<Guess> guesses) {
    for (Guess& guess : guesses) {
      if (IsSettled() || IsTimeOver()) break;
      NODEWISE_RETURN_IF_ERROR(Try(std::move(guess)));
    }
    return absl::OkStatus();
  }

  // Tensors that are held together with the one that was found.
  absl::Status FindAlike() {
    const std::vector<ValueId> shared = walk_.SharedWith(best_->value);
    const Guess found = *best_;
    std::vector<ValueId> alike;
    for (const ValueId id : shared) {
      best_.reset();
      NODEWISE_RETURN_IF_ERROR(Try({found.entry, id, found.layout}));
      if (best_.has_value() && best_->share >= found.share) {
        alike.push_back(id);
      }
    }
    best_ = found;
    best_->alike = std::move(alike);
    return absl::OkStatus();
  }

  // What an operation makes of the wrong numbers may be these again (a Relu of
  // what is positive), and then the nodes behind are right with its result just
  // as well. The later tensor is taken: the fault is before it. Many operations
  // make zeros of zeros, so if the entry holds one number alone, only
  // operations that read nothing else are gone through.
  absl::Status GoOn() {
    constexpr int kMostSteps = 4;
    for (int step = 0; step < kMostSteps; ++step) {
      const ValueId from = best_->value;
      NODEWISE_ASSIGN_OR_RETURN(const auto matcher, walk_.Read(best_->entry));
      if (!matcher.has_value()) return absl::OkStatus();
      const bool is_one_number = matcher->IsOneNumber();
      for (const ValueId id : walk_.ReachableFrom({from})) {
        if (best_->value != from) break;
        if (IsMadeOf(id, from, is_one_number)) {
          NODEWISE_RETURN_IF_ERROR(TryInstead(*matcher, id));
        }
      }
      if (best_->value == from) return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  bool IsMadeOf(ValueId id, ValueId from, bool of_that_alone) const {
    const NetworkValue& value = scene_.network.value(id);
    if (value.kind != NetworkValue::Kind::kOutput || !walk_.MayBeMeant(id)) {
      return false;
    }
    const std::vector<ValueId>& inputs =
        scene_.network.operation(value.producer).inputs;
    return std::find(inputs.begin(), inputs.end(), from) != inputs.end() &&
           (!of_that_alone || inputs.size() == 1);
  }

  // Takes this tensor if it explains as much. One that is only in another order
  // says nothing more.
  absl::Status TryInstead(const TensorMatcher& matcher, ValueId id) {
    FollowedReference reference = walk_.reference();
    const auto now = reference.ValueOf(best_->value);
    const auto next = reference.ValueOf(id);
    if (!now.ok() || !next.ok() || !(*next)->facts.stats.back().has_numbers ||
        HaveSameNumbers((*now)->facts, (*next)->facts)) {
      return absl::OkStatus();
    }
    const double share = best_->share;
    const size_t idle = best_->idle;
    const std::optional<Guess> before = std::exchange(best_, std::nullopt);
    for (const Layout& layout : matcher.LikelyLayouts(
             (*next)->facts, (*next)->tensors, kMostLayouts)) {
      NODEWISE_RETURN_IF_ERROR(Try({before->entry, id, layout}));
    }
    // Nodes that only hand on what they read with the new guess did something
    // with the earlier one.
    if (!best_.has_value() || best_->share < share || best_->idle > idle) {
      best_ = before;
    }
    return absl::OkStatus();
  }

  // Sums in another order round otherwise.
  static bool HaveSameNumbers(const TensorFacts& a, const TensorFacts& b) {
    constexpr double kSame = 1e-9;
    const TensorStats& one = a.stats.back();
    const TensorStats& other = b.stats.back();
    return one.elements == other.elements && one.max == other.max &&
           one.min == other.min &&
           std::fabs(one.l2 - other.l2) <= kSame * one.l2;
  }

  bool IsSettled() const { return best_.has_value() && best_->share >= 1; }

  absl::Status Try(Guess guess) {
    GraphWalk trial = walk_;
    NODEWISE_RETURN_IF_ERROR(
        trial.Blame(guess.entry, guess.value, guess.layout,
                    std::numeric_limits<double>::infinity()));
    NODEWISE_RETURN_IF_ERROR(BlameOthers(guess, &trial));
    NODEWISE_ASSIGN_OR_RETURN(const Explained behind,
                              ExplainFollowers(guess.entry, &trial));
    guess.idle = behind.idle;
    size_t explained = behind.right;
    size_t looked = behind.right + behind.wrong + PassedOverBefore(guess.entry);
    if (OutputAt(guess.entry) != kNoValue) {
      ++looked;
      if (OutputAt(guess.entry) == guess.value) ++explained;
    }
    guess.share = looked == 0 ? 0
                              : static_cast<double>(explained) /
                                    static_cast<double>(looked);
    if (guess.share > (best_.has_value() ? best_->share : 0)) {
      best_ = std::move(guess);
    }
    return absl::OkStatus();
  }

  // Nodes that are on the way to those that are right are neither.
  struct Explained {
    size_t right = 0;
    size_t wrong = 0;
    size_t idle = 0;  // How many of the right ones are idle.
  };

  absl::StatusOr<Explained> ExplainFollowers(EntryId entry,
                                             GraphWalk* trial) const {
    Explained explained;
    std::vector<NodeId> open;
    Followers followers(scene_.index, entry);
    while (explained.right < kMostExplained && open.size() < kMostUnexplained) {
      const std::optional<NodeId> node = followers.Next();
      if (!node.has_value()) break;
      NODEWISE_RETURN_IF_ERROR(trial->ExplainNode(*node));
      const EntryId first = graph_.EntryOf(*node, 0);
      if (!trial->entry(first).is_explained()) {
        open.push_back(*node);
        continue;
      }
      ++explained.right;
      if (trial->IsIdle(first)) ++explained.idle;
    }
    if (explained.right == 0) return Explained{0, open.size(), 0};
    const std::vector<bool> fine = trial->FineEntries();
    for (const NodeId node : open) {
      if (!fine[Index(graph_.EntryOf(node, 0))]) ++explained.wrong;
    }
    return explained;
  }

  // The nodes of those that were tried before stay unexplained if the entry is
  // the one that is wrong.
  size_t PassedOverBefore(EntryId entry) const {
    std::set<NodeId> nodes;
    for (const EntryId before : tried_) {
      if (before == entry) break;
      nodes.insert(scene_.index.NodeOf(before));
    }
    return nodes.size();
  }

  // A node that makes all outputs of one operation may make more than one of
  // them wrong.
  absl::Status BlameOthers(const Guess& guess, GraphWalk* trial) const {
    const NodeId node = scene_.index.NodeOf(guess.entry);
    const NetworkValue& value = scene_.network.value(guess.value);
    const uint32_t count = graph_.OutputsOf(node);
    if (count < 2 || value.kind != NetworkValue::Kind::kOutput ||
        value.slot != scene_.index.OutputOf(guess.entry)) {
      return absl::OkStatus();
    }
    const std::vector<ValueId>& outputs =
        scene_.network.operation(value.producer).outputs;
    for (uint32_t output = 0; output < count && count == outputs.size();
         ++output) {
      const EntryId other = graph_.EntryOf(node, output);
      const ValueId id = outputs[output];
      if (fine_[Index(other)] || other == guess.entry || id == kNoValue ||
          !trial->MayBeMeant(id) ||
          scene_.network.value(id).type.sizes() != graph_.entry(other).shape) {
        continue;
      }
      const std::vector<int64_t>& shape = graph_.entry(other).shape;
      NODEWISE_RETURN_IF_ERROR(
          trial->Blame(other, id, Layout::SameOrder(shape, shape),
                       std::numeric_limits<double>::infinity()));
    }
    return absl::OkStatus();
  }

  const WalkScene& scene_;
  const Graph& graph_;
  const GraphWalk& walk_;
  const std::vector<bool> fine_;
  const TimeLimit limit_;
  bool gave_up_ = false;
  std::optional<Guess> best_;
  std::vector<EntryId> tried_;  // Entries of which no guess explains all.
};

}  // namespace

std::optional<NodeId> FirstSuspect(const WalkScene& scene,
                                   const GraphWalk& walk) {
  const Graph& graph = scene.index.graph();
  const std::vector<bool> fine = walk.FineEntries();
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    for (uint32_t e = graph.node_row_ptr[n]; e < graph.node_row_ptr[n + 1];
         ++e) {
      if (!fine[e]) return NodeId{n};
    }
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<Guess>> FindNearMiss(const WalkScene& scene,
                                                  const GraphWalk& walk) {
  // Those behind it are so much nearer if it is what it seems to be.
  constexpr double kTimesNearer = 4;
  constexpr size_t kMostLookedAt = 8;
  const Graph& graph = scene.index.graph();
  const std::vector<bool> fine = walk.FineEntries();
  for (uint32_t e = 0; e < graph.entries.size(); ++e) {
    const WalkedEntry& walked = walk.entry(EntryId{e});
    if (!fine[e] || walked.is_explained() || !walked.nearest.has_value() ||
        walk.IsPinned(walked.nearest->value)) {
      continue;
    }
    Guess guess{EntryId{e}, walked.nearest->value, walked.nearest->layout,
                walked.nearest->distance, 1};
    GraphWalk trial = walk;
    NODEWISE_RETURN_IF_ERROR(
        trial.Blame(guess.entry, guess.value, guess.layout, guess.distance));
    double before = 0;
    double after = 0;
    Followers followers(scene.index, EntryId{e});
    for (size_t i = 0; i < kMostLookedAt; ++i) {
      const std::optional<NodeId> node = followers.Next();
      if (!node.has_value()) break;
      NODEWISE_RETURN_IF_ERROR(trial.ExplainNode(*node));
      const EntryId first = graph.EntryOf(*node, 0);
      if (!walk.entry(first).is_explained()) continue;
      before = std::max(before, walk.entry(first).distance);
      after = std::max(after, trial.entry(first).is_explained()
                                  ? trial.entry(first).distance
                                  : std::numeric_limits<double>::infinity());
    }
    if (kTimesNearer * after < before) return guess;
  }
  return std::nullopt;
}

absl::StatusOr<BlameFound> SearchBlame(const WalkScene& scene,
                                       const GraphWalk& walk, NodeId suspect,
                                       const TimeLimit& limit) {
  return BlameSearcher(scene, walk, limit).Run(suspect);
}

absl::StatusOr<std::vector<Guess>> GuessesFor(const WalkScene& scene,
                                              const GraphWalk& walk,
                                              EntryId entry, size_t most,
                                              const TimeLimit& limit) {
  BlameSearcher searcher(scene, walk, limit);
  NODEWISE_ASSIGN_OR_RETURN(std::vector<Guess> guesses,
                            searcher.Guesses(entry, most));
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<Guess> of_wrong_size,
                            searcher.GuessesOfWrongSize(entry, most));
  guesses.insert(guesses.end(), of_wrong_size.begin(), of_wrong_size.end());
  return guesses;
}

}  // namespace nodewise
