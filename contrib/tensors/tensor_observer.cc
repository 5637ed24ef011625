#include "nodewise/tensors/tensor_observer.h"

#include <utility>

#include "nodewise/graph/graph_index.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Each visit runs the network once more, with an observer that hands each
// tensor to the sink while it is still there.
class RunSource final : public TensorSource {
 public:
  RunSource(DebugExecutor* executor, TensorObserverOptions options)
      : executor_(*executor), options_(std::move(options)) {}

  const std::string& name() const override { return options_.source; }
  absl::Status Visit(TensorSink& sink) override {
    TensorObserver observer(executor_.index(), &sink, options_);
    executor_.AddObserver(&observer);
    absl::Status status = executor_.Restart();
    if (status.ok()) status = executor_.Continue();
    executor_.RemoveObserver(&observer);
    // The executor says in which node the sink's error came up.
    return observer.sink_status().ok() ? status : observer.sink_status();
  }

 private:
  DebugExecutor& executor_;
  const TensorObserverOptions options_;
};

}  // namespace

TensorObserver::TensorObserver(const GraphIndex& index, TensorSink* sink,
                               TensorObserverOptions options)
    : graph_(index.graph()), sink_(*sink), options_(std::move(options)) {
  const Graph& graph = graph_;
  // Keys are made once: making one for every tensor of every run would copy the
  // names of nodes each time. The order of keys_ is that of the entries, since
  // the entries of one node follow those of the node before it.
  keys_.reserve(graph.entries.size());
  read_keys_.resize(graph.nodes.size());
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    for (uint32_t slot = 0; slot < graph.OutputsOf(NodeId{n}); ++slot) {
      keys_.push_back(
          {index.KeyOf(NodeId{n}), slot, TensorRole::kOutput, options_.source});
    }
    for (uint32_t slot = 0;
         options_.with_node_inputs && slot < graph.nodes[n].inputs.size();
         ++slot) {
      read_keys_[n].push_back(
          {index.KeyOf(NodeId{n}), slot, TensorRole::kInput, options_.source});
    }
  }
}

bool TensorObserver::Sees(NodeId node) const {
  return options_.nodes.empty() || options_.nodes[Index(node)];
}

absl::Status TensorObserver::Emit(const TensorItem& item) {
  sink_status_ = sink_.Consume(item);
  return sink_status_;
}

absl::Status TensorObserver::BeforePass(const RunView& run) {
  // Inputs and parameters are there before the first node runs, and no node
  // makes them.
  sink_status_ = absl::OkStatus();
  for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
    const NodeId node{n};
    if (graph_.IsFunction(node) || !Sees(node)) continue;
    const EntryId entry = graph_.EntryOf(node, 0);
    NODEWISE_RETURN_IF_ERROR(Emit({.key = keys_[Index(entry)],
                                   .tensor = &run.TensorOf(entry),
                                   .is_network_input = true}));
  }
  return absl::OkStatus();
}

// A node may write over what it reads, so that its inputs are handed out before
// it runs, without a time.
absl::Status TensorObserver::BeforeNode(const NodeRun& node) {
  if (!options_.with_node_inputs || !Sees(node.node)) return absl::OkStatus();
  const std::vector<EntryRef>& refs = graph_.node(node.node).inputs;
  for (uint32_t slot = 0; slot < node.inputs.size(); ++slot) {
    const EntryId entry = graph_.EntryOf(refs[slot]);
    NODEWISE_RETURN_IF_ERROR(Emit({.key = read_keys_[Index(node.node)][slot],
                                   .tensor = node.inputs[slot],
                                   .origin = &keys_[Index(entry)]}));
  }
  return absl::OkStatus();
}

absl::Status TensorObserver::AfterNode(const NodeRun& node) {
  if (!Sees(node.node)) return absl::OkStatus();
  for (uint32_t slot = 0; slot < node.outputs.size(); ++slot) {
    const EntryId entry = graph_.EntryOf(node.node, slot);
    NODEWISE_RETURN_IF_ERROR(Emit({.key = keys_[Index(entry)],
                                   .tensor = node.outputs[slot],
                                   .time = node.time}));
  }
  return absl::OkStatus();
}

std::unique_ptr<TensorSource> SourceOfRuns(DebugExecutor* executor,
                                           TensorObserverOptions options) {
  return std::make_unique<RunSource>(executor, std::move(options));
}

}  // namespace nodewise
