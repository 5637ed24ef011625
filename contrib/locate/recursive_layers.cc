#include <memory>
#include <utility>

#include "contrib/locate/layer_sides.h"
#include "contrib/locate/partial_graph.h"
#include "contrib/locate/peak_memory.h"
#include "nodewise/locate/layer_comparator.h"
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

// Runs the part that leads to a layer, and lets its memory go.
absl::StatusOr<std::vector<NamedTensor>> RunPart(const LayerSides& sides,
                                                 const LayerSides::Side& side,
                                                 Graph part,
                                                 TensorSink* sink = nullptr) {
  const std::vector<NamedTensor> inputs = sides.InputsOf(part);
  RunOptions options;
  options.sink = sink;
  options.with_node_inputs = true;
  const NodeId last{static_cast<uint32_t>(part.nodes.size() - 1)};
  const std::string key = GraphIndex(part).KeyOf(last);
  options.select = [&key](const std::string& one) { return one == key; };
  NODEWISE_ASSIGN_OR_RETURN(const auto runner,
                            sides.MakeRunner(side, std::move(part)));
  NODEWISE_ASSIGN_OR_RETURN(RunResult run, runner->Run(inputs, options));
  return std::move(run.outputs);
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

}  // namespace

absl::Status RecursiveLayerComparator::Compare(const LayerSides& sides) {
  const Graph& graph = sides.graph();
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const NodeId node{n};
    if (!IsLayer(graph, node)) continue;
    LayerValues values;
    {
      ReadKeeper keeper(graph, node);
      NODEWISE_ASSIGN_OR_RETURN(
          const auto made,
          RunPart(sides, sides.reference(),
                  WithSoundStorage(GraphUpTo(graph, node)), &keeper));
      values.read = ReadBy(sides, node, keeper);
      for (const NamedTensor& one : made) values.expected.push_back(one.tensor);
    }
    NODEWISE_ASSIGN_OR_RETURN(
        auto found, RunPart(sides, sides.candidate(), GraphUpTo(graph, node)));
    for (uint32_t slot = 0; slot < found.size(); ++slot) {
      auto compared = sides.CompareInNetwork(node, slot, values.expected[slot],
                                             *found[slot].tensor);
      if (compared.ok()) {
        values.in_network.push_back(*std::move(compared));
      } else {
        values.compared.Update(compared.status());
      }
    }
    found.clear();  // Before memory is needed to try it alone.
    NODEWISE_RETURN_IF_ERROR(Judge(sides, node, std::move(values)));
    ReturnFreedMemory();
  }
  return absl::OkStatus();
}

}  // namespace nodewise
