// Wrong nodes that look healthy, since what they make is some tensor of the
// network: one that hands on or moves what it has read, one that makes another
// tensor than its readers need, and outputs of the graph that hold the tensor
// of another place, order or shape.
//
// Each search follows one scheme. It lists the entries that may be meant to
// hold something else and what that might be, says so to a copy of the walk,
// forgets what was found behind, lets the copy go on, and takes the first guess
// with which the node that looked wrong is right.

#include <algorithm>
#include <map>
#include <utility>

#include "contrib/align/blame_search.h"
#include "contrib/align/network_walk.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Whether a node has made what the entry was found to hold by its numbers.
bool IsFoundResult(const GraphWalk& walk, EntryId entry) {
  const WalkedEntry& walked = walk.entry(entry);
  return walk.IsMade(entry) && walked.is_explained() && !walked.is_decided();
}

// Whether the entry holds nothing but what its node has read, or what it holds
// in an order that compilers seldom choose.
bool MayBeMoved(const GraphWalk& walk, EntryId entry) {
  return IsFoundResult(walk, entry) &&
         (walk.IsIdle(entry) ||
          std::ranges::none_of(walk.entry(entry).tensors,
                               [](const HeldTensor& tensor) {
                                 return tensor.layout.is_same_order() ||
                                        tensor.layout.is_usual();
                               }));
}

// The tensors that the entry may be meant to hold, element for element: what it
// holds in another order, and what is made of that.
std::vector<ValueId> IntendedValues(const GraphWalk& walk, EntryId entry) {
  std::vector<ValueId> meant;
  std::vector<ValueId> held;
  for (const HeldTensor& tensor : walk.entry(entry).tensors) {
    held.push_back(tensor.value);
    if (!tensor.layout.is_same_order()) meant.push_back(tensor.value);
  }
  // A node that has computed something was meant to, and only the order of what
  // it has made is in doubt.
  if (!walk.IsIdle(entry)) return meant;
  for (const ValueId id : walk.ReachableFrom(held)) {
    if (meant.size() == kMostMisread) break;
    if (!walk.IsPinned(id)) meant.push_back(id);
  }
  return meant;
}

bool HoldsInOrder(const WalkedEntry& entry, ValueId id) {
  return std::ranges::any_of(entry.tensors, [id](const HeldTensor& tensor) {
    return tensor.value == id && tensor.layout.is_same_order();
  });
}

// In blocks of some side, as compilers lay tensors between their nodes.
bool HoldsInBlocks(const WalkedEntry& entry, ValueId id) {
  return std::ranges::any_of(entry.tensors, [id](const HeldTensor& tensor) {
    return tensor.value == id && !tensor.layout.is_same_order() &&
           tensor.layout.is_usual();
  });
}

// The guess that the output should hold the value, in its own shape.
Guess OutputGuess(EntryId entry, ValueId id,
                  const std::vector<int64_t>& expected,
                  const std::vector<int64_t>& shape) {
  Guess guess{entry, id, Layout::SameOrder(shape, shape), kInfinity, 1};
  guess.has_output_shape = expected != shape;
  if (guess.has_output_shape) {
    guess.layout.other_shape = shape;
    guess.layout.text = "in another shape";
  }
  return guess;
}

// The moved entries that the node depends on, those far away first: as far as
// there is nothing else between, or all.
std::vector<EntryId> MovedBefore(const GraphWalk& walk, NodeId node,
                                 bool beyond_others) {
  std::vector<EntryId> moved;
  NodesBefore(walk.scene().index, node, SIZE_MAX,
              [&](EntryId read, const std::vector<NodeId>& nodes) {
                const bool is_moved = MayBeMoved(walk, read);
                if ((!is_moved && !beyond_others) ||
                    Contains(nodes, walk.NodeOf(read))) {
                  return false;
                }
                if (is_moved) moved.push_back(read);
                // A node that has computed something has not inherited the
                // error.
                return beyond_others || walk.IsIdle(read);
              });
  std::ranges::sort(moved);
  moved.erase(std::unique(moved.begin(), moved.end()), moved.end());
  if (moved.size() > kMostMisread) moved.resize(kMostMisread);
  return moved;
}

absl::StatusOr<GraphWalk> WalkFrom(const GraphWalk& walk, const Guess& guess,
                                   NodeId last) {
  GraphWalk trial = walk;
  trial.UnpinDependents(guess.value);
  NODEWISE_RETURN_IF_ERROR(trial.Blame(guess));
  NODEWISE_RETURN_IF_ERROR(
      trial.ExplainNodes(Index(walk.NodeOf(guess.entry)) + 1, Index(last) + 1));
  return trial;
}

// Finds the guess about one of the entries with which `is_right` is true of the
// walk that goes on from it as far as `last`.
template <typename IsRight>
FoundGuess FindMeaning(const GraphWalk& walk,
                       const std::vector<EntryId>& entries, NodeId last,
                       const TimeLimit& limit, const IsRight& is_right) {
  FollowedReference reference = walk.reference();
  for (const EntryId entry : entries) {
    const std::vector<int64_t>& shape = walk.ShapeOf(entry);
    for (const ValueId id : IntendedValues(walk, entry)) {
      if (limit.IsOver()) return std::nullopt;
      const auto value = reference.ValueOf(id);
      if (!value.ok() || Product((*value)->facts.shape) != Product(shape)) {
        continue;
      }
      Guess guess{entry, id, Layout::SameOrder((*value)->facts.shape, shape),
                  kInfinity, 1};
      NODEWISE_ASSIGN_OR_RETURN(const auto trial, WalkFrom(walk, guess, last));
      if (is_right(trial)) return guess;
    }
  }
  return std::nullopt;
}

// Finds the guess about an entry in another shape than the network has, with
// which the output is what the network makes of that.
FoundGuess FindTurnedBefore(const GraphWalk& walk, EntryId output,
                            ValueId meant, const TimeLimit& limit) {
  const NodeId last = walk.NodeOf(output);
  for (const EntryId entry : MovedBefore(walk, last, true)) {
    const std::vector<int64_t>& shape = walk.graph().entry(entry).shape;
    for (const HeldTensor& held : walk.entry(entry).tensors) {
      const auto sizes = walk.network().value(held.value).type.sizes();
      if (!sizes.has_value() || *sizes == shape ||
          held.layout.is_same_order()) {
        continue;
      }
      if (limit.IsOver()) return std::nullopt;
      Guess guess = OutputGuess(entry, held.value, *sizes, shape);
      guess.has_output_shape = false;
      NODEWISE_ASSIGN_OR_RETURN(GraphWalk trial, WalkFrom(walk, guess, last));
      const auto made = trial.reference().ValueOf(meant);
      if (made.ok() && (*made)->facts.shape == walk.ShapeOf(output) &&
          HoldsInOrder(trial.entry(output), meant)) {
        return guess;
      }
    }
  }
  return std::nullopt;
}

// Returns the guess about the output, or about an entry before it; none if it
// is what the network has in its place.
FoundGuess WrongOutputAt(GraphWalk& walk, EntryId entry, ValueId id,
                         const TimeLimit& limit) {
  const WalkedEntry& walked = walk.entry(entry);
  const auto value = walk.reference().ValueOf(id);
  NODEWISE_ASSIGN_OR_RETURN(const auto found, walk.Read(entry));
  if (!value.ok() || !found.has_value()) return std::nullopt;
  const std::vector<int64_t>& expected = (*value)->facts.shape;
  const std::vector<int64_t>& shape = walk.ShapeOf(entry);
  const bool is_in_order = HoldsInOrder(walked, id);
  if ((is_in_order && expected == shape) || HoldsInBlocks(walked, id) ||
      Product(expected) != Product(shape)) {
    return std::nullopt;
  }
  const Guess here = OutputGuess(entry, id, expected, shape);
  const double distance = found->DistanceIn(here.layout, (*value)->tensors);
  NODEWISE_ASSIGN_OR_RETURN(const auto clean, walk.CleanDistanceOf(entry, id));
  if (distance <= clean && expected == shape) return std::nullopt;
  if (is_in_order) return here;
  // A tensor that was moved or turned wrongly may have come here through other
  // nodes.
  std::optional<Guess> before;
  const NodeId node = walk.NodeOf(entry);
  if (expected != shape) {
    NODEWISE_ASSIGN_OR_RETURN(before, FindTurnedBefore(walk, entry, id, limit));
  } else {
    NODEWISE_ASSIGN_OR_RETURN(
        before, FindMeaning(walk, MovedBefore(walk, node, true), node, limit,
                            [&](const GraphWalk& trial) {
                              return HoldsInOrder(trial.entry(entry), id);
                            }));
  }
  return before.has_value() ? before : here;
}

bool MayBeMisread(const GraphWalk& walk, EntryId entry) {
  return IsFoundResult(walk, entry) && !walk.IsIdle(entry);
}

std::vector<ValueId> ValuesLike(const GraphWalk& walk, EntryId entry) {
  const WalkedEntry& walked = walk.entry(entry);
  const TensorType& type = walk.network().value(walked.tensors[0].value).type;
  std::vector<ValueId> like =
      walk.ReachableFrom(walk.SourcesOf(walk.NodeOf(entry)));
  std::erase_if(like, [&](ValueId id) {
    const TensorType& other = walk.network().value(id).type;
    return walked.Holds(id) || other.dtype != type.dtype ||
           !other.sizes().has_value() || other.sizes() != type.sizes();
  });
  return like;
}

// The guess that the entry should hold this value; if another one holds it,
// that one should hold the entry's.
std::vector<Guess> GuessesForValue(const GraphWalk& walk, EntryId entry,
                                   ValueId id) {
  const HeldTensor& held = walk.entry(entry).tensors[0];
  std::vector<Guess> guesses = {{entry, id, held.layout, kInfinity, 1}};
  // A node that alone makes a tensor of the network was meant to make it.
  const bool is_alone = walk.HoldersOf(held.value).size() == 1;
  if (walk.MayBeIntended(id)) return is_alone ? std::vector<Guess>() : guesses;
  const std::vector<EntryId> holders = walk.HoldersOf(id);
  if (!is_alone || holders.size() != 1 || !MayBeMisread(walk, holders[0])) {
    return {};
  }
  guesses.push_back({holders[0], held.value,
                     walk.entry(holders[0]).tensors[0].layout, kInfinity, 1});
  return guesses;
}

bool IsExplainedBy(const GraphWalk& walk, EntryId entry,
                   const std::vector<ValueId>& sources) {
  return walk.entry(entry).is_explained() && !walk.IsIdle(entry) &&
         std::ranges::all_of(sources, [&](ValueId id) {
           return std::ranges::any_of(
               walk.ReachableFrom({id}),
               [&](ValueId one) { return walk.entry(entry).Holds(one); });
         });
}

// Whether the suspect is explained then, and more of the readers than one if
// two entries are accused, and all nodes that were explained before still are.
absl::StatusOr<bool> AreRight(const GraphWalk& walk, NodeId suspect,
                              const std::vector<Guess>& guesses) {
  GraphWalk trial = walk;
  for (const Guess& guess : guesses) trial.UnpinDependents(guess.value);
  // The nodes that read what is accused, and what they should be made of.
  std::map<NodeId, std::vector<ValueId>> readers;
  for (const Guess& guess : guesses) {
    NODEWISE_RETURN_IF_ERROR(trial.Blame(guess));
    for (const NodeId reader : walk.ReadersOf(guess.entry)) {
      readers[reader].push_back(guess.value);
    }
  }
  // A reader that was right before and is not now speaks against the guess.
  // Readers that are newly right speak for it, and two accused entries need two
  // of them, since one reader with exchanged operands would look the same.
  size_t gained = 0;
  for (const auto& [reader, sources] : readers) {
    NODEWISE_RETURN_IF_ERROR(trial.ExplainNode(reader));
    const EntryId first = walk.graph().EntryOf(reader, 0);
    const bool was_explained = IsExplainedBy(walk, first, {});
    const bool is_explained = IsExplainedBy(trial, first, sources);
    if (!is_explained && (was_explained || reader == suspect)) return false;
    if (is_explained && !was_explained) ++gained;
  }
  return gained >= guesses.size();
}

}  // namespace

FoundGuess FindMovedBefore(const GraphWalk& walk, NodeId suspect,
                           const TimeLimit& limit) {
  const EntryId made = walk.graph().EntryOf(suspect, 0);
  if (walk.entry(made).is_explained()) return std::nullopt;
  return FindMeaning(walk, MovedBefore(walk, suspect, false), suspect, limit,
                     [made](const GraphWalk& trial) {
                       return trial.entry(made).is_explained();
                     });
}

FoundGuesses FindExchangedBefore(const GraphWalk& walk, NodeId suspect,
                                 const TimeLimit& limit) {
  for (const EntryId read : ReadsOf(walk.graph(), suspect)) {
    if (!MayBeMisread(walk, read)) continue;
    size_t tried = 0;
    for (const ValueId id : ValuesLike(walk, read)) {
      if (limit.IsOver() || tried++ == kMostMisread) break;
      std::vector<Guess> guesses = GuessesForValue(walk, read, id);
      if (guesses.empty()) continue;
      NODEWISE_ASSIGN_OR_RETURN(const bool is_right,
                                AreRight(walk, suspect, guesses));
      if (is_right) return guesses;
    }
  }
  return std::vector<Guess>();
}

std::vector<std::pair<EntryId, ValueId>> PairedOutputs(const GraphWalk& walk) {
  const absl::Span<const ValueId> outputs = walk.network().outputs();
  std::vector<std::pair<EntryId, ValueId>> pairs;
  if (walk.graph().heads.size() != outputs.size() ||
      !walk.scene().alignment.open.empty()) {
    return pairs;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    pairs.emplace_back(walk.graph().EntryOf(walk.graph().heads[i]), outputs[i]);
  }
  return pairs;
}

FoundGuess FindWrongOutput(GraphWalk& walk, const TimeLimit& limit) {
  const std::vector<bool> behind_unknown = walk.EntriesBehindUnknown();
  for (const auto& [entry, id] : PairedOutputs(walk)) {
    const WalkedEntry& walked = walk.entry(entry);
    if (!walked.is_explained() || walked.is_blamed() ||
        behind_unknown[Index(entry)]) {
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(std::optional<Guess> wrong,
                              WrongOutputAt(walk, entry, id, limit));
    if (wrong.has_value()) return wrong;
  }
  return std::nullopt;
}

FoundGuesses FindWrongConstants(GraphWalk& walk) {
  std::vector<Guess> wrong;
  const auto pairs = PairedOutputs(walk);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto& [entry, id] = pairs[i];
    if (walk.aligned(entry).varies) continue;
    const auto value = walk.reference().ValueOf(id);
    if (!value.ok()) continue;
    const std::vector<int64_t>& expected = (*value)->facts.shape;
    const Layout layout = Layout::SameOrder(expected, expected);
    Guess guess{entry, id, layout, 0, 1};
    for (size_t set = 0; set < walk.scene().pairs.size(); ++set) {
      const std::vector<NDArray>& made = walk.scene().pairs[set].outputs;
      if (i >= made.size() || !HasNumbers(made[i].dtype())) continue;
      if (made[i].shape() != absl::MakeConstSpan(expected)) {
        guess.distance = kInfinity;
        continue;
      }
      TensorFacts facts{expected, made[i].dtype(), {StatsOf(*made[i])}};
      const TensorMatcher matcher(std::move(facts), {&made[i], 1});
      guess.distance =
          std::max(guess.distance,
                   matcher.DistanceInSet(layout, (*value)->tensors[set], 0));
    }
    NODEWISE_ASSIGN_OR_RETURN(const double clean,
                              walk.CleanDistanceOf(entry, id));
    if (guess.distance > clean) wrong.push_back(std::move(guess));
  }
  return wrong;
}

}  // namespace nodewise
