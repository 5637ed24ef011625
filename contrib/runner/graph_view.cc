#include "nodewise/runner/graph_view.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Takes the values of a network and hands them on as those of a graph, as soon
// as a node and all nodes before it are complete. A runner hands values out in
// the order of its own, in which a node with several outputs, or an unused one,
// may come late or never. Readers of graphs rely on the order of nodes, so
// tensors wait here until their node is next.
class NodeSink : public TensorSink {
 public:
  NodeSink(const Lowered& lowered, const GraphIndex& index,
           const std::string& source, const RunOptions& options)
      : graph_(lowered.graph),
        index_(index),
        source_(source),
        options_(options),
        tensors_(graph_),
        has_come_(graph_) {
    // Lowering has noted in the nodes which values of the network their outputs
    // are; outputs without a name are those that nothing else can see.
    for (const EntryId entry : AllEntries(graph_)) {
      const auto name = ValueNameOf(
          graph_, {Index(index.NodeOf(entry)), index.OutputOf(entry), 0});
      if (name.has_value()) entries_.emplace(*name, entry);
    }
    // Constants of the network do not come from the runner: the graph has them.
    for (const NamedTensor& param : lowered.params) {
      const auto found = entries_.find(param.name);
      if (found == entries_.end()) continue;
      tensors_[found->second] = param.tensor;
      has_come_[found->second] = true;
    }
  }

  absl::Status Consume(const TensorItem& item) override {
    const auto found = entries_.find(item.key.node);
    if (found == entries_.end()) return absl::OkStatus();
    if (item.tensor != nullptr) {
      NODEWISE_ASSIGN_OR_RETURN(tensors_[found->second], item.Keep());
    }
    has_come_[found->second] = true;
    // One value may complete a node for which several others have waited.
    while (next_ < graph_.nodes.size() && IsComplete(NodeId{next_})) {
      NODEWISE_RETURN_IF_ERROR(EmitNextNode());
    }
    return absl::OkStatus();
  }

  // Hands on what waited for something that never came. The run has ended well
  // by then, so what has not come was not handed out; the nodes are shown with
  // a reason in its place.
  absl::Status Finish() {
    while (next_ < graph_.nodes.size())
      NODEWISE_RETURN_IF_ERROR(EmitNextNode());
    return absl::OkStatus();
  }

 private:
  bool IsComplete(NodeId node) const {
    return std::ranges::all_of(
        EntriesMadeBy(graph_, node),
        [this](EntryId entry) { return bool{has_come_[entry]}; });
  }

  absl::Status EmitNextNode() {
    const NodeId node{next_++};
    const GraphNode& known = graph_.node(node);
    const std::string& key = index_.KeyOf(node);
    const bool is_seen = options_.Selects(key);
    for (uint32_t i = 0;
         is_seen && options_.with_node_inputs && i < known.inputs.size(); ++i) {
      const EntryId entry = graph_.EntryOf(known.inputs[i]);
      const TensorKey origin{index_.KeyOf(index_.NodeOf(entry)),
                             index_.OutputOf(entry), TensorRole::kOutput,
                             source_};
      NODEWISE_RETURN_IF_ERROR(
          Emit({key, i, TensorRole::kInput, source_}, entry, &origin));
    }
    for (uint32_t o = 0; is_seen && o < graph_.OutputsOf(node); ++o) {
      NODEWISE_RETURN_IF_ERROR(Emit({key, o, TensorRole::kOutput, source_},
                                    graph_.EntryOf(node, o), nullptr));
    }
    DropAfter(node);
    return absl::OkStatus();
  }

  absl::Status Emit(const TensorKey& key, EntryId entry,
                    const TensorKey* origin) const {
    TensorItem item = ItemOf(key, tensors_[entry]);
    if (item.tensor == nullptr) {
      item.why_absent = "the runner has not handed it out";
    }
    item.origin = origin;
    item.is_network_input = !graph_.IsFunction(index_.NodeOf(entry));
    return options_.sink->Consume(item);
  }

  void DropAfter(NodeId node) {
    const auto drop = [&](EntryId entry) {
      if (index_.LifetimeOf(entry).last_read <= int64_t{Index(node)}) {
        tensors_[entry] = NDArray();
      }
    };
    for (const EntryRef& ref : graph_.node(node).inputs) {
      drop(graph_.EntryOf(ref));
    }
    for (const EntryId made : EntriesMadeBy(graph_, node)) drop(made);
  }

  const Graph& graph_;
  const GraphIndex& index_;
  const std::string& source_;
  const RunOptions& options_;
  std::unordered_map<std::string, EntryId> entries_;  // By the value's name.
  ByEntry<NDArray> tensors_;
  ByEntry<bool> has_come_;
  uint32_t next_ = 0;  // The node that is handed on next.
};

class GraphView : public Runner {
 public:
  GraphView(std::unique_ptr<Runner> runner,
            std::shared_ptr<const Lowered> lowered)
      : runner_(std::move(runner)),
        lowered_(std::move(lowered)),
        index_(lowered_->graph) {}

  const std::string& name() const override { return runner_->name(); }
  const InputList& inputs() const override { return runner_->inputs(); }
  const std::vector<std::string>& outputs() const override {
    return runner_->outputs();
  }
  bool Can(Capability capability) const override {
    // A stop names a node of the graph, which need not be an operation of the
    // network: several may be fused in it. The tensors that nodes read are
    // known here without help of the runner, from those that others have made.
    if (capability == Capability::kSteps) return false;
    return capability == Capability::kNodeInputs || runner_->Can(capability);
  }

 protected:
  absl::StatusOr<RunResult> RunChecked(std::vector<NDArray> tensors,
                                       const RunOptions& options) override {
    // `select` names nodes, which the runner does not know, so it is applied
    // here; everything goes through the sink.
    RunOptions inner;
    NODEWISE_ASSIGN_OR_RETURN(inner.patches, NamePatches(options.patches));
    const std::vector<NamedTensor> inputs =
        NameGivenTensors(runner_->inputs(), std::move(tensors));
    if (options.sink == nullptr) {
      inner.repeats = options.repeats;
      return runner_->Run(inputs, inner);
    }
    absl::StatusOr<RunResult> result = Unknown("");
    std::vector<int64_t> durations_ns;
    for (uint64_t i = 0; i < options.repeats; ++i) {
      // Each repeat begins with a new one, since each hands out all tensors
      // again.
      NodeSink sink(*lowered_, index_, name(), options);
      inner.sink = &sink;
      result = runner_->Run(inputs, inner);
      if (!result.ok()) return result;
      NODEWISE_RETURN_IF_ERROR(sink.Finish());
      durations_ns.insert(durations_ns.end(), result->durations_ns.begin(),
                          result->durations_ns.end());
    }
    result->durations_ns = std::move(durations_ns);
    return result;
  }

 private:
  // The runner knows values by the network's names.
  absl::StatusOr<std::vector<TensorPatch>> NamePatches(
      std::vector<TensorPatch> patches) const {
    for (TensorPatch& patch : patches) {
      const auto entry = index_.FindEntry(patch.entry);
      if (!entry.ok()) return At(patch.where, entry.status());
      const auto value = ValueNameOf(
          lowered_->graph,
          {Index(index_.NodeOf(*entry)), index_.OutputOf(*entry), 0});
      // An entry without a name is an input of the graph, which is called as
      // the network calls it.
      if (value.has_value()) patch.entry = *value;
    }
    return patches;
  }

  const std::unique_ptr<Runner> runner_;
  const std::shared_ptr<const Lowered> lowered_;
  const GraphIndex index_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Lowered>> LowerObserved(
    const Network& network, const std::string& name,
    const std::vector<std::string>& observed) {
  const std::set<std::string> names(observed.begin(), observed.end());
  LowerOptions options;
  options.reuse_storage = false;
  options.is_observed = [&](const Network& all, ValueId id) {
    return names.contains(all.value(id).name);
  };
  NODEWISE_ASSIGN_OR_RETURN(Lowered lowered, Lower(network, name, options));
  return std::make_shared<const Lowered>(std::move(lowered));
}

std::unique_ptr<Runner> ViewAsGraph(std::unique_ptr<Runner> runner,
                                    std::shared_ptr<const Lowered> graph) {
  return std::make_unique<GraphView>(std::move(runner), std::move(graph));
}

}  // namespace nodewise
