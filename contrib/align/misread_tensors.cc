#include "contrib/align/misread_tensors.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr size_t kMostTried = 16;

bool Holds(const WalkedEntry& entry, ValueId id) {
  return std::any_of(
      entry.tensors.begin(), entry.tensors.end(),
      [id](const HeldTensor& tensor) { return tensor.value == id; });
}

// Whether the entry holds nothing but what its node has read.
bool IsIdle(const WalkScene& scene, const GraphWalk& walk, EntryId entry) {
  const Graph& graph = scene.index.graph();
  const NodeId node = scene.index.NodeOf(entry);
  const WalkedEntry& walked = walk.entry(entry);
  if (!graph.IsFunction(node) || !walked.is_explained() || walked.is_blamed ||
      walked.is_accepted) {
    return false;
  }
  const std::vector<EntryRef>& reads = graph.node(node).inputs;
  return std::all_of(
      walked.tensors.begin(), walked.tensors.end(),
      [&](const HeldTensor& tensor) {
        return std::any_of(
            reads.begin(), reads.end(), [&](const EntryRef& ref) {
              return Holds(walk.entry(graph.EntryOf(ref)), tensor.value);
            });
      });
}

// What the entry may be meant to hold, element for element: what it holds in
// another order, and what is made of that.
std::vector<ValueId> MeantBy(const GraphWalk& walk, EntryId entry) {
  std::vector<ValueId> meant;
  std::vector<ValueId> held;
  for (const HeldTensor& tensor : walk.entry(entry).tensors) {
    held.push_back(tensor.value);
    if (!tensor.layout.is_same_order()) meant.push_back(tensor.value);
  }
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

// The idle entries that the node depends on, those far away first: as far as
// there is nothing else between, or all.
std::vector<EntryId> IdleBefore(const WalkScene& scene, const GraphWalk& walk,
                                NodeId node, bool beyond_others) {
  const Graph& graph = scene.index.graph();
  std::vector<NodeId> nodes = {node};
  std::vector<EntryId> idle;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const EntryRef& ref : graph.node(nodes[i]).inputs) {
      const EntryId entry = graph.EntryOf(ref);
      const NodeId maker = scene.index.NodeOf(entry);
      const bool is_idle = IsIdle(scene, walk, entry);
      if ((!is_idle && !beyond_others) ||
          std::find(nodes.begin(), nodes.end(), maker) != nodes.end()) {
        continue;
      }
      nodes.push_back(maker);
      if (is_idle) idle.push_back(entry);
    }
  }
  std::sort(idle.begin(), idle.end());
  if (idle.size() > kMostTried) idle.resize(kMostTried);
  return idle;
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

}  // namespace

absl::StatusOr<std::optional<Guess>> FindIdleBefore(const WalkScene& scene,
                                                    const GraphWalk& walk,
                                                    NodeId suspect,
                                                    const TimeLimit& limit) {
  const EntryId made = scene.index.graph().EntryOf(suspect, 0);
  if (walk.entry(made).is_explained()) return std::nullopt;
  return FindMeaning(scene, walk, IdleBefore(scene, walk, suspect, false),
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
    // A part of a network may hand out its tensors in layouts of its own.
    const bool is_meant = IsInOrder(walked, outputs[i]) ||
                          (Holds(walked, outputs[i]) && expected != shape);
    if (is_meant || Product(expected) != Product(shape)) continue;
    const Layout layout = Layout::SameOrder(expected, shape);
    const double distance = found->DistanceIn(layout, (*value)->tensors);
    NODEWISE_ASSIGN_OR_RETURN(const double clean,
                              walk.CleanDistanceOf(entry, outputs[i]));
    if (distance <= clean) continue;
    // What was moved wrongly may have come here through others.
    NODEWISE_ASSIGN_OR_RETURN(
        std::optional<Guess> before,
        FindMeaning(scene, walk,
                    IdleBefore(scene, walk, scene.index.NodeOf(entry), true),
                    scene.index.NodeOf(entry), limit,
                    [&](const GraphWalk& trial) {
                      return IsInOrder(trial.entry(entry), outputs[i]);
                    }));
    if (before.has_value()) return before;
    return Guess{entry, outputs[i], layout, distance, 1};
  }
  return std::nullopt;
}

}  // namespace nodewise
