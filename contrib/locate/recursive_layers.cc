#include <utility>

#include "contrib/locate/layer_sides.h"
#include "contrib/locate/partial_graph.h"
#include "nodewise/locate/layer_comparator.h"
#include "nodewise/support/memory_use.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Keeps what one node reads of other nodes.
class ReadKeeper : public TensorSink {
 public:
  ReadKeeper(const Graph& graph, NodeId node)
      : read_(graph.node(node).inputs.size()) {
    for (const EntryRef& ref : graph.node(node).inputs) {
      is_kept_.push_back(graph.IsFunction(NodeId{ref.node}));
    }
  }

  absl::Status Take(const TensorItem& item) override {
    if (item.key.role != TensorRole::kInput || item.tensor == nullptr ||
        item.key.slot >= read_.size() || !is_kept_[item.key.slot]) {
      return absl::OkStatus();
    }
    NODEWISE_ASSIGN_OR_RETURN(read_[item.key.slot], item.Keep());
    return absl::OkStatus();
  }

  // By input; undefined for what the network was given.
  const std::vector<NDArray>& read() const { return read_; }

 private:
  std::vector<NDArray> read_;
  std::vector<bool> is_kept_;
};

// How a part is run whose last node alone is looked at.
RunOptions OptionsOf(const Graph& part, TensorSink* sink) {
  RunOptions options;
  options.sink = sink;
  options.with_node_inputs = true;
  options.in_little_memory = true;
  const NodeId last{static_cast<uint32_t>(part.nodes.size() - 1)};
  options.select = [key = GraphIndex(part).KeyOf(last)](
                       const std::string& one) { return one == key; };
  return options;
}

// What the node read, each entry once.
std::vector<NDArray> ReadBy(const LayerSides& sides, NodeId node,
                            const ReadKeeper& keeper) {
  std::vector<NDArray> read;
  const std::vector<EntryRef>& refs = sides.graph().node(node).inputs;
  for (const EntryId entry : EntriesReadBy(sides.graph(), node)) {
    NDArray tensor;
    for (size_t slot = 0; slot < refs.size(); ++slot) {
      if (sides.graph().EntryOf(refs[slot]) == entry) {
        tensor = keeper.read()[slot];
        break;
      }
    }
    read.push_back(tensor.defined() ? tensor : sides.GivenFor(entry));
  }
  return read;
}

// What the last node of a part reads and makes on the reference.
absl::StatusOr<LayerValues> RunOnReference(
    const LayerSides& sides, const LayerPart& part,
    const std::vector<NamedTensor>& inputs) {
  const NodeId node = part.nodes.back();
  ReadKeeper keeper(sides.graph(), node);
  NODEWISE_ASSIGN_OR_RETURN(
      const RunResult run,
      sides.RunReference(WithSoundStorage(part.graph), inputs,
                         OptionsOf(part.graph, &keeper)));
  LayerValues values;
  values.read = ReadBy(sides, node, keeper);
  for (const NamedTensor& made : run.outputs) {
    values.expected.push_back(made.tensor);
  }
  return values;
}

}  // namespace

absl::Status RecursiveLayerComparator::Compare(LayerSides& sides) {
  ReturnLargeBlocksAtOnce();
  const Graph& graph = sides.graph();
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const NodeId node{n};
    if (!IsLayer(graph, node)) continue;
    LayerPart part;
    part.graph = GraphUpTo(graph, node, &part.nodes);
    const std::vector<NamedTensor> inputs = sides.InputsOf(part.graph);
    NODEWISE_ASSIGN_OR_RETURN(LayerValues values,
                              RunOnReference(sides, part, inputs));
    ReturnFreedMemory();
    NODEWISE_ASSIGN_OR_RETURN(
        RunResult found,
        sides.RunCandidate(part, inputs, OptionsOf(part.graph, nullptr)));
    for (uint32_t slot = 0; slot < found.outputs.size(); ++slot) {
      auto compared = sides.CompareInNetwork(node, slot, values.expected[slot],
                                             *found.outputs[slot].tensor);
      if (compared.ok()) {
        values.in_network.push_back(*std::move(compared));
      } else {
        values.compared.Update(compared.status());
      }
    }
    found.outputs.clear();  // Before memory is needed to try it alone.
    ReturnFreedMemory();
    NODEWISE_RETURN_IF_ERROR(Judge(sides, node, std::move(values)));
    ReturnFreedMemory();
  }
  return absl::OkStatus();
}

}  // namespace nodewise
