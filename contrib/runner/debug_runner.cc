#include "contrib/runner/debug_runner.h"

#include <optional>
#include <utility>

#include "contrib/runner/graph_patches.h"
#include "contrib/runner/graph_runner.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/graph/named_outputs.h"
#include "nodewise/ndarray/tensor_stats.h"
#include "nodewise/runner/debug_target.h"
#include "nodewise/support/clock.h"
#include "nodewise/support/memory_use.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/tensor_observer.h"

namespace nodewise {
namespace {

// Gives back what each node has freed.
class MemoryReturner : public NodeObserver {
 public:
  absl::Status AfterNode(const NodeRun&) override {
    ReturnFreedMemory();
    return absl::OkStatus();
  }
};

class DebugRunner : public GraphRunner {
 public:
  // `executor` is what `owned` points to.
  DebugRunner(std::shared_ptr<const GraphTarget> target,
              std::unique_ptr<GraphExecutor> owned, DebugExecutor& executor)
      : GraphRunner("debug", std::move(target), std::move(owned)),
        executor_(executor) {}

  bool Can(Capability capability) const override {
    switch (capability) {
      case Capability::kTensors:
      case Capability::kNodeInputs:
      case Capability::kNodeTimes:
      case Capability::kPatches:
      case Capability::kSteps:
        return true;
      case Capability::kBounds:
      case Capability::kDeterministic:
        return false;
    }
    return false;
  }

 protected:
  absl::StatusOr<RunResult> RunChecked(std::vector<NDArray> tensors,
                                       const RunOptions& options) override {
    executor_.ClearPatches();
    NODEWISE_RETURN_IF_ERROR(SetInputs(tensors));
    RunResult result;
    NODEWISE_RETURN_IF_ERROR(SetPatches(options.patches, &result));
    std::unique_ptr<TensorObserver> observer;
    if (options.sink != nullptr) observer = MakeObserver(options);
    if (observer != nullptr) executor_.AddObserver(observer.get());
    MemoryReturner returner;
    std::optional<LittleMemory> little;
    if (options.in_little_memory) {
      little.emplace();
      executor_.AddObserver(&returner);
    }
    const absl::Status status = RunPasses(options, &result);
    if (options.in_little_memory) executor_.RemoveObserver(&returner);
    if (observer != nullptr) {
      executor_.RemoveObserver(observer.get());
      NODEWISE_RETURN_IF_ERROR(observer->sink_status());
    }
    NODEWISE_RETURN_IF_ERROR(status);
    if (!result.stopped.has_value()) {
      NODEWISE_ASSIGN_OR_RETURN(result.outputs, FetchOutputs(executor_));
    }
    return result;
  }

 private:
  // A patch sets an input of the graph for good, also through a __nop of it.
  absl::Status SetPatches(const std::vector<TensorPatch>& patches,
                          RunResult* result) {
    const GraphIndex& index = executor_.index();
    for (const TensorPatch& patch : patches) {
      const auto entry = index.FindEntry(patch.entry);
      if (!entry.ok()) continue;
      const NodeId maker = index.NodeOf(index.BaseOf(*entry));
      if (!index.graph().IsFunction(maker)) ParamsChanged();
    }
    return ApplyPatches(patches, &executor_, &result->notes);
  }

  std::unique_ptr<TensorObserver> MakeObserver(
      const RunOptions& options) const {
    TensorObserverOptions observer;
    observer.source = name();
    observer.with_node_inputs = options.with_node_inputs;
    if (options.select) {
      for (uint32_t n = 0; n < executor_.graph().nodes.size(); ++n) {
        const std::string& key = executor_.index().KeyOf(NodeId{n});
        observer.nodes.push_back(options.select(key));
      }
    }
    return std::make_unique<TensorObserver>(executor_.graph(), options.sink,
                                            std::move(observer));
  }

  absl::Status RunPasses(const RunOptions& options, RunResult* result) {
    if (!options.stop.has_value()) return RunAll(options, result);
    const int64_t start_ns = ClockNanoseconds();
    NODEWISE_ASSIGN_OR_RETURN(const std::optional<NodeId> node,
                              RunToStop(*options.stop, result));
    result->durations_ns.push_back(ClockNanoseconds() - start_ns);
    if (!node.has_value()) return absl::OkStatus();
    const GraphIndex& index = executor_.index();
    result->stopped->key = index.KeyOf(*node);
    result->stopped->title = index.TitleOf(*node);
    result->stopped->function = index.graph().node(*node).function;
    return TakeOutputsOf(*node, result);
  }

  // Runs to the node of the rule, to the first of its values or to the end.
  // Returns the node where it stopped.
  absl::StatusOr<std::optional<NodeId>> RunToStop(const StopRule& rule,
                                                  RunResult* result) {
    std::optional<NodeId> until;
    if (!rule.node.empty()) {
      const auto node = executor_.index().FindNode(rule.node);
      if (!node.ok()) return At(rule.where, node.status());
      until = *node;
    }
    const DebugExecutor::StopRule holds_value =
        StopAtValues(executor_, rule.values.value_or(StopValues()));
    NODEWISE_RETURN_IF_ERROR(executor_.Restart());
    while (!executor_.AtEnd()) {
      const NodeId node = executor_.Position();
      NODEWISE_RETURN_IF_ERROR(executor_.RunUntil(node));
      bool made_value = false;
      if (rule.values.has_value() && executor_.graph().IsFunction(node)) {
        AddUnread(node, result);
        NODEWISE_ASSIGN_OR_RETURN(made_value, holds_value(node));
      }
      if (!made_value && until != node) continue;
      result->stopped.emplace().made_value = made_value;
      return node;
    }
    return std::nullopt;
  }

  void AddUnread(NodeId node, RunResult* result) const {
    const Graph& graph = executor_.graph();
    for (uint32_t o = 0; o < graph.OutputsOf(node); ++o) {
      const EntryId entry = graph.EntryOf(node, o);
      const DLDataType dtype = graph.entry(entry).dtype;
      if (HasNumbers(dtype)) continue;
      result->unread.push_back({executor_.index().KeyOf(entry), dtype});
    }
  }

  absl::Status TakeOutputsOf(NodeId node, RunResult* result) const {
    const Graph& graph = executor_.graph();
    for (uint32_t o = 0; o < graph.OutputsOf(node); ++o) {
      const EntryId entry = graph.EntryOf(node, o);
      NODEWISE_ASSIGN_OR_RETURN(const NDArray array,
                                executor_.ReadEntry(entry));
      NODEWISE_ASSIGN_OR_RETURN(NDArray copy, array.CopyToHost());
      result->outputs.push_back(
          {executor_.index().KeyOf(entry), std::move(copy)});
    }
    return absl::OkStatus();
  }

  DebugExecutor& executor_;  // The base owns it.
};

}  // namespace

absl::StatusOr<std::unique_ptr<Runner>> MakeDebugRunner(
    std::shared_ptr<const GraphTarget> target, NodeObserver* watcher) {
  DebugExecutor::DebugOptions options;
  options.records = false;
  NODEWISE_ASSIGN_OR_RETURN(auto executor,
                            MakeDebugExecutor(*target, {}, std::move(options)));
  DebugExecutor& made = *executor;
  if (watcher != nullptr) made.AddObserver(watcher);
  return std::make_unique<DebugRunner>(std::move(target), std::move(executor),
                                       made);
}

}  // namespace nodewise
