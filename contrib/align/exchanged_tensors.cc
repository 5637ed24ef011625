#include "contrib/align/exchanged_tensors.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr size_t kMostExchanges = 16;

class ExchangeSearch {
 public:
  ExchangeSearch(const WalkScene& scene, const GraphWalk& walk, NodeId suspect)
      : scene_(scene),
        graph_(scene.index.graph()),
        walk_(walk),
        suspect_(suspect) {}

  absl::StatusOr<std::vector<Guess>> Run(const TimeLimit& limit) {
    for (const EntryRef& ref : graph_.node(suspect_).inputs) {
      const EntryId read = graph_.EntryOf(ref);
      if (!MayBeMisread(read)) continue;
      size_t tried = 0;
      for (const ValueId id : ValuesLike(read)) {
        if (limit.IsOver() || tried++ == kMostExchanges) break;
        const std::vector<Guess> guesses = GuessesThat(read, id);
        if (guesses.empty()) continue;
        NODEWISE_ASSIGN_OR_RETURN(const bool is_right, IsRight(guesses));
        if (is_right) return guesses;
      }
    }
    return std::vector<Guess>();
  }

 private:
  bool MayBeMisread(EntryId entry) const {
    const WalkedEntry& walked = walk_.entry(entry);
    return graph_.IsFunction(scene_.index.NodeOf(entry)) &&
           walked.is_explained() && !walked.is_blamed && !walked.is_accepted &&
           !walk_.IsIdle(entry);
  }

  // Returns the values that are made of the same sources, in the same shape and
  // type.
  std::vector<ValueId> ValuesLike(EntryId entry) const {
    const WalkedEntry& walked = walk_.entry(entry);
    const TensorType& type = scene_.network.value(walked.tensors[0].value).type;
    std::vector<ValueId> like;
    for (const ValueId id :
         walk_.ReachableFrom(walk_.SourcesOf(scene_.index.NodeOf(entry)))) {
      const TensorType& other = scene_.network.value(id).type;
      if (!walked.Holds(id) && other.dtype == type.dtype &&
          other.sizes().has_value() && other.sizes() == type.sizes()) {
        like.push_back(id);
      }
    }
    return like;
  }

  // The guess that the entry should hold this value; if another one holds it,
  // that one should hold the entry's.
  std::vector<Guess> GuessesThat(EntryId entry, ValueId id) const {
    constexpr double kFar = std::numeric_limits<double>::infinity();
    const HeldTensor& held = walk_.entry(entry).tensors[0];
    std::vector<Guess> guesses = {{entry, id, held.layout, kFar, 1}};
    // Who alone makes a tensor of the network was meant to make it.
    const bool is_alone = walk_.HoldersOf(held.value).size() == 1;
    if (walk_.MayBeMeant(id)) return is_alone ? std::vector<Guess>() : guesses;
    const std::vector<EntryId> holders = walk_.HoldersOf(id);
    if (!is_alone || holders.size() != 1 || !MayBeMisread(holders[0])) {
      return {};
    }
    guesses.push_back({holders[0], held.value,
                       walk_.entry(holders[0]).tensors[0].layout, kFar, 1});
    return guesses;
  }

  // The nodes that read what is accused, and what they should be made of.
  std::map<NodeId, std::vector<ValueId>> ReadersOf(
      const std::vector<Guess>& guesses) const {
    std::map<NodeId, std::vector<ValueId>> readers;
    for (const Guess& guess : guesses) {
      for (const NodeId reader : scene_.index.ReadersOf(guess.entry)) {
        readers[reader].push_back(guess.value);
      }
    }
    return readers;
  }

  // Whether the node holds something that is made of each of these.
  bool IsExplained(const GraphWalk& walk, NodeId node,
                   const std::vector<ValueId>& of) const {
    const EntryId first = graph_.EntryOf(node, 0);
    if (!walk.entry(first).is_explained() || walk.IsIdle(first)) return false;
    return std::all_of(of.begin(), of.end(), [&](ValueId id) {
      const std::vector<ValueId> made = walk.ReachableFrom({id});
      return std::any_of(made.begin(), made.end(), [&](ValueId one) {
        return walk.entry(first).Holds(one);
      });
    });
  }

  // Whether the suspect is explained then, and more of the readers than one if
  // two entries are accused, and all nodes that were explained before still
  // are.
  absl::StatusOr<bool> IsRight(const std::vector<Guess>& guesses) const {
    GraphWalk trial = walk_;
    for (const Guess& guess : guesses) trial.ReleaseBehind(guess.value);
    for (const Guess& guess : guesses) {
      NODEWISE_RETURN_IF_ERROR(
          trial.Blame(guess.entry, guess.value, guess.layout, guess.distance));
    }
    size_t gained = 0;
    for (const auto& [reader, of] : ReadersOf(guesses)) {
      NODEWISE_RETURN_IF_ERROR(trial.ExplainNode(reader));
      const bool was_explained = IsExplained(walk_, reader, {});
      const bool is_explained = IsExplained(trial, reader, of);
      if (was_explained && !is_explained) return false;
      if (is_explained && !was_explained) ++gained;
      if (!is_explained && reader == suspect_) return false;
    }
    return gained >= guesses.size();
  }

  const WalkScene& scene_;
  const Graph& graph_;
  const GraphWalk& walk_;
  const NodeId suspect_;
};

}  // namespace

absl::StatusOr<std::vector<Guess>> FindExchangedBefore(const WalkScene& scene,
                                                       const GraphWalk& walk,
                                                       NodeId suspect,
                                                       const TimeLimit& limit) {
  return ExchangeSearch(scene, walk, suspect).Run(limit);
}

}  // namespace nodewise
