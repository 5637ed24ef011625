#include "contrib/align/operation_region.h"

#include <algorithm>
#include <set>

namespace nodewise {
namespace {

// More operations than these no compiler does twice.
constexpr size_t kMostDoneTwice = 8;

class RegionFinder {
 public:
  RegionFinder(const WalkScene& scene, const GraphWalk& walk, NodeId node,
               bool with_moves)
      : network_(scene.network),
        walk_(walk),
        reads_(ReadsOf(scene, walk, node)),
        with_moves_(with_moves) {}

  std::vector<OperationId> Run(ValueId value) {
    std::set<OperationId> region;
    std::vector<ValueId> waiting = {value};
    while (!waiting.empty()) {
      const NetworkValue& next = network_.value(waiting.back());
      waiting.pop_back();
      if (next.kind != NetworkValue::Kind::kOutput ||
          !region.insert(next.producer).second) {
        continue;
      }
      for (const ValueId input : network_.operation(next.producer).inputs) {
        if (input != kNoValue && !IsEnd(input)) waiting.push_back(input);
      }
    }
    std::vector<OperationId> ordered;
    for (const OperationId id : network_.order()) {
      if (region.count(id) > 0) ordered.push_back(id);
    }
    return ordered;
  }

 private:
  // What the node reads, and those before it that hold no tensor.
  static std::vector<EntryId> ReadsOf(const WalkScene& scene,
                                      const GraphWalk& walk, NodeId node) {
    constexpr size_t kMostNodes = 16;
    const Graph& graph = scene.index.graph();
    std::vector<NodeId> nodes = {node};
    std::vector<EntryId> reads;
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (const EntryRef& ref : graph.node(nodes[i]).inputs) {
        const EntryId read = graph.EntryOf(ref);
        reads.push_back(read);
        const NodeId maker = scene.index.NodeOf(read);
        if (walk.entry(read).is_explained() || nodes.size() == kMostNodes ||
            !graph.IsFunction(maker) ||
            std::find(nodes.begin(), nodes.end(), maker) != nodes.end()) {
          continue;
        }
        nodes.push_back(maker);
      }
    }
    return reads;
  }

  bool IsEnd(ValueId id) const {
    if (!walk_.IsPinned(id)) return false;
    if (IsRead(id)) {
      return !MayBeMadeHere(id) && !(with_moves_ && IsMoved(id));
    }
    return !IsMadeOfReads(id);
  }

  // Inputs of the operation that makes it, but for constants.
  std::vector<ValueId> MadeOf(ValueId id) const {
    std::vector<ValueId> made_of;
    const NetworkValue& value = network_.value(id);
    if (value.kind != NetworkValue::Kind::kOutput) return made_of;
    for (const ValueId input : network_.operation(value.producer).inputs) {
      if (input == kNoValue ||
          network_.value(input).kind == NetworkValue::Kind::kConstant) {
        continue;
      }
      made_of.push_back(input);
    }
    return made_of;
  }

  bool IsRead(ValueId id) const {
    return std::any_of(reads_.begin(), reads_.end(), [&](EntryId read) {
      return walk_.entry(read).Holds(id);
    });
  }

  // Whether not all of those that are alike are read, so that the node may have
  // made this one.
  bool MayBeMadeHere(ValueId id) const {
    const std::vector<ValueId> shared = walk_.SharedWith(id);
    const std::ptrdiff_t read = std::count_if(
        reads_.begin(), reads_.end(),
        [&](EntryId read) { return walk_.entry(read).Holds(id); });
    return static_cast<size_t>(read) <= shared.size() && IsMadeOfReads(id);
  }

  // Whether a few operations make it of what is read.
  bool IsMadeOfReads(ValueId id) const {
    std::vector<ValueId> waiting = {id};
    for (size_t done = 0; !waiting.empty(); ++done) {
      const ValueId next = waiting.back();
      waiting.pop_back();
      if (network_.value(next).kind != NetworkValue::Kind::kOutput ||
          done == kMostDoneTwice) {
        return false;
      }
      for (const ValueId one : MadeOf(next)) {
        if (!IsRead(one)) waiting.push_back(one);
      }
    }
    return true;
  }

  bool IsMoved(ValueId id) const {
    const std::vector<ValueId> made_of = MadeOf(id);
    for (const EntryId holder : walk_.HoldersOf(id)) {
      for (const ValueId one : made_of) {
        if (walk_.entry(holder).Holds(one)) return true;
      }
    }
    return false;
  }

  const Network& network_;
  const GraphWalk& walk_;
  const std::vector<EntryId> reads_;
  const bool with_moves_;
};

}  // namespace

std::vector<OperationId> RegionOf(const WalkScene& scene, const GraphWalk& walk,
                                  ValueId value, NodeId node, bool with_moves) {
  return RegionFinder(scene, walk, node, with_moves).Run(value);
}

}  // namespace nodewise
