// Which nodes are to blame, and for what.
//
// Begin here. alignment.cc makes the map of which entry holds which tensor,
// graph_walk.cc judges the nodes, blame_search.cc finds what a wrong one should
// have held, and region_edits.cc and operation_edits.cc which change of the
// model makes its numbers; what others see of it is declared in nodewise/align.
//
// The walk explains the nodes one after the other by what they have read. The
// first one that is not explained, and not only on the way to nodes that are
// (SettledEntries()), is the suspect. It need not be the culprit. Before it
// there may be a node that was taken for healthy, since its wrong result is
// some other tensor of the network; so those are tried first. Otherwise the
// suspect, or a node behind it that is unexplained as well, should have held a
// tensor with which the next nodes are right, and the guess that explains most
// of them names the culprit and the operations between what it has read and
// that tensor. Small changes of these operations are tried on the numbers that
// were read: one with which the network makes what the node has made says what
// is wrong. If the best guess is about a later node and no change explains it,
// a change that explains the suspect alone decides for the suspect.
//
// Then the guess is taken for true, what lies behind is judged on the wrong
// numbers, and the search begins anew, until nothing is left unexplained.
// Outputs of the graph are looked at last: only there does it show that a
// tensor of the network stands in the wrong place.

#include "nodewise/align/value_locate.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "contrib/align/align_limits.h"
#include "contrib/align/blame_search.h"
#include "contrib/align/graph_walk.h"
#include "contrib/align/network_walk.h"
#include "contrib/align/region_edits.h"
#include "contrib/align/tensor_match.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// --- The names of a culprit: operations of the network ---

void AddNew(const std::vector<OperationId>& more, size_t most,
            std::vector<OperationId>* list) {
  for (const OperationId one : more) {
    if (list->size() >= most) return;
    if (!Contains(*list, one)) list->push_back(one);
  }
}

int64_t MostNumbersOf(const Network& network, OperationId id) {
  int64_t most = 0;
  for (const ValueId input : network.operation(id).inputs) {
    if (input == kNoValue) continue;
    const NetworkValue& value = network.value(input);
    const bool is_constant = value.kind == NetworkValue::Kind::kConstant;
    if (is_constant) most = std::max(most, CountOf(value.data));
  }
  return most;
}

// Returns the operations that are likeliest to be wrong in a way that no change
// explains: those with the most numbers of their own, of which any may be
// wrong; of two with as many the first one. A few at most.
std::vector<OperationId> LikeliestWrong(const Network& network,
                                        std::vector<OperationId> region) {
  std::ranges::stable_sort(region, std::greater(), [&](OperationId id) {
    return MostNumbersOf(network, id);
  });
  if (region.size() > kMostNamed) region.resize(kMostNamed);
  return region;
}

// Adds the changes to the culprit and names the operations that they are of;
// without any, the likeliest of its region. One number in all elements (the
// zeros of a Relu) is made by so many changes that they say little: then the
// others are named, too.
void NameOperations(const Network& network,
                    const std::vector<FittingEdit>& edits, bool is_one_number,
                    ValueCulprit* culprit) {
  for (const FittingEdit& edit : edits) {
    // Several values of an attribute may mean the same.
    const bool is_said = std::ranges::any_of(
        culprit->explanations, [&edit](const Explanation& said) {
          return said.operation == edit.operation && said.what == edit.what;
        });
    if (is_said) continue;
    culprit->explanations.push_back({edit.operation, edit.what});
    AddNew({edit.operation}, kMostNamed, &culprit->operations);
  }
  if (culprit->operations.empty() || is_one_number) {
    AddNew(LikeliestWrong(network, culprit->region), kMostNamed,
           &culprit->operations);
  }
}

// Names the operations that make what the entry may be meant to hold as well.
void NameAlike(const Network& network, ValueCulprit* culprit) {
  std::vector<OperationId> makers;
  for (const ValueId id : culprit->alike) {
    makers.push_back(network.value(id).producer);
  }
  AddNew(makers, SIZE_MAX, &culprit->region);
  AddNew(makers, kMostNamed, &culprit->operations);
}

void Join(const ValueCulprit& culprit, ValueCulprit* with) {
  AddNew(culprit.region, SIZE_MAX, &with->region);
  AddNew(culprit.operations, kMostNamed, &with->operations);
  with->explanations.insert(with->explanations.end(),
                            culprit.explanations.begin(),
                            culprit.explanations.end());
}

// --- The operations between what a node has read and what it should make ---

// A value of the network, and what the node in question reads of the graph:
// with the nodes before it that hold no tensor.
struct RegionSearch {
  const GraphWalk& walk;
  std::vector<EntryId> reads;

  bool IsRead(ValueId id) const { return CountReads(id) > 0; }
  std::ptrdiff_t CountReads(ValueId id) const {
    return std::ranges::count_if(
        reads, [&](EntryId read) { return walk.entry(read).Holds(id); });
  }
};

std::vector<EntryId> RegionReads(const GraphWalk& walk, NodeId node) {
  std::vector<EntryId> reads;
  NodesBefore(walk.scene().index, node, SIZE_MAX,
              [&](EntryId read, const std::vector<NodeId>& nodes) {
                reads.push_back(read);
                return !walk.entry(read).is_explained() &&
                       nodes.size() < kMostNodesOfOperation &&
                       walk.IsMade(read);
              });
  return reads;
}

// Constants are left out.
std::vector<ValueId> MadeOf(const Network& network, ValueId id) {
  const NetworkValue& value = network.value(id);
  if (value.kind != NetworkValue::Kind::kOutput) return {};
  std::vector<ValueId> made_of = network.operation(value.producer).inputs;
  std::erase_if(made_of, [&](ValueId input) {
    return input == kNoValue ||
           network.value(input).kind == NetworkValue::Kind::kConstant;
  });
  return made_of;
}

// Whether a few operations make the value of what the node reads.
bool IsDerivedFromReads(const RegionSearch& search, ValueId id) {
  std::vector<ValueId> waiting = {id};
  for (size_t done = 0; !waiting.empty(); ++done) {
    const ValueId next = waiting.back();
    waiting.pop_back();
    if (search.walk.network().value(next).kind != NetworkValue::Kind::kOutput ||
        done == kMostDoneTwice) {
      return false;
    }
    for (const ValueId one : MadeOf(search.walk.network(), next)) {
      if (!search.IsRead(one)) waiting.push_back(one);
    }
  }
  return true;
}

bool MayBeMadeHere(const RegionSearch& search, ValueId id) {
  return static_cast<size_t>(search.CountReads(id)) <=
             search.walk.SharedWith(id).size() &&
         IsDerivedFromReads(search, id);
}

bool IsMoved(const RegionSearch& search, ValueId id) {
  const std::vector<ValueId> made_of = MadeOf(search.walk.network(), id);
  return std::ranges::any_of(search.walk.HoldersOf(id), [&](EntryId holder) {
    return std::ranges::any_of(made_of, [&](ValueId one) {
      return search.walk.entry(holder).Holds(one);
    });
  });
}

// Whether the node did not make it, but has it from elsewhere.
// - What is found elsewhere and not read is made by the node itself, if
//   it reads what that is made of, a few operations before.
// - Where a tensor may be any of several that are made of the same numbers, and
//   the node reads fewer of these and what they are made of, it may make one
//   itself.
// - `with_moves`: what is held in another order by an entry that holds what it
//   was made of as well, may be meant to be moved.
bool IsEndOfRegion(const RegionSearch& search, ValueId id, bool with_moves) {
  if (!search.walk.IsPinned(id)) return false;
  if (!search.IsRead(id)) return !IsDerivedFromReads(search, id);
  return !MayBeMadeHere(search, id) && !(with_moves && IsMoved(search, id));
}

// Returns the operations that make the value of what the node reads, in the
// order of the network.
std::vector<OperationId> RegionOf(const GraphWalk& walk, ValueId value,
                                  NodeId node, bool with_moves) {
  const RegionSearch search{walk, RegionReads(walk, node)};
  std::set<OperationId> region;
  WalkBack(walk.network(), {value}, [&](const NetworkValue& next) {
    if (next.kind != NetworkValue::Kind::kOutput ||
        (next.id != value && IsEndOfRegion(search, next.id, with_moves))) {
      return false;
    }
    region.insert(next.producer);
    return true;
  });
  return InOrder(walk.network(), region);
}

// --- The ledger: which error came from where ---

// How far the entry is from the tensor of the network's own run.
absl::StatusOr<double> DistanceToOwnRun(const WalkScene& scene, EntryId entry,
                                        const HeldTensor& held) {
  // Where nothing before the entry is wrong, the alignment has this distance
  // already.
  for (const EntryMatch& match :
       scene.alignment.entries[Index(entry)].matches) {
    const bool is_whole =
        !match.has_unknown_order && !match.without_input.has_value();
    if (is_whole && match.value == held.value) return match.distance;
  }
  const auto compiled = RecordedEntry(scene.index, scene.pairs, entry);
  const auto source = RecordedValue(scene.network, scene.pairs, held.value);
  if (!compiled.has_value() || !source.has_value()) return 0;
  NODEWISE_ASSIGN_OR_RETURN(const auto found, TensorMatcher::Create(*compiled));
  NODEWISE_ASSIGN_OR_RETURN(const auto expected, source->Load());
  return found.DistanceIn(held.layout, expected);
}

absl::Status FillLedger(const WalkScene& scene,
                        std::vector<LocatedEntry>* entries) {
  const Graph& graph = scene.index.graph();
  for (const EntryId id : AllEntries(graph)) {
    LocatedEntry& entry = (*entries)[Index(id)];
    const NodeId node = scene.index.NodeOf(id);
    if (entry.state == EntryState::kConstant || !graph.IsFunction(node)) {
      continue;
    }
    for (const EntryId read : ReadsOf(graph, node)) {
      entry.received =
          std::max(entry.received, (*entries)[Index(read)].passed_on);
    }
    // An entry without a tensor of the network passes on what it has received:
    // nothing more is known about it.
    entry.passed_on = entry.received;
    if (entry.tensors.empty()) continue;
    NODEWISE_ASSIGN_OR_RETURN(entry.passed_on,
                              DistanceToOwnRun(scene, id, entry.tensors[0]));
  }
  return absl::OkStatus();
}

// --- The search ---

struct CulpritSearch {
  GraphWalk walk;
  const OpSet& operators;
  const SearchLimits& limits;
  EditBudget budget;  // For the culprit that is looked at.
  // Nodes that are right, though the walk does not explain them.
  std::vector<NodeId> sound_parts = {};
  ValueLocateResult result = {};

  NodeId NodeOf(const Guess& guess) const { return walk.NodeOf(guess.entry); }
  TimeLimit GuessLimit() const { return {limits.clock, limits.most_guess_ns}; }
  std::vector<OperationId> Region(const Guess& guess) const {
    return RegionOf(walk, guess.value, NodeOf(guess), guess.is_misread);
  }
  absl::Status ExplainFollowing(NodeId node) {
    return walk.ExplainNodes(Index(node) + 1);
  }
};

// The entry of a guess, and what it should hold as far as that can be computed.
struct EntryBeside {
  std::optional<TensorMatcher> found;
  std::shared_ptr<const FollowedReference::Value> expected;
  double clean = 0;  // GraphWalk::CleanDistanceOf().

  bool are_known() const { return found.has_value() && expected != nullptr; }
  double Distance(const Layout& layout) const {
    if (!are_known()) return kInfinity;
    return found->DistanceIn(layout, expected->tensors);
  }
};

absl::StatusOr<EntryBeside> BesideExpected(CulpritSearch& search,
                                           const Guess& guess) {
  EntryBeside beside;
  NODEWISE_ASSIGN_OR_RETURN(beside.found, search.walk.Read(guess.entry));
  const auto expected = search.walk.reference().ValueOf(guess.value);
  if (expected.ok()) beside.expected = *expected;
  NODEWISE_ASSIGN_OR_RETURN(
      beside.clean, search.walk.CleanDistanceOf(guess.entry, guess.value));
  return beside;
}

// Returns whether the node may compute what the network does not have. A
// guess about it would be one about something else.
bool ReadsOpen(const CulpritSearch& search, NodeId node) {
  return std::ranges::any_of(search.walk.SourcesOf(node), [&](ValueId id) {
    return Contains(search.walk.scene().alignment.open, id);
  });
}

// A node with several outputs is one culprit.
void Add(CulpritSearch& search, ValueCulprit culprit) {
  std::vector<ValueCulprit>& culprits = search.result.culprits;
  const auto same =
      std::ranges::find(culprits, culprit.node, &ValueCulprit::node);
  if (same != culprits.end()) return Join(culprit, &*same);
  culprits.push_back(std::move(culprit));
}

// The nodes without a tensor of the network that the entry is made by.
std::vector<NodeId> PartsBefore(const CulpritSearch& search, EntryId entry) {
  const GraphWalk& walk = search.walk;
  std::vector<NodeId> nodes = NodesBefore(
      search.walk.scene().index, search.walk.NodeOf(entry),
      kMostNodesOfOperation, [&](EntryId read, const std::vector<NodeId>&) {
        const NodeId maker = search.walk.NodeOf(read);
        return search.walk.aligned(read).varies &&
               search.walk.graph().IsFunction(maker) &&
               !walk.entry(read).is_explained() &&
               !walk.entry(read).is_blamed() && !walk.IsSoundPart(read) &&
               !Contains(search.sound_parts, maker);
      });
  nodes.erase(nodes.begin());
  std::ranges::sort(nodes);
  return nodes;
}

// Says with which sets of inputs the entry is wrong.
void AddSets(const EntryBeside& beside, const Guess& guess,
             ValueCulprit* culprit) {
  if (!beside.are_known()) return;
  const std::vector<NDArray>& expected = beside.expected->tensors;
  const bool is_of_size = guess.layout.other_shape.empty();
  for (size_t set = 0; set < expected.size(); ++set) {
    const bool is_wrong =
        !is_of_size || beside.found->DistanceInSet(guess.layout, expected[set],
                                                   set) > beside.clean;
    if (is_wrong) culprit->sets.push_back(set);
  }
  culprit->differs_in_finite =
      !is_of_size || culprit->sets.empty() ||
      beside.found->DifferenceIn(guess.layout, expected, true).largest >
          beside.clean;
}

ValueCulprit CulpritOf(const CulpritSearch& search, const Guess& guess) {
  ValueCulprit culprit;
  culprit.node = search.NodeOf(guess);
  culprit.entry = guess.entry;
  culprit.expected = guess.value;
  culprit.distance = guess.distance;
  culprit.share_explained = guess.share;
  culprit.region = search.Region(guess);
  return culprit;
}

// Adds the culprit of the guess, blames its entry, and judges again what lies
// behind.
absl::Status AddValueCulprit(CulpritSearch& search, const Guess& guess,
                             const std::vector<FittingEdit>& edits) {
  const Network& network = search.walk.network();
  const WalkedEntry& walked = search.walk.entry(guess.entry);
  ValueCulprit culprit = CulpritOf(search, guess);
  culprit.parts = PartsBefore(search, guess.entry);
  if (guess.has_output_shape) {
    culprit.output_shape = search.walk.ShapeOf(guess.entry);
  }
  const bool is_near =
      walked.nearest.has_value() && walked.nearest->value == guess.value;
  // Unless the walk knew the entry again as that tensor, it is far from it,
  // however far.
  culprit.distance = is_near ? walked.nearest->distance : kInfinity;
  culprit.gave_up = search.budget.gave_up();
  culprit.edits_tried = search.budget.tried();
  NODEWISE_ASSIGN_OR_RETURN(const auto beside, BesideExpected(search, guess));
  NameOperations(network, edits,
                 beside.found.has_value() && beside.found->IsOneNumber(),
                 &culprit);
  AddSets(beside, guess, &culprit);
  Guess blamed = guess;
  blamed.distance = beside.Distance(guess.layout);
  NODEWISE_RETURN_IF_ERROR(search.walk.Blame(blamed));
  culprit.alike = guess.alike;
  for (const HeldTensor& held : walked.tensors) {
    if (held.value != guess.value) culprit.alike.push_back(held.value);
  }
  NameAlike(network, &culprit);
  Add(search, std::move(culprit));
  return search.ExplainFollowing(search.NodeOf(guess));
}

// Goes on without a culprit if the entry holds what was guessed, as nearly as
// may be, though it was not found.
absl::StatusOr<bool> AcceptIfClean(CulpritSearch& search, Guess guess) {
  if (!guess.layout.other_shape.empty()) return false;
  NODEWISE_ASSIGN_OR_RETURN(const auto beside, BesideExpected(search, guess));
  guess.distance = beside.Distance(guess.layout);
  if (!beside.are_known() || guess.distance > beside.clean) return false;
  NODEWISE_RETURN_IF_ERROR(search.walk.Accept(guess));
  NODEWISE_RETURN_IF_ERROR(search.ExplainFollowing(search.NodeOf(guess)));
  return true;
}

// Looks for changes that explain the wrong tensor, with one of so many parts
// of what may still be tried.
absl::StatusOr<std::vector<FittingEdit>> EditsFor(CulpritSearch& search,
                                                  const Guess& guess,
                                                  size_t parts) {
  NODEWISE_ASSIGN_OR_RETURN(const auto found, search.walk.Read(guess.entry));
  if (!found.has_value()) return std::vector<FittingEdit>();
  NODEWISE_ASSIGN_OR_RETURN(const double clean, search.walk.CleanDistanceOf(
                                                    guess.entry, guess.value));
  EditBudget part = search.budget.Part(parts);
  const std::vector<OperationId> region = search.Region(guess);
  // A value of the region that another node was found to hold is not what
  // this one has made.
  FollowedReference inside = search.walk.reference();
  for (const OperationId id : region) {
    for (const ValueId made : search.walk.network().operation(id).outputs) {
      if (made != kNoValue) inside.Unpin(made);
    }
  }
  auto edits = FindEdits({inside, *found, guess.value, guess.layout, region,
                          search.operators, clean},
                         &part);
  search.budget.Spend(part);
  if (part.gave_up()) search.budget.GiveUp();
  return edits;
}

// Takes a guess for right, with changes of the guessed node. What is behind an
// entry that had been taken for another tensor is looked at anew.
absl::Status FollowWithEdits(CulpritSearch& search, const Guess& guess) {
  NODEWISE_ASSIGN_OR_RETURN(const auto edits, EditsFor(search, guess, 1));
  if (guess.is_misread) search.walk.UnpinDependents(guess.value);
  return AddValueCulprit(search, guess, edits);
}

absl::Status FollowMisread(CulpritSearch& search, Guess guess) {
  guess.is_misread = true;
  return FollowWithEdits(search, guess);
}

// Takes for right the guesses about one tensor that was taken for another, or
// two that are exchanged.
absl::Status FollowExchanged(CulpritSearch& search,
                             const std::vector<Guess>& guesses) {
  for (const Guess& guess : guesses) search.walk.UnpinDependents(guess.value);
  for (const Guess& guess : guesses) {
    NODEWISE_RETURN_IF_ERROR(FollowMisread(search, guess));
    search.result.culprits.back().is_exchanged = guesses.size() > 1;
  }
  return absl::OkStatus();
}

// Returns a few guesses about the entry that few operations are between, of
// its size and of another one.
FoundGuesses NearGuesses(const CulpritSearch& search, EntryId entry) {
  NODEWISE_ASSIGN_OR_RETURN(
      std::vector<Guess> guesses,
      GuessesFor(search.walk, entry, kMostNearGuesses, search.GuessLimit()));
  const auto distance = [&](const Guess& guess) {
    return search.Region(guess).size();
  };
  std::ranges::stable_sort(guesses, {}, distance);
  size_t of_size = 0;
  size_t of_other_size = 0;
  std::erase_if(guesses, [&](const Guess& guess) {
    if (distance(guess) > kMostNearOperations) return true;
    const bool is_of_size = guess.layout.other_shape.empty();
    return ++(is_of_size ? of_size : of_other_size) > kMostNearGuesses;
  });
  return guesses;
}

struct ExplainedGuess {
  std::optional<Guess> guess;
  std::vector<FittingEdit> edits;
};

// Returns the guess about a node that a small change explains, regardless of
// the nodes behind it, and the change.
absl::StatusOr<ExplainedGuess> ExplainAlone(CulpritSearch& search,
                                            NodeId node) {
  for (const EntryId entry : EntriesMadeBy(search.walk.graph(), node)) {
    if (search.walk.entry(entry).is_explained()) continue;
    NODEWISE_ASSIGN_OR_RETURN(auto guesses, NearGuesses(search, entry));
    size_t left = guesses.size();
    for (Guess& guess : guesses) {
      // The nearest guesses are likelier, and have half of the budget that is
      // left.
      NODEWISE_ASSIGN_OR_RETURN(
          auto edits, EditsFor(search, guess, std::min<size_t>(left--, 2)));
      if (edits.empty()) continue;
      guess.alike = search.walk.SharedWith(guess.value);
      return ExplainedGuess{std::move(guess), std::move(edits)};
    }
  }
  return ExplainedGuess();
}

// Returns the first entry that was given up; if all are fine, the node's first.
EntryId GiveUpOn(CulpritSearch& search, NodeId node) {
  const std::vector<bool> fine = search.walk.SettledEntries();
  std::optional<EntryId> first;
  for (const EntryId entry : EntriesMadeBy(search.walk.graph(), node)) {
    if (fine[Index(entry)]) continue;
    if (!first.has_value()) first = entry;
    search.walk.GiveUp(entry);
  }
  return first.value_or(search.walk.graph().EntryOf(node, 0));
}

// Nothing tells which tensor the suspect should have made, so the nearest one
// is taken that would fit and has not been found elsewhere.
void AddUnfollowed(CulpritSearch& search, NodeId suspect) {
  ValueCulprit culprit;
  culprit.node = suspect;
  culprit.entry = GiveUpOn(search, suspect);
  // The suspect may compute a part of an operation that is opaque.
  if (!search.walk.scene().alignment.open.empty()) return;
  culprit.gave_up = search.budget.gave_up();
  culprit.edits_tried = search.budget.tried();
  culprit.distance = kInfinity;
  const std::vector<ValueId> reachable =
      search.walk.ReachableFrom(search.walk.SourcesOf(suspect));
  const auto meant = std::ranges::find_if(reachable, [&](ValueId id) {
    const auto sizes = search.walk.network().value(id).type.sizes();
    return !search.walk.IsPinned(id) && sizes.has_value() &&
           MayFitShape(*sizes, search.walk.ShapeOf(culprit.entry));
  });
  if (meant != reachable.end()) {
    culprit.expected = *meant;
    culprit.region = RegionOf(search.walk, *meant, suspect, false);
    culprit.operations = LikeliestWrong(search.walk.network(), culprit.region);
  }
  Add(search, std::move(culprit));
}

// Decides between a guess about a later node, that no change explains, and the
// suspect alone.
absl::Status PreferSuspect(CulpritSearch& search, NodeId suspect,
                           ExplainedGuess* found) {
  NODEWISE_ASSIGN_OR_RETURN(auto alone, ExplainAlone(search, suspect));
  if (!alone.guess.has_value()) return absl::OkStatus();
  // A suspect that makes its tensor without an optional input is a part of an
  // operation if a later node makes the whole.
  const bool is_part =
      found->guess.has_value() && found->guess->share >= kMostAreRight &&
      std::ranges::any_of(alone.edits, &FittingEdit::is_input_dropped);
  if (is_part) {
    search.sound_parts.push_back(suspect);
  } else {
    *found = std::move(alone);
  }
  return absl::OkStatus();
}

absl::Status Examine(CulpritSearch& search, NodeId suspect) {
  if (ReadsOpen(search, suspect)) {
    GiveUpOn(search, suspect);
    return search.ExplainFollowing(suspect);
  }
  NODEWISE_ASSIGN_OR_RETURN(
      const std::optional<Guess> moved,
      FindMovedBefore(search.walk, suspect, search.GuessLimit()));
  if (moved.has_value()) return FollowMisread(search, *moved);
  NODEWISE_ASSIGN_OR_RETURN(
      const std::vector<Guess> exchanged,
      FindExchangedBefore(search.walk, suspect, search.GuessLimit()));
  if (!exchanged.empty()) return FollowExchanged(search, exchanged);
  NODEWISE_ASSIGN_OR_RETURN(
      BlameFound blame, SearchBlame(search.walk, suspect, search.GuessLimit()));
  // Changes have a time of their own.
  search.budget = EditBudget(search.limits);
  if (blame.gave_up) search.budget.GiveUp();
  ExplainedGuess found{std::move(blame.guess), {}};
  const bool is_suspect =
      found.guess.has_value() && search.NodeOf(*found.guess) == suspect;
  if (found.guess.has_value()) {
    NODEWISE_ASSIGN_OR_RETURN(
        found.edits, EditsFor(search, *found.guess, is_suspect ? 1 : 2));
  }
  // A change that explains a later node says that the suspect is only a part
  // of it. Otherwise both may be wrong.
  if (!is_suspect && found.edits.empty()) {
    NODEWISE_RETURN_IF_ERROR(PreferSuspect(search, suspect, &found));
  }
  if (!found.guess.has_value()) {
    AddUnfollowed(search, suspect);
    return search.ExplainFollowing(suspect);
  }
  NODEWISE_ASSIGN_OR_RETURN(const bool is_right,
                            AcceptIfClean(search, *found.guess));
  return is_right ? absl::OkStatus()
                  : AddValueCulprit(search, *found.guess, found.edits);
}

// Outputs that no input changes have not been looked at so far.
absl::Status AddWrongConstants(CulpritSearch& search) {
  NODEWISE_ASSIGN_OR_RETURN(const auto wrong, FindWrongConstants(search.walk));
  for (const Guess& guess : wrong) {
    ValueCulprit culprit = CulpritOf(search, guess);
    culprit.operations = LikeliestWrong(search.walk.network(), culprit.region);
    for (size_t set = 0; set < search.walk.scene().pairs.size(); ++set) {
      culprit.sets.push_back(set);
    }
    Add(search, std::move(culprit));
  }
  return absl::OkStatus();
}

void FillEntries(CulpritSearch& search) {
  const std::vector<bool> fine = search.walk.SettledEntries();
  const std::vector<bool> behind = search.walk.EntriesBehindUnknown();
  std::vector<LocatedEntry>& entries = search.result.entries;
  for (const AlignedEntry& aligned : search.walk.scene().alignment.entries) {
    const uint32_t e = Index(aligned.entry);
    const WalkedEntry& walked = search.walk.entry(aligned.entry);
    const EntryState state =
        !aligned.varies ? EntryState::kConstant
        : walked.is_explained()
            ? (walked.is_blamed() ? EntryState::kBroken : EntryState::kHealthy)
        : fine[e] && !behind[e] ? EntryState::kOnTheWay
                                : EntryState::kUnknown;
    entries.push_back({state, walked.tensors, walked.distance});
  }
  for (const ValueCulprit& culprit : search.result.culprits) {
    entries[Index(culprit.entry)].state = EntryState::kBroken;
  }
}

absl::Status FindCulprits(CulpritSearch& search) {
  NODEWISE_RETURN_IF_ERROR(search.walk.ExplainNodes(0));
  while (search.result.culprits.size() < kMostCulprits) {
    search.budget = EditBudget(search.limits);
    const std::optional<NodeId> suspect = FirstSuspect(search.walk);
    NODEWISE_ASSIGN_OR_RETURN(const auto miss, FindNearMiss(search.walk));
    if (miss.has_value() &&
        (!suspect.has_value() || search.NodeOf(*miss) < *suspect)) {
      NODEWISE_RETURN_IF_ERROR(FollowWithEdits(search, *miss));
      continue;
    }
    if (suspect.has_value()) {
      NODEWISE_RETURN_IF_ERROR(Examine(search, *suspect));
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(
        const auto output, FindWrongOutput(search.walk, search.GuessLimit()));
    if (!output.has_value()) break;
    NODEWISE_RETURN_IF_ERROR(FollowMisread(search, *output));
  }
  return AddWrongConstants(search);
}

}  // namespace

absl::StatusOr<ValueLocateResult> LocateByValue(
    const GraphIndex& index, const Network& network,
    absl::Span<const RecordedPair> pairs, const Alignment& alignment,
    const OpSet& operators, const SearchLimits& limits) {
  const WalkScene scene{index, network, pairs, alignment};
  NODEWISE_ASSIGN_OR_RETURN(GraphWalk walk, GraphWalk::Create(scene));
  CulpritSearch search{std::move(walk), operators, limits, EditBudget(limits)};
  NODEWISE_RETURN_IF_ERROR(FindCulprits(search));
  FillEntries(search);
  NODEWISE_RETURN_IF_ERROR(FillLedger(scene, &search.result.entries));
  return std::move(search.result);
}

}  // namespace nodewise
