#include "nodewise/align/value_locate.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "contrib/align/blame_search.h"
#include "contrib/align/culprit_names.h"
#include "contrib/align/error_ledger.h"
#include "contrib/align/exchanged_tensors.h"
#include "contrib/align/graph_walk.h"
#include "contrib/align/misread_tensors.h"
#include "contrib/align/operation_region.h"
#include "contrib/align/region_edits.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr size_t kMostCulprits = 16;
// A guess with which so many of the next nodes are right says something.
constexpr double kMostAreRight = 0.5;

bool LacksInput(const FittingEdit& edit) { return edit.is_input_dropped; }

class ValueLocator {
 public:
  ValueLocator(const WalkScene& scene, GraphWalk walk, const OpSet& operators,
               const SearchLimits& limits)
      : scene_(scene),
        walk_(std::move(walk)),
        operators_(operators),
        limits_(limits) {}

  absl::StatusOr<ValueLocateResult> Run() {
    NODEWISE_RETURN_IF_ERROR(walk_.ExplainFrom(0));
    while (result_.culprits.size() < kMostCulprits) {
      budget_.emplace(limits_);
      const std::optional<NodeId> suspect = FirstSuspect(scene_, walk_);
      NODEWISE_ASSIGN_OR_RETURN(const std::optional<Guess> miss,
                                FindNearMiss(scene_, walk_));
      if (miss.has_value() &&
          (!suspect.has_value() || NodeOf(*miss) < *suspect)) {
        NODEWISE_RETURN_IF_ERROR(FollowWithEdits(*miss));
        continue;
      }
      if (!suspect.has_value()) {
        NODEWISE_ASSIGN_OR_RETURN(const std::optional<Guess> output,
                                  FindWrongOutput(scene_, walk_, GuessLimit()));
        if (!output.has_value()) break;
        NODEWISE_RETURN_IF_ERROR(FollowMisread(*output));
        continue;
      }
      NODEWISE_RETURN_IF_ERROR(Examine(*suspect));
    }
    NODEWISE_RETURN_IF_ERROR(AddWrongConstants());
    FillEntries();
    NODEWISE_RETURN_IF_ERROR(FillLedger(scene_, &result_.entries));
    return std::move(result_);
  }

 private:
  // Returns whether the node may compute what the network does not have. A
  // guess about it would be one about something else.
  bool ReadsOpen(NodeId node) const {
    const std::vector<ValueId>& open = scene_.alignment.open;
    const std::vector<ValueId> sources = walk_.SourcesOf(node);
    return std::any_of(sources.begin(), sources.end(), [&](ValueId id) {
      return std::find(open.begin(), open.end(), id) != open.end();
    });
  }

  TimeLimit GuessLimit() const {
    return {limits_.clock, limits_.most_guess_ns};
  }

  NodeId NodeOf(const Guess& guess) const {
    return scene_.index.NodeOf(guess.entry);
  }

  // Says what is wrong with the suspect, or that it is right, and goes on.
  absl::Status Examine(NodeId suspect) {
    if (ReadsOpen(suspect)) {
      GiveUpOn(suspect);
      return walk_.ExplainFrom(Index(suspect) + 1);
    }
    NODEWISE_ASSIGN_OR_RETURN(
        const std::optional<Guess> moved,
        FindMovedBefore(scene_, walk_, suspect, GuessLimit()));
    if (moved.has_value()) return FollowMisread(*moved);
    NODEWISE_ASSIGN_OR_RETURN(
        const std::vector<Guess> exchanged,
        FindExchangedBefore(scene_, walk_, suspect, GuessLimit()));
    if (!exchanged.empty()) return FollowExchanged(exchanged);
    NODEWISE_ASSIGN_OR_RETURN(
        BlameFound found, SearchBlame(scene_, walk_, suspect, GuessLimit()));
    // Changes have a time of their own.
    budget_.emplace(limits_);
    if (found.gave_up) budget_->GiveUp();
    std::optional<Guess> guess = std::move(found.guess);
    const bool is_suspect = guess.has_value() && NodeOf(*guess) == suspect;
    std::vector<FittingEdit> edits;
    if (guess.has_value()) {
      NODEWISE_ASSIGN_OR_RETURN(edits, EditsFor(*guess, is_suspect ? 1 : 2));
    }
    // A change that explains a later node says that the suspect is only a part
    // of it. Otherwise both may be wrong.
    if (!is_suspect && edits.empty()) {
      NODEWISE_ASSIGN_OR_RETURN(const auto alone, ExplainAlone(suspect));
      // A suspect that lacks an optional input is a part, if a later node has
      // it all.
      const bool is_part =
          alone.has_value() && guess.has_value() &&
          guess->share >= kMostAreRight &&
          std::any_of(alone->second.begin(), alone->second.end(), &LacksInput);
      if (is_part) sound_parts_.push_back(suspect);
      if (alone.has_value() && !is_part) {
        guess = alone->first;
        edits = alone->second;
      }
    }
    if (!guess.has_value()) {
      AddUnfollowed(suspect);
      return walk_.ExplainFrom(Index(suspect) + 1);
    }
    NODEWISE_ASSIGN_OR_RETURN(const bool is_right, AcceptIfClean(*guess));
    return is_right ? absl::OkStatus() : Follow(*guess, edits);
  }

  // Takes the guess about its own node for right.
  absl::Status FollowWithEdits(const Guess& guess) {
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<FittingEdit> edits,
                              EditsFor(guess, 1));
    return Follow(guess, edits);
  }

  // Takes the guess for right if the entry's tensor, and what is behind it, had
  // been taken for another one.
  absl::Status FollowMisread(const Guess& guess) {
    with_moves_ = true;
    const auto edits = EditsFor(guess, 1);
    NODEWISE_RETURN_IF_ERROR(edits.status());
    walk_.ReleaseBehind(guess.value);
    const absl::Status status = Follow(guess, *edits);
    with_moves_ = false;
    return status;
  }

  // Takes for right the guesses about one such tensor, or two that are
  // exchanged.
  absl::Status FollowExchanged(const std::vector<Guess>& guesses) {
    for (const Guess& guess : guesses) walk_.ReleaseBehind(guess.value);
    for (const Guess& guess : guesses) {
      NODEWISE_RETURN_IF_ERROR(FollowMisread(guess));
      result_.culprits.back().is_exchanged = guesses.size() > 1;
    }
    return absl::OkStatus();
  }

  // Takes the guess for right, and looks at what lies behind it.
  absl::Status Follow(const Guess& guess,
                      const std::vector<FittingEdit>& edits) {
    ValueCulprit culprit;
    culprit.node = NodeOf(guess);
    culprit.entry = guess.entry;
    culprit.expected = guess.value;
    culprit.parts = PartsBefore(guess.entry);
    culprit.region = Region(guess);
    if (guess.has_output_shape) {
      culprit.output_shape = scene_.index.graph().entry(guess.entry).shape;
    }
    culprit.share_explained = guess.share;
    culprit.distance = std::numeric_limits<double>::infinity();
    const auto& nearest = walk_.entry(guess.entry).nearest;
    if (nearest.has_value() && nearest->value == guess.value) {
      culprit.distance = nearest->distance;
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto found, walk_.Read(guess.entry));
    culprit.gave_up = budget_->gave_up();
    culprit.edits_tried = budget_->tried();
    NameOperations(scene_.network, edits,
                   found.has_value() && found->IsOneNumber(), &culprit);
    NODEWISE_ASSIGN_OR_RETURN(const double distance, DistanceOf(guess));
    NODEWISE_RETURN_IF_ERROR(AddSets(guess, &culprit));
    NODEWISE_RETURN_IF_ERROR(
        walk_.Blame(guess.entry, guess.value, guess.layout, distance));
    culprit.alike = guess.alike;
    for (const HeldTensor& held : walk_.entry(guess.entry).tensors) {
      if (held.value != guess.value) culprit.alike.push_back(held.value);
    }
    NameAlike(scene_.network, &culprit);
    Add(std::move(culprit));
    return walk_.ExplainFrom(Index(NodeOf(guess)) + 1);
  }

  // Outputs that no input changes have not been looked at so far.
  absl::Status AddWrongConstants() {
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<Guess> wrong,
                              FindWrongConstants(scene_, walk_));
    for (const Guess& guess : wrong) {
      ValueCulprit culprit;
      culprit.node = NodeOf(guess);
      culprit.entry = guess.entry;
      culprit.expected = guess.value;
      culprit.distance = guess.distance;
      culprit.share_explained = guess.share;
      culprit.region = Region(guess);
      culprit.operations = Likeliest(scene_.network, culprit.region);
      for (size_t set = 0; set < scene_.pairs.size(); ++set) {
        culprit.sets.push_back(set);
      }
      Add(std::move(culprit));
    }
    return absl::OkStatus();
  }

  // A node with several outputs is one culprit.
  void Add(ValueCulprit culprit) {
    for (ValueCulprit& other : result_.culprits) {
      if (other.node == culprit.node) return Join(std::move(culprit), &other);
    }
    result_.culprits.push_back(std::move(culprit));
  }

  // The nodes without a tensor of the network that the entry is made by.
  std::vector<NodeId> PartsBefore(EntryId entry) const {
    constexpr size_t kMostParts = 16;
    const Graph& graph = scene_.index.graph();
    std::vector<NodeId> nodes = {scene_.index.NodeOf(entry)};
    for (size_t i = 0; i < nodes.size() && nodes.size() <= kMostParts; ++i) {
      for (const EntryRef& ref : graph.node(nodes[i]).inputs) {
        const EntryId read = graph.EntryOf(ref);
        const NodeId maker = scene_.index.NodeOf(read);
        if (scene_.alignment.entries[Index(read)].varies &&
            graph.IsFunction(maker) && !walk_.entry(read).is_explained() &&
            !walk_.entry(read).is_blamed && !walk_.IsSoundPart(read) &&
            std::find(sound_parts_.begin(), sound_parts_.end(), maker) ==
                sound_parts_.end()) {
          if (std::find(nodes.begin(), nodes.end(), maker) == nodes.end()) {
            nodes.push_back(maker);
          }
        }
      }
    }
    nodes.erase(nodes.begin());
    std::sort(nodes.begin(), nodes.end());
    return nodes;
  }

  std::vector<OperationId> Region(const Guess& guess) const {
    return RegionOf(scene_, walk_, guess.value, NodeOf(guess), with_moves_);
  }

  // Returns how far the entry is from what it should hold.
  absl::StatusOr<double> DistanceOf(const Guess& guess) {
    constexpr double kFar = std::numeric_limits<double>::infinity();
    NODEWISE_ASSIGN_OR_RETURN(const auto found, walk_.Read(guess.entry));
    const auto expected = walk_.reference().ValueOf(guess.value);
    if (!found.has_value() || !expected.ok()) return kFar;
    return found->DistanceIn(guess.layout, (*expected)->tensors);
  }

  // Goes on without a culprit if the entry holds what was guessed, as nearly as
  // may be, though it was not found.
  absl::StatusOr<bool> AcceptIfClean(const Guess& guess) {
    if (!guess.layout.other_shape.empty()) return false;
    NODEWISE_ASSIGN_OR_RETURN(const auto found, walk_.Read(guess.entry));
    const auto value = walk_.reference().ValueOf(guess.value);
    if (!found.has_value() || !value.ok()) return false;
    const double distance = found->DistanceIn(guess.layout, (*value)->tensors);
    NODEWISE_ASSIGN_OR_RETURN(const double clean,
                              walk_.CleanDistanceOf(guess.entry, guess.value));
    if (distance > clean) return false;
    NODEWISE_RETURN_IF_ERROR(
        walk_.Accept(guess.entry, guess.value, guess.layout, distance));
    NODEWISE_RETURN_IF_ERROR(walk_.ExplainFrom(Index(NodeOf(guess)) + 1));
    return true;
  }

  // Says with which sets of inputs the entry is wrong.
  absl::Status AddSets(const Guess& guess, ValueCulprit* culprit) {
    NODEWISE_ASSIGN_OR_RETURN(const auto found, walk_.Read(guess.entry));
    const auto value = walk_.reference().ValueOf(guess.value);
    NODEWISE_ASSIGN_OR_RETURN(const double clean,
                              walk_.CleanDistanceOf(guess.entry, guess.value));
    if (!found.has_value() || !value.ok()) return absl::OkStatus();
    const bool is_of_size = guess.layout.other_shape.empty();
    for (size_t set = 0; set < scene_.pairs.size(); ++set) {
      const bool is_wrong =
          !is_of_size || found->DistanceInSet(
                             guess.layout, (*value)->tensors[set], set) > clean;
      if (is_wrong) culprit->sets.push_back(set);
    }
    culprit->differs_in_finite =
        !is_of_size || culprit->sets.empty() ||
        found->FiniteDistanceIn(guess.layout, (*value)->tensors) > clean;
    return absl::OkStatus();
  }

  // Returns the guess about a node that a small change explains, regardless of
  // the nodes behind it, and the change.
  absl::StatusOr<std::optional<std::pair<Guess, std::vector<FittingEdit>>>>
  ExplainAlone(NodeId node) {
    const Graph& graph = scene_.index.graph();
    for (uint32_t output = 0; output < graph.OutputsOf(node); ++output) {
      const EntryId entry = graph.EntryOf(node, output);
      if (walk_.entry(entry).is_explained()) continue;
      NODEWISE_ASSIGN_OR_RETURN(const std::vector<Guess> guesses,
                                NearGuesses(entry));
      size_t left = guesses.size();
      for (const Guess& guess : guesses) {
        // The nearest ones are likelier, and have half of what there is.
        NODEWISE_ASSIGN_OR_RETURN(std::vector<FittingEdit> edits,
                                  EditsFor(guess, std::min<size_t>(left--, 2)));
        if (edits.empty()) continue;
        Guess found = guess;
        found.alike = walk_.SharedWith(guess.value);
        return std::pair(std::move(found), std::move(edits));
      }
    }
    return std::nullopt;
  }

  // Returns a few guesses about the entry that few operations are between, of
  // its size and of another one.
  absl::StatusOr<std::vector<Guess>> NearGuesses(EntryId entry) const {
    constexpr size_t kMostTensors = 4;
    constexpr size_t kMostOperations = 8;
    constexpr size_t kMostOfASort = 4;
    NODEWISE_ASSIGN_OR_RETURN(
        std::vector<Guess> guesses,
        GuessesFor(scene_, walk_, entry, kMostTensors, GuessLimit()));
    std::stable_sort(guesses.begin(), guesses.end(),
                     [this](const Guess& a, const Guess& b) {
                       return Region(a).size() < Region(b).size();
                     });
    size_t of_size = 0;
    size_t of_other_size = 0;
    std::erase_if(guesses, [&](const Guess& guess) {
      if (Region(guess).size() > kMostOperations) return true;
      const bool is_of_size = guess.layout.other_shape.empty();
      return ++(is_of_size ? of_size : of_other_size) > kMostOfASort;
    });
    return guesses;
  }

  // Looks for changes that explain the wrong tensor, with one of so many parts
  // of what may still be tried.
  absl::StatusOr<std::vector<FittingEdit>> EditsFor(const Guess& guess,
                                                    size_t parts) {
    NODEWISE_ASSIGN_OR_RETURN(const auto found, walk_.Read(guess.entry));
    if (!found.has_value()) return std::vector<FittingEdit>();
    NODEWISE_ASSIGN_OR_RETURN(const double clean,
                              walk_.CleanDistanceOf(guess.entry, guess.value));
    EditBudget part = budget_->Part(parts);
    const std::vector<OperationId> region = Region(guess);
    // A value of the region that another node was found to hold is not what
    // this one has made.
    GraphWalk inside = walk_;
    for (const OperationId id : region) {
      for (const ValueId made : scene_.network.operation(id).outputs) {
        if (made != kNoValue) inside.reference().Unpin(made);
      }
    }
    auto edits = FindEdits(
        {inside, *found, guess.value, guess.layout, region, operators_, clean},
        &part);
    budget_->Spend(part);
    if (part.gave_up()) budget_->GiveUp();
    return edits;
  }

  // Nothing tells which tensor it should have made: the nearest one that there
  // is, in its place or after it.
  void AddUnfollowed(NodeId suspect) {
    ValueCulprit culprit;
    culprit.node = suspect;
    culprit.entry = GiveUpOn(suspect);
    // It may compute a part of what is opaque.
    if (!scene_.alignment.open.empty()) return;
    culprit.gave_up = budget_->gave_up();
    culprit.edits_tried = budget_->tried();
    culprit.distance = std::numeric_limits<double>::infinity();
    for (const ValueId id : walk_.ReachableFrom(walk_.SourcesOf(suspect))) {
      if (walk_.IsPinned(id)) continue;
      const auto sizes = scene_.network.value(id).type.sizes();
      if (!sizes.has_value()) continue;
      bool fits = false;
      VisitLayouts(*sizes, scene_.index.graph().entry(culprit.entry).shape,
                   [&](const Layout&) {
                     fits = true;
                     return false;
                   });
      if (!fits) continue;
      culprit.expected = id;
      culprit.region = RegionOf(scene_, walk_, id, suspect);
      culprit.operations = Likeliest(scene_.network, culprit.region);
      break;
    }
    Add(std::move(culprit));
  }

  // Returns the first output of the node that is not fine.
  EntryId GiveUpOn(NodeId node) {
    const Graph& graph = scene_.index.graph();
    const std::vector<bool> fine = walk_.FineEntries();
    std::optional<EntryId> first;
    for (uint32_t output = 0; output < graph.OutputsOf(node); ++output) {
      const EntryId entry = graph.EntryOf(node, output);
      if (fine[Index(entry)]) continue;
      if (!first.has_value()) first = entry;
      walk_.GiveUp(entry);
    }
    return first.value_or(graph.EntryOf(node, 0));
  }

  void FillEntries() {
    const std::vector<bool> fine = walk_.FineEntries();
    const std::vector<bool> behind = walk_.EntriesBehindUnknown();
    for (const AlignedEntry& aligned : scene_.alignment.entries) {
      const WalkedEntry& walked = walk_.entry(aligned.entry);
      LocatedEntry entry;
      entry.tensors = walked.tensors;
      entry.distance = walked.distance;
      if (!aligned.varies) {
        entry.state = EntryState::kConstant;
      } else if (walked.is_blamed && walked.is_explained()) {
        entry.state = EntryState::kBroken;
      } else if (walked.is_explained()) {
        entry.state = EntryState::kHealthy;
      } else {
        const bool is_judged =
            fine[Index(aligned.entry)] && !behind[Index(aligned.entry)];
        entry.state = is_judged ? EntryState::kOnTheWay : EntryState::kUnknown;
      }
      result_.entries.push_back(std::move(entry));
    }
    for (const ValueCulprit& culprit : result_.culprits) {
      result_.entries[Index(culprit.entry)].state = EntryState::kBroken;
    }
  }

  const WalkScene& scene_;
  GraphWalk walk_;
  const OpSet& operators_;
  const SearchLimits& limits_;
  // The budget for the culprit that is looked at.
  std::optional<EditBudget> budget_;
  // Right, though the walk does not explain them.
  std::vector<NodeId> sound_parts_;
  bool with_moves_ = false;  // RegionOf().
  ValueLocateResult result_;
};

}  // namespace

absl::StatusOr<ValueLocateResult> LocateByValue(
    const GraphIndex& index, const Network& network,
    absl::Span<const RecordedPair> pairs, const Alignment& alignment,
    const OpSet& operators, const SearchLimits& limits) {
  const WalkScene scene{index, network, pairs, alignment};
  NODEWISE_ASSIGN_OR_RETURN(GraphWalk walk, GraphWalk::Create(scene));
  return ValueLocator(scene, std::move(walk), operators, limits).Run();
}

}  // namespace nodewise
