#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "contrib/locate/layer_sides.h"
#include "contrib/locate/partial_graph.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/locate/layer_comparator.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Sees what layers make, by node and output.
class LayerSink : public TensorSink {
 public:
  explicit LayerSink(const LayerSides& sides) : sides_(sides) {
    for (uint32_t n = 0; n < sides.graph().nodes.size(); ++n) {
      const NodeId node{n};
      if (IsLayer(sides.graph(), node)) {
        nodes_.emplace(sides.index().KeyOf(node), node);
      }
    }
  }

  absl::Status Take(const TensorItem& item) override {
    const auto found = nodes_.find(item.key.node);
    if (found == nodes_.end() || item.tensor == nullptr ||
        item.key.role != TensorRole::kOutput) {
      return absl::OkStatus();
    }
    return TakeOutput(found->second, item);
  }

 protected:
  virtual absl::Status TakeOutput(NodeId node, const TensorItem& item) = 0;

  const LayerSides& sides_;

 private:
  std::unordered_map<std::string, NodeId> nodes_;  // By key.
};

// Keeps all that the reference makes.
class LayerKeeper : public LayerSink {
 public:
  explicit LayerKeeper(const LayerSides& sides)
      : LayerSink(sides), made_(sides.graph()) {}

  // Undefined for what no layer made.
  const NDArray& Made(EntryId entry) const { return made_[entry]; }

 protected:
  absl::Status TakeOutput(NodeId node, const TensorItem& item) override {
    const EntryId entry = sides_.graph().EntryOf(node, item.key.slot);
    NODEWISE_ASSIGN_OR_RETURN(made_[entry], item.Keep());
    return absl::OkStatus();
  }

 private:
  ByEntry<NDArray> made_;
};

// Compares what the candidate makes with that, and keeps nothing.
class MadeComparer : public LayerSink {
 public:
  MadeComparer(const LayerSides& sides, const LayerKeeper& reference)
      : LayerSink(sides),
        reference_(reference),
        values_(sides.graph()),
        slots_(sides.graph()) {}

  LayerValues& ValuesOf(NodeId node) { return values_[node]; }
  // For another run.
  void Forget() {
    values_ = ByNode<LayerValues>(sides_.graph());
    slots_ = ByNode<std::vector<uint32_t>>(sides_.graph());
  }

 protected:
  absl::Status TakeOutput(NodeId node, const TensorItem& item) override {
    LayerValues& values = ValuesOf(node);
    const NDArray& expected =
        reference_.Made(sides_.graph().EntryOf(node, item.key.slot));
    auto compared =
        sides_.CompareInNetwork(node, item.key.slot, expected, *item.tensor);
    if (!compared.ok()) {
      values.compared.Update(compared.status());
      return absl::OkStatus();
    }
    // A program hands out the outputs of a layer in any order.
    std::vector<uint32_t>& slots = slots_[node];
    const auto place =
        std::lower_bound(slots.begin(), slots.end(), item.key.slot);
    values.in_network.insert(
        values.in_network.begin() + (place - slots.begin()),
        *std::move(compared));
    slots.insert(place, item.key.slot);
    return absl::OkStatus();
  }

 private:
  const LayerKeeper& reference_;
  ByNode<LayerValues> values_;
  ByNode<std::vector<uint32_t>> slots_;  // Those of LayerValues::in_network.
};

}  // namespace

absl::Status IntermediateLayerComparator::Compare(LayerSides& sides) {
  const Graph& graph = sides.graph();
  const std::vector<NamedTensor> inputs = sides.InputsOf(graph);
  RunOptions options;
  LayerKeeper reference(sides);
  options.sink = &reference;
  NODEWISE_RETURN_IF_ERROR(
      sides.RunReference(WithSoundStorage(graph), inputs, options).status());
  LayerPart all{graph, {}};
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    all.nodes.push_back(NodeId{n});
  }
  MadeComparer candidate(sides, reference);
  options.sink = &candidate;
  NODEWISE_RETURN_IF_ERROR(
      sides.RunCandidate(all, inputs, options, [&] { candidate.Forget(); })
          .status());
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const NodeId node{n};
    if (!IsLayer(graph, node)) continue;
    LayerValues& values = candidate.ValuesOf(node);
    for (const EntryId entry : EntriesReadBy(graph, node)) {
      const bool is_made = reference.Made(entry).defined();
      values.read.push_back(is_made ? reference.Made(entry)
                                    : sides.GivenFor(entry));
    }
    for (uint32_t slot = 0; slot < graph.OutputsOf(node); ++slot) {
      values.expected.push_back(reference.Made(graph.EntryOf(node, slot)));
    }
    NODEWISE_RETURN_IF_ERROR(Judge(sides, node, std::move(values)));
  }
  return absl::OkStatus();
}

}  // namespace nodewise
