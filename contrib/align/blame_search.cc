// Which tensor a wrong entry should have held.
//
// Its numbers do not say it, but what was made of them does: the nodes behind a
// wrong entry have computed rightly, of its wrong numbers. So in a copy of the
// walk the entry's numbers are put into the reference in the place of each
// tensor that the network makes of what the node has read, in each likely
// layout; if that is the right tensor, the reference makes of them what the
// next nodes made. No compiled node runs again. The guess counts by the share
// of the next nodes that it explains. The
// suspect may be a part of an operation that the compiler took apart, of which
// only the last node makes a tensor of the network: so entries behind it that
// are unexplained as well are tried too, and the nodes that were passed over
// count against them.

#include "contrib/align/blame_search.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "contrib/align/network_walk.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

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
    for (const EntryId made : EntriesMadeBy(index_.graph(), node)) {
      AddReadersOf(made);
    }
    return node;
  }

 private:
  void AddReadersOf(EntryId entry) {
    const absl::Span<const NodeId> readers = index_.ReadersOf(entry);
    waiting_.insert(readers.begin(), readers.end());
  }

  const GraphIndex& index_;
  std::set<NodeId> waiting_;
};

struct BlameSearch {
  const GraphWalk& walk;
  const TimeLimit limit;
  const std::vector<bool> fine = walk.SettledEntries();
  // A copy of the walk's reference, which computes values that the walk has
  // not.
  FollowedReference reference = walk.reference();
  bool gave_up = false;
  std::optional<Guess> best = std::nullopt;
  std::vector<EntryId> tried = {};  // Entries of which no guess explains all.

  bool IsTimeOver() { return gave_up = gave_up || limit.IsOver(); }
  bool IsSettled() const { return best.has_value() && best->share >= 1; }
};

// The suspect's entries that are not fine, and those made of them.
std::vector<EntryId> SuspectEntries(const BlameSearch& search, NodeId suspect) {
  std::vector<NodeId> nodes = {suspect};
  std::vector<EntryId> entries;
  for (size_t i = 0; i < nodes.size() && entries.size() < kMostSuspectEntries;
       ++i) {
    for (const EntryId entry : EntriesMadeBy(search.walk.graph(), nodes[i])) {
      if (search.fine[Index(entry)]) continue;
      entries.push_back(entry);
      for (const NodeId reader : search.walk.ReadersOf(entry)) {
        if (!Contains(nodes, reader)) nodes.push_back(reader);
      }
    }
  }
  return entries;
}

// The output of the network that the entry is by its place; kNoValue if none.
ValueId OutputAt(const BlameSearch& search, EntryId entry) {
  for (const auto& [output, value] : PairedOutputs(search.walk)) {
    if (output == entry) return value;
  }
  return kNoValue;
}

// The tensors that the entry may be meant to be, the likeliest first: the one
// that it nearly is, the output in its place, and what is made of what its node
// reads.
std::vector<ValueId> ValuesFor(const BlameSearch& search, EntryId entry) {
  const GraphWalk& walk = search.walk;
  std::vector<ValueId> values;
  const auto add = [&](ValueId id) {
    if (id != kNoValue && walk.MayBeIntended(id) && !Contains(values, id)) {
      values.push_back(id);
    }
  };
  const auto& nearest = walk.entry(entry).nearest;
  if (nearest.has_value()) add(nearest->value);
  add(OutputAt(search, entry));
  const std::vector<ValueId> sources =
      walk.SourcesOf(search.walk.NodeOf(entry));
  for (const ValueId id : walk.ReachableFrom(sources)) {
    // A branch that is alike to one that the node reads is not made of it.
    if (!Contains(sources, id) || walk.SharedWith(id).empty()) add(id);
  }
  return values;
}

// Whether the entry has the size of the tensor, or has another one, as far as
// the sizes are known before the tensor is computed.
bool MayHaveSize(const BlameSearch& search, EntryId entry, ValueId id,
                 bool is_wrong) {
  if (search.walk.HasOtherShapes()) return true;
  const auto sizes = search.walk.network().value(id).type.sizes();
  if (!sizes.has_value()) return true;
  const std::vector<int64_t>& shape = search.walk.ShapeOf(entry);
  return is_wrong ? !LayoutsOfWrongSize(*sizes, shape).empty()
                  : MayFitShape(*sizes, shape);
}

// The guesses about the entry: up to `most` tensors, each in a few layouts. Or
// those for an entry whose size is not that of the tensor that it is meant to
// be.
FoundGuesses GuessesForEntry(BlameSearch& search, EntryId entry, size_t most,
                             bool of_wrong_size) {
  std::vector<Guess> guesses;
  std::optional<TensorMatcher> matcher;
  if (!of_wrong_size) {
    NODEWISE_ASSIGN_OR_RETURN(matcher, search.walk.Read(entry));
    if (!matcher.has_value()) return guesses;
    const auto& nearest = search.walk.entry(entry).nearest;
    if (nearest.has_value() && nearest->layout.cut.has_value()) {
      guesses.push_back({entry, nearest->value, nearest->layout});
    }
  }
  size_t tried = 0;
  for (const ValueId id : ValuesFor(search, entry)) {
    if (!MayHaveSize(search, entry, id, of_wrong_size)) continue;
    if (search.IsTimeOver()) break;
    const auto value = search.reference.ValueOf(id);
    // A value that cannot be computed, or has no numbers, was not meant.
    if (!value.ok() || !(*value)->facts.stats.back().has_numbers) continue;
    const auto& [facts, tensors] = **value;
    const std::vector<Layout> layouts =
        of_wrong_size
            ? LayoutsOfWrongSize(facts.shape, search.walk.ShapeOf(entry))
            : matcher->LikelyLayouts(facts, tensors, kMostLayouts);
    for (const Layout& layout : layouts) guesses.push_back({entry, id, layout});
    if (!layouts.empty() && ++tried == most) break;
  }
  return guesses;
}

// The nodes of the entries that were tried before stay unexplained if this
// entry is the one that is wrong.
size_t CountSkippedNodes(const BlameSearch& search, EntryId entry) {
  std::set<NodeId> nodes;
  for (const EntryId before : search.tried) {
    if (before == entry) break;
    nodes.insert(search.walk.NodeOf(before));
  }
  return nodes.size();
}

// A node that makes all outputs of one operation may make more than one of
// them wrong.
absl::Status BlameSiblingOutputs(const BlameSearch& search, const Guess& guess,
                                 GraphWalk* trial) {
  const GraphIndex& index = search.walk.scene().index;
  const Network& network = search.walk.network();
  const NodeId node = index.NodeOf(guess.entry);
  const NetworkValue& value = network.value(guess.value);
  const uint32_t count = search.walk.graph().OutputsOf(node);
  if (count < 2 || value.kind != NetworkValue::Kind::kOutput ||
      value.slot != index.OutputOf(guess.entry)) {
    return absl::OkStatus();
  }
  const std::vector<ValueId>& outputs =
      network.operation(value.producer).outputs;
  if (count != outputs.size()) return absl::OkStatus();
  for (uint32_t output = 0; output < count; ++output) {
    const EntryId other = search.walk.graph().EntryOf(node, output);
    const ValueId id = outputs[output];
    const std::vector<int64_t>& shape = search.walk.ShapeOf(other);
    if (search.fine[Index(other)] || other == guess.entry || id == kNoValue ||
        !trial->MayBeIntended(id) || network.value(id).type.sizes() != shape) {
      continue;
    }
    NODEWISE_RETURN_IF_ERROR(
        trial->Blame({other, id, Layout::SameOrder(shape, shape)}));
  }
  return absl::OkStatus();
}

// Counts nodes behind an entry. An unexplained node that leads to explained
// ones counts for neither side.
struct Explained {
  size_t right = 0;
  size_t wrong = 0;
  size_t idle = 0;  // How many of the right ones are idle.
};

absl::StatusOr<Explained> ExplainFollowers(const BlameSearch& search,
                                           EntryId entry, GraphWalk* trial) {
  Explained explained;
  std::vector<EntryId> open;
  Followers followers(search.walk.scene().index, entry);
  while (explained.right < kMostFollowers && open.size() < kMostUnexplained) {
    const std::optional<NodeId> node = followers.Next();
    if (!node.has_value()) break;
    NODEWISE_RETURN_IF_ERROR(trial->ExplainNode(*node));
    const EntryId first = search.walk.graph().EntryOf(*node, 0);
    if (!trial->entry(first).is_explained()) {
      open.push_back(first);
      continue;
    }
    ++explained.right;
    if (trial->IsIdle(first)) ++explained.idle;
  }
  // An unexplained node is not wrong if it only leads to explained ones. Where
  // none is explained there is no such node, and all of them count.
  explained.wrong = open.size();
  if (explained.right == 0) return explained;
  const std::vector<bool> fine = trial->SettledEntries();
  explained.wrong -= static_cast<size_t>(std::ranges::count_if(
      open, [&](EntryId first) { return fine[Index(first)]; }));
  return explained;
}

// Keeps the guess if it explains more than the best one so far. An output of
// the graph has one witness more: the output of the network in its place.
absl::Status Try(BlameSearch& search, Guess guess) {
  GraphWalk trial = search.walk;
  NODEWISE_RETURN_IF_ERROR(trial.Blame(guess));
  NODEWISE_RETURN_IF_ERROR(BlameSiblingOutputs(search, guess, &trial));
  NODEWISE_ASSIGN_OR_RETURN(const Explained behind,
                            ExplainFollowers(search, guess.entry, &trial));
  guess.idle = behind.idle;
  size_t explained = behind.right;
  size_t looked =
      behind.right + behind.wrong + CountSkippedNodes(search, guess.entry);
  const ValueId output = OutputAt(search, guess.entry);
  if (output != kNoValue) {
    ++looked;
    if (output == guess.value) ++explained;
  }
  guess.share = looked == 0 ? 0
                            : static_cast<double>(explained) /
                                  static_cast<double>(looked);
  if (guess.share > (search.best.has_value() ? search.best->share : 0)) {
    search.best = std::move(guess);
  }
  return absl::OkStatus();
}

// Tries guesses about the entry until one explains all that can be explained.
absl::Status TryEntry(BlameSearch& search, EntryId entry) {
  for (const bool of_wrong_size : {false, true}) {
    NODEWISE_ASSIGN_OR_RETURN(
        std::vector<Guess> guesses,
        GuessesForEntry(search, entry,
                        of_wrong_size ? kMostWrongSizes : kMostGuessedTensors,
                        of_wrong_size));
    for (Guess& guess : guesses) {
      if (search.IsSettled() || search.IsTimeOver()) break;
      NODEWISE_RETURN_IF_ERROR(Try(search, std::move(guess)));
    }
    if (search.IsSettled()) break;
  }
  return absl::OkStatus();
}

// Tensors that are held together with the one that was found.
absl::Status FindEquivalents(BlameSearch& search) {
  Guess found = *search.best;
  for (const ValueId id : search.walk.SharedWith(found.value)) {
    search.best.reset();
    NODEWISE_RETURN_IF_ERROR(Try(search, {found.entry, id, found.layout}));
    if (search.best.has_value() && search.best->share >= found.share) {
      found.alike.push_back(id);
    }
  }
  search.best = std::move(found);
  return absl::OkStatus();
}

bool IsMadeOf(const BlameSearch& search, ValueId id, ValueId from,
              bool of_that_alone) {
  const NetworkValue& value = search.walk.network().value(id);
  if (value.kind != NetworkValue::Kind::kOutput ||
      !search.walk.MayBeIntended(id)) {
    return false;
  }
  const std::vector<ValueId>& inputs =
      search.walk.network().operation(value.producer).inputs;
  return Contains(inputs, from) && (!of_that_alone || inputs.size() == 1);
}

// Equal numbers in another order may have sums that are rounded differently.
bool HaveSameNumbers(const TensorFacts& a, const TensorFacts& b) {
  const TensorStats& one = a.stats.back();
  const TensorStats& other = b.stats.back();
  return one.elements == other.elements && one.max == other.max &&
         one.min == other.min &&
         std::fabs(one.l2 - other.l2) <= kSameNorm * one.l2;
}

// Takes this tensor if it explains as much. One that is only in another order
// says nothing more.
absl::Status TryAlternative(BlameSearch& search, const TensorMatcher& matcher,
                            ValueId id) {
  const auto now = search.reference.ValueOf(search.best->value);
  const auto next = search.reference.ValueOf(id);
  if (!now.ok() || !next.ok() || !(*next)->facts.stats.back().has_numbers ||
      HaveSameNumbers((*now)->facts, (*next)->facts)) {
    return absl::OkStatus();
  }
  const Guess before = *std::exchange(search.best, std::nullopt);
  for (const Layout& layout :
       matcher.LikelyLayouts((*next)->facts, (*next)->tensors, kMostLayouts)) {
    NODEWISE_RETURN_IF_ERROR(Try(search, {before.entry, id, layout}));
  }
  // Nodes that only hand on what they read with the new guess did something
  // with the earlier one.
  if (!search.best.has_value() || search.best->share < before.share ||
      search.best->idle > before.idle) {
    search.best = before;
  }
  return absl::OkStatus();
}

// An operation may make the wrong numbers of themselves again (a Relu of
// what is positive), and then the nodes behind are right with its result just
// as well. The later tensor is taken: the fault is before it. Many operations
// make zeros of zeros, so if the entry holds one number alone, only
// operations that read nothing else are gone through.
absl::Status MoveToLaterTensor(BlameSearch& search) {
  for (int step = 0; step < kMostStepsOn; ++step) {
    const ValueId from = search.best->value;
    NODEWISE_ASSIGN_OR_RETURN(const auto matcher,
                              search.walk.Read(search.best->entry));
    if (!matcher.has_value()) break;
    const bool is_one_number = matcher->IsOneNumber();
    for (const ValueId id : search.walk.ReachableFrom({from})) {
      if (search.best->value != from) break;
      if (IsMadeOf(search, id, from, is_one_number)) {
        NODEWISE_RETURN_IF_ERROR(TryAlternative(search, *matcher, id));
      }
    }
    if (search.best->value == from) break;
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<NodeId> FirstSuspect(const GraphWalk& walk) {
  const std::vector<bool> fine = walk.SettledEntries();
  const auto first = std::ranges::find(fine, false);
  if (first == fine.end()) return std::nullopt;
  return walk.NodeOf(EntryId{static_cast<uint32_t>(first - fine.begin())});
}

FoundGuess FindNearMiss(const GraphWalk& walk) {
  const std::vector<bool> fine = walk.SettledEntries();
  for (uint32_t e = 0; e < walk.graph().entries.size(); ++e) {
    const WalkedEntry& walked = walk.entry(EntryId{e});
    if (!fine[e] || walked.is_explained() || !walked.nearest.has_value() ||
        walk.IsPinned(walked.nearest->value)) {
      continue;
    }
    const EntryMatch& nearest = *walked.nearest;
    Guess guess{EntryId{e}, nearest.value, nearest.layout, nearest.distance, 1};
    GraphWalk trial = walk;
    NODEWISE_RETURN_IF_ERROR(trial.Blame(guess));
    double before = 0;
    double after = 0;
    Followers followers(walk.scene().index, EntryId{e});
    for (size_t i = 0; i < kMostFollowers; ++i) {
      const std::optional<NodeId> node = followers.Next();
      if (!node.has_value()) break;
      NODEWISE_RETURN_IF_ERROR(trial.ExplainNode(*node));
      const EntryId first = walk.graph().EntryOf(*node, 0);
      const WalkedEntry& now = trial.entry(first);
      if (!walk.entry(first).is_explained()) continue;
      before = std::max(before, walk.entry(first).distance);
      after = std::max(after, now.is_explained() ? now.distance : kInfinity);
    }
    if (kNearMissTimes * after < before) return guess;
  }
  return std::nullopt;
}

absl::StatusOr<BlameFound> SearchBlame(const GraphWalk& walk, NodeId suspect,
                                       const TimeLimit& limit) {
  BlameSearch search{walk, limit};
  for (const EntryId entry : SuspectEntries(search, suspect)) {
    NODEWISE_RETURN_IF_ERROR(TryEntry(search, entry));
    if (search.IsSettled() || search.IsTimeOver()) break;
    search.tried.push_back(entry);
  }
  if (search.best.has_value()) {
    NODEWISE_RETURN_IF_ERROR(MoveToLaterTensor(search));
    NODEWISE_RETURN_IF_ERROR(FindEquivalents(search));
  }
  return BlameFound{std::move(search.best), search.gave_up};
}

FoundGuesses GuessesFor(const GraphWalk& walk, EntryId entry, size_t most,
                        const TimeLimit& limit) {
  BlameSearch search{walk, limit};
  NODEWISE_ASSIGN_OR_RETURN(std::vector<Guess> guesses,
                            GuessesForEntry(search, entry, most, false));
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<Guess> of_wrong_size,
                            GuessesForEntry(search, entry, most, true));
  guesses.insert(guesses.end(), of_wrong_size.begin(), of_wrong_size.end());
  return guesses;
}

bool MayFitShape(const std::vector<int64_t>& source,
                 const std::vector<int64_t>& compiled) {
  bool fits = false;
  VisitLayouts(source, compiled, [&](const Layout&) {
    fits = true;
    return false;
  });
  return fits;
}

}  // namespace nodewise
