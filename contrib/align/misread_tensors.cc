#include "contrib/align/misread_tensors.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr size_t kMostTried = 16;

// Whether the entry holds nothing but what its node has read, or what it holds
// in an order that compilers seldom choose.
bool MayBeMoved(const WalkScene& scene, const GraphWalk& walk, EntryId entry) {
  const WalkedEntry& walked = walk.entry(entry);
  if (!scene.index.graph().IsFunction(scene.index.NodeOf(entry)) ||
      !walked.is_explained() || walked.is_blamed || walked.is_accepted) {
    return false;
  }
  const auto is_in_order = [](const HeldTensor& tensor) {
    return tensor.layout.is_same_order() || tensor.layout.is_usual();
  };
  return walk.IsIdle(entry) || !std::any_of(walked.tensors.begin(),
                                            walked.tensors.end(), is_in_order);
}

// The tensors that the entry may be meant to hold, element for element: what it
// holds in another order, and what is made of that.
std::vector<ValueId> MeantBy(const GraphWalk& walk, EntryId entry) {
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
    if (meant.size() == kMostTried) break;
    if (!walk.IsPinned(id)) meant.push_back(id);
  }
  return meant;
}

bool IsInOrder(const WalkedEntry& entry, ValueId id) {
  return std::any_of(entry.tensors.begin(), entry.tensors.end(),
                     [id](const HeldTensor& tensor) {
                       return tensor.value == id &&
                              tensor.layout.is_same_order();
                     });
}

// In blocks of some side, as compilers lay tensors between their nodes.
bool IsInBlocks(const WalkedEntry& entry, ValueId id) {
  return std::any_of(entry.tensors.begin(), entry.tensors.end(),
                     [id](const HeldTensor& tensor) {
                       return tensor.value == id &&
                              !tensor.layout.is_same_order() &&
                              tensor.layout.is_usual();
                     });
}

// The guess that the output should hold the value, in its own shape.
Guess OutputGuess(EntryId entry, ValueId id,
                  const std::vector<int64_t>& expected,
                  const std::vector<int64_t>& shape) {
  Guess guess{entry, id, Layout::SameOrder(shape, shape),
              std::numeric_limits<double>::infinity(), 1};
  guess.has_output_shape = expected != shape;
  if (guess.has_output_shape) {
    guess.layout.other_shape = shape;
    guess.layout.text = "in another shape";
  }
  return guess;
}

// The moved entries that the node depends on, those far away first: as far as
// there is nothing else between, or all.
std::vector<EntryId> MovedBefore(const WalkScene& scene, const GraphWalk& walk,
                                 NodeId node, bool beyond_others) {
  const Graph& graph = scene.index.graph();
  std::vector<NodeId> nodes = {node};
  std::vector<EntryId> moved;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const EntryRef& ref : graph.node(nodes[i]).inputs) {
      const EntryId entry = graph.EntryOf(ref);
      const NodeId maker = scene.index.NodeOf(entry);
      const bool is_moved = MayBeMoved(scene, walk, entry);
      if ((!is_moved && !beyond_others) ||
          std::find(nodes.begin(), nodes.end(), maker) != nodes.end()) {
        continue;
      }
      if (is_moved) moved.push_back(entry);
      // A node that has computed something has not inherited the error.
      if (beyond_others || walk.IsIdle(entry)) nodes.push_back(maker);
    }
  }
  std::sort(moved.begin(), moved.end());
  moved.erase(std::unique(moved.begin(), moved.end()), moved.end());
  if (moved.size() > kMostTried) moved.resize(kMostTried);
  return moved;
}

// Finds the guess about one of the entries with which `is_right` is true of the
// walk that goes on from it as far as `last`.
template <typename IsRight>
absl::StatusOr<std::optional<Guess>> FindMeaning(
    const WalkScene& scene, const GraphWalk& walk,
    const std::vector<EntryId>& entries, NodeId last, const TimeLimit& limit,
    const IsRight& is_right) {
  const Graph& graph = scene.index.graph();
  for (const EntryId entry : entries) {
    for (const ValueId id : MeantBy(walk, entry)) {
      if (limit.IsOver()) return std::nullopt;
      GraphWalk trial = walk;
      const auto value = trial.reference().ValueOf(id);
      const std::vector<int64_t>& shape = graph.entry(entry).shape;
      if (!value.ok() || Product((*value)->facts.shape) != Product(shape)) {
        continue;
      }
      const Guess guess{entry, id,
                        Layout::SameOrder((*value)->facts.shape, shape),
                        std::numeric_limits<double>::infinity(), 1};
      trial.ReleaseBehind(id);
      NODEWISE_RETURN_IF_ERROR(
          trial.Blame(guess.entry, guess.value, guess.layout, guess.distance));
      const uint32_t next = Index(scene.index.NodeOf(entry)) + 1;
      for (uint32_t n = next; n <= Index(last); ++n) {
        NODEWISE_RETURN_IF_ERROR(trial.ExplainNode(NodeId{n}));
      }
      if (is_right(trial)) return guess;
    }
  }
  return std::nullopt;
}

// Finds the guess about an entry in another shape than the network has, with
// which the output is what the network makes of that.
absl::StatusOr<std::optional<Guess>> FindTurnedBefore(const WalkScene& scene,
                                                      const GraphWalk& walk,
                                                      EntryId output,
                                                      ValueId meant,
                                                      const TimeLimit& limit) {
  const Graph& graph = scene.index.graph();
  const NodeId last = scene.index.NodeOf(output);
  for (const EntryId entry : MovedBefore(scene, walk, last, true)) {
    for (const HeldTensor& held : walk.entry(entry).tensors) {
      const auto sizes = scene.network.value(held.value).type.sizes();
      const std::vector<int64_t>& shape = graph.entry(entry).shape;
      if (!sizes.has_value() || *sizes == shape ||
          held.layout.is_same_order()) {
        continue;
      }
      if (limit.IsOver()) return std::nullopt;
      Guess guess = OutputGuess(entry, held.value, *sizes, shape);
      guess.has_output_shape = false;
      GraphWalk trial = walk;
      trial.ReleaseBehind(guess.value);
      NODEWISE_RETURN_IF_ERROR(
          trial.Blame(guess.entry, guess.value, guess.layout, guess.distance));
      for (uint32_t n = Index(scene.index.NodeOf(entry)) + 1; n <= Index(last);
           ++n) {
        NODEWISE_RETURN_IF_ERROR(trial.ExplainNode(NodeId{n}));
      }
      const auto made = trial.reference().ValueOf(meant);
      if (made.ok() && (*made)->facts.shape == graph.entry(output).shape &&
          IsInOrder(trial.entry(output), meant)) {
        return guess;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::optional<Guess>> FindMovedBefore(const WalkScene& scene,
                                                     const GraphWalk& walk,
                                                     NodeId suspect,
                                                     const TimeLimit& limit) {
  const EntryId made = scene.index.graph().EntryOf(suspect, 0);
  if (walk.entry(made).is_explained()) return std::nullopt;
  return FindMeaning(scene, walk, MovedBefore(scene, walk, suspect, false),
                     suspect, limit, [made](const GraphWalk& trial) {
                       return trial.entry(made).is_explained();
                     });
}

absl::StatusOr<std::optional<Guess>> FindWrongOutput(const WalkScene& scene,
                                                     GraphWalk& walk,
                                                     const TimeLimit& limit) {
  const Graph& graph = scene.index.graph();
  const auto outputs = scene.network.outputs();
  // Without what is opaque, a network has other outputs.
  if (graph.heads.size() != outputs.size() || !scene.alignment.open.empty()) {
    return std::nullopt;
  }
  const std::vector<bool> behind_unknown = walk.EntriesBehindUnknown();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const EntryId entry = graph.EntryOf(graph.heads[i]);
    const WalkedEntry& walked = walk.entry(entry);
    if (!walked.is_explained() || walked.is_blamed ||
        behind_unknown[Index(entry)]) {
      continue;
    }
    const auto value = walk.reference().ValueOf(outputs[i]);
    NODEWISE_ASSIGN_OR_RETURN(const auto found, walk.Read(entry));
    if (!value.ok() || !found.has_value()) continue;
    const std::vector<int64_t>& expected = (*value)->facts.shape;
    const std::vector<int64_t>& shape = graph.entry(entry).shape;
    const bool is_in_order = IsInOrder(walked, outputs[i]);
    if ((is_in_order && expected == shape) || IsInBlocks(walked, outputs[i]) ||
        Product(expected) != Product(shape)) {
      continue;
    }
    const Guess here = OutputGuess(entry, outputs[i], expected, shape);
    const double distance = found->DistanceIn(here.layout, (*value)->tensors);
    NODEWISE_ASSIGN_OR_RETURN(const double clean,
                              walk.CleanDistanceOf(entry, outputs[i]));
    if (distance <= clean && expected == shape) continue;
    if (is_in_order) return here;
    if (expected != shape) {
      NODEWISE_ASSIGN_OR_RETURN(
          const std::optional<Guess> turned,
          FindTurnedBefore(scene, walk, entry, outputs[i], limit));
      return turned.has_value() ? turned : here;
    }
    // A tensor that was moved wrongly may have come here through other nodes.
    NODEWISE_ASSIGN_OR_RETURN(
        std::optional<Guess> before,
        FindMeaning(scene, walk,
                    MovedBefore(scene, walk, scene.index.NodeOf(entry), true),
                    scene.index.NodeOf(entry), limit,
                    [&](const GraphWalk& trial) {
                      return IsInOrder(trial.entry(entry), outputs[i]);
                    }));
    if (before.has_value()) return before;
    return here;
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<Guess>> FindWrongConstants(const WalkScene& scene,
                                                      GraphWalk& walk) {
  const Graph& graph = scene.index.graph();
  const auto outputs = scene.network.outputs();
  std::vector<Guess> wrong;
  if (graph.heads.size() != outputs.size() || !scene.alignment.open.empty()) {
    return wrong;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const EntryId entry = graph.EntryOf(graph.heads[i]);
    if (scene.alignment.entries[Index(entry)].varies) continue;
    const auto value = walk.reference().ValueOf(outputs[i]);
    if (!value.ok()) continue;
    const std::vector<int64_t>& expected = (*value)->facts.shape;
    const Layout layout = Layout::SameOrder(expected, expected);
    Guess guess{entry, outputs[i], layout, 0, 1};
    for (size_t set = 0; set < scene.pairs.size(); ++set) {
      const std::vector<NDArray>& made = scene.pairs[set].outputs;
      if (i >= made.size() || !HasNumbers(made[i].dtype())) continue;
      if (made[i].shape() != absl::MakeConstSpan(expected)) {
        guess.distance = std::numeric_limits<double>::infinity();
        continue;
      }
      TensorFacts facts{expected, made[i].dtype(), {StatsOf(*made[i])}};
      const TensorMatcher matcher(std::move(facts), {&made[i], 1});
      guess.distance =
          std::max(guess.distance,
                   matcher.DistanceInSet(layout, (*value)->tensors[set], 0));
    }
    NODEWISE_ASSIGN_OR_RETURN(const double clean,
                              walk.CleanDistanceOf(entry, outputs[i]));
    if (guess.distance > clean) wrong.push_back(std::move(guess));
  }
  return wrong;
}

}  // namespace nodewise
