#include "nodewise/runner/debug_runner.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "fmt/format.h"
#include "nodewise/device/device.h"
#include "nodewise/graph/finding.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/ndarray/tensor_stats.h"
#include "nodewise/process/isolation.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/memory_use.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_observer.h"

namespace nodewise {
namespace {

// The time limit of one whole plain run. An hour is meant to be more than any
// network takes; a library that has shown faults may hang in this run, too.
constexpr int64_t kPlainRunLimitMs = 3'600'000;

// Has a plain executor of its own run and compared. A failure here is not one
// of the run that was debugged, so the result tells it and it is not returned
// as an error.
OutputCheck CheckWithPlain(
    const GraphTarget& target, absl::Span<const RunInput> inputs,
    absl::FunctionRef<absl::StatusOr<OutputCheck>(GraphExecutor&)> compare) {
  const auto plain = target.MakeExecutor(inputs);
  const auto compared = plain.ok() ? compare(**plain) : plain.status();
  if (compared.ok()) return *compared;
  constexpr std::string_view kRun = "plain run: ";
  const std::string_view why = MessageOf(compared.status());
  return {false, fmt::format("outputs: not compared, {}{}",
                             why.starts_with(kRun) ? "" : kRun, why)};
}

struct FoundPatch {
  const TensorPatch* patch;
  EntryId entry;
};

// Two patches of one memory would have the later one win, and the run would not
// be the one that was asked for.
absl::Status RefuseBoth(const FoundPatch& patch, const FoundPatch& other) {
  if (patch.entry == other.entry) {
    return InvalidArgument(
        "{}: entry {}: is given twice, expected once ({} has it too)",
        patch.patch->from, patch.patch->entry, other.patch->from);
  }
  return InvalidArgument(
      "{}: entry {}: shares its memory with {}, which {} is for, expected one "
      "of the two",
      patch.patch->from, patch.patch->entry, other.patch->entry,
      other.patch->from);
}

// A __nop's output is its input's memory, which changes with it. The user is
// told which, since a dump of the run shows the patch in all of them.
void NoteSharing(const FoundPatch& patch, const DebugExecutor& executor,
                 std::vector<std::string>* notes) {
  const GraphIndex& index = executor.index();
  const EntryId base = index.BaseOf(patch.entry);
  if (base == patch.entry) return;
  std::vector<std::string> names;
  for (const EntryId other : AllEntries(index.graph())) {
    if (index.BaseOf(other) != base || other == patch.entry) continue;
    names.push_back(index.OutputOf(other) == 0
                        ? index.KeyOf(index.NodeOf(other))
                        : index.KeyOf(other));
  }
  notes->push_back(
      fmt::format("{}: entry {} shares its memory with {} (patched with it)",
                  patch.patch->where, patch.patch->entry, ListOf(names, 8)));
}

// Notes which nodes leave the floating-point environment changed, and gives
// back what each node has freed if that is wanted.
class NodeWatcher : public NodeObserver {
 public:
  NodeWatcher(bool returns_memory, std::vector<NodeFloats>* found)
      : returns_memory_(returns_memory), found_(*found) {}

  absl::Status AfterNode(const NodeRun& node) override {
    if (node.floats != nullptr) Note(node);
    if (returns_memory_) ReturnFreedMemory();
    return absl::OkStatus();
  }

 private:
  void Note(const NodeRun& node) {
    const GraphIndex& index = node.run.index();
    const std::string& key = index.KeyOf(node.node);
    if (std::ranges::find(found_, key, &NodeFloats::key) != found_.end()) {
      return;
    }
    found_.push_back({key, *node.floats});
    NoteFloatFinding(FloatFinding(PlaceOf(index, node.node), *node.floats));
  }

  const bool returns_memory_;
  std::vector<NodeFloats>& found_;
};

// NDArray aligns to a power of two that is larger than what TVM promises (64
// bytes). Memory that begins 64 bytes behind such an address is aligned as TVM
// says and no better, so that kernels that ask for more fail here as they may
// fail elsewhere.
absl::StatusOr<NDArray> AllocateBarelyAligned(uint32_t, size_t bytes,
                                              DLDevice device) {
  constexpr size_t kPromised = 64;
  constexpr DLDataType kByte = {kDLUInt, 8, 1};
  static_assert(kTensorAlignment % (2 * kPromised) == 0);
  // With this bound the sum below cannot overflow.
  if (bytes > SIZE_MAX / 2) {
    return ResourceExhausted("there is not so much memory");
  }
  NODEWISE_ASSIGN_OR_RETURN(
      NDArray whole,
      NDArray::Empty({static_cast<int64_t>(bytes + kPromised)}, kByte, device));
  auto* const data = static_cast<uint8_t*>(whole.data()) + kPromised;
  return NDArray::BorrowBytes(data, bytes, device,
                              std::make_shared<NDArray>(std::move(whole)));
}

class DebugRunner : public GraphRunner {
 public:
  // `executor` is what `owned` points to.
  DebugRunner(std::shared_ptr<const GraphTarget> target,
              std::unique_ptr<GraphExecutor> owned, DebugExecutor& executor)
      : GraphRunner("debug", std::move(target), std::move(owned)),
        executor_(executor) {}

  bool Can(Capability capability) const override {
    return capability != Capability::kBounds &&
           capability != Capability::kDeterministic;
  }

 protected:
  absl::StatusOr<RunResult> RunChecked(std::vector<NDArray> tensors,
                                       const RunOptions& options) override {
    // Nothing remains from one run to the next, as Runner promises.
    executor_.ClearPatches();
    NODEWISE_RETURN_IF_ERROR(SetInputs(tensors));
    RunResult result;
    NODEWISE_RETURN_IF_ERROR(SetPatches(options.patches, &result));
    std::unique_ptr<TensorObserver> observer;
    if (options.sink != nullptr) observer = MakeObserver(options);
    if (observer != nullptr) executor_.AddObserver(observer.get());
    NodeWatcher watcher(options.in_little_memory, &result.floats);
    executor_.AddObserver(&watcher);
    executor_.SetPutsFloatsBack(!options.leaves_floats);
    const absl::Cleanup remove = [&] { executor_.RemoveObserver(&watcher); };
    // Little memory counts for the whole process as long as the object lives,
    // and kernels look at it when they end a run.
    std::optional<LowMemoryScope> little;
    if (options.in_little_memory) little.emplace();
    const NotedRun run("");
    const absl::Status status = RunPasses(options, &result);
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
  // Fails for two patches of one entry, or of two entries in the same memory:
  // only one could take effect.
  absl::Status SetPatches(const std::vector<TensorPatch>& patches,
                          RunResult* result) {
    const GraphIndex& index = executor_.index();
    std::vector<FoundPatch> applied;
    for (const TensorPatch& patch : patches) {
      const auto entry = index.FindEntry(patch.entry);
      if (!entry.ok()) return At(patch.where, entry.status());
      const FoundPatch found{&patch, *entry};
      const EntryId base = index.BaseOf(*entry);
      for (const FoundPatch& other : applied) {
        if (index.BaseOf(other.entry) == base) {
          return At(patch.where, RefuseBoth(found, other));
        }
      }
      // Such a patch sets an input of the graph for good, also through a __nop
      // of it.
      if (!index.graph().IsFunction(index.NodeOf(base))) ParamsChanged();
      NODEWISE_RETURN_IF_ERROR(
          At(patch.where, executor_.Patch(*entry, *patch.tensor)));
      NoteSharing(found, executor_, &result->notes);
      applied.push_back(found);
    }
    return absl::OkStatus();
  }

  std::unique_ptr<TensorObserver> MakeObserver(
      const RunOptions& options) const {
    TensorObserverOptions observer;
    observer.source = name();
    observer.with_node_inputs = options.with_node_inputs;
    // The observer takes the choice by node, so that a run asks for each name
    // once and not for each tensor.
    if (options.select) {
      for (const NodeId node : AllNodes(executor_.graph())) {
        const std::string& key = executor_.index().KeyOf(node);
        observer.nodes.push_back(options.select(key));
      }
    }
    return std::make_unique<TensorObserver>(executor_.index(), options.sink,
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
    // The name is looked up before the first node runs: a run may take minutes.
    if (!rule.node.empty()) {
      const auto node = executor_.index().FindNode(rule.node);
      if (!node.ok()) return At(rule.where, node.status());
      until = *node;
    }
    const DebugExecutor::StopRule holds_value =
        StopAtValues(executor_, rule.values.value_or(StopValues()));
    NODEWISE_RETURN_IF_ERROR(executor_.Restart());
    while (!executor_.AtEnd()) {
      // Nodes are run one by one, since values are looked for behind each of
      // them.
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
    for (const EntryId entry : EntriesMadeBy(graph, node)) {
      const DLDataType dtype = graph.entry(entry).dtype;
      // A type that has no numbers, such as a handle, may hold anything, so the
      // user is told that it was not searched.
      if (HasNumbers(dtype)) continue;
      result->unread.push_back({executor_.index().KeyOf(entry), dtype});
    }
  }

  absl::Status TakeOutputsOf(NodeId node, RunResult* result) const {
    for (const EntryId entry : EntriesMadeBy(executor_.graph(), node)) {
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
absl::StatusOr<std::unique_ptr<DebugExecutor>> MakeDebugExecutor(
    const GraphTarget& target, absl::Span<const RunInput> inputs,
    DebugExecutor::DebugOptions options) {
  options.devices = target.devices();
  NODEWISE_ASSIGN_OR_RETURN(
      auto executor,
      DebugExecutor::Create(target.graph(), target.artefact().library,
                            std::move(options)));
  NODEWISE_RETURN_IF_ERROR(target.SetAll(inputs, executor.get()));
  return executor;
}

ExecutorMaker MakerOfDebugExecutors(const GraphTarget& target,
                                    absl::Span<const RunInput> inputs,
                                    absl::Status* status) {
  return [&target, inputs, status](DebugExecutor::DebugOptions options) {
    options.records = false;
    auto executor = MakeDebugExecutor(target, inputs, std::move(options));
    if (status != nullptr) status->Update(executor.status());
    return executor;
  };
}

OutputCheck CheckAgainstPlain(const GraphTarget& target,
                              absl::Span<const RunInput> inputs,
                              const GraphExecutor& debugged) {
  return CheckWithPlain(
      target, inputs, [&](GraphExecutor& plain) -> absl::StatusOr<OutputCheck> {
        const NotedRun run("");
        NODEWISE_RETURN_IF_ERROR(plain.Run());
        return CompareOutputs(debugged, plain);
      });
}

OutputCheck CheckAgainstPlainChild(const GraphTarget& target,
                                   absl::Span<const RunInput> inputs,
                                   absl::Span<const NamedTensor> outputs) {
  return CheckWithPlain(
      target, inputs, [&](GraphExecutor& plain) -> absl::StatusOr<OutputCheck> {
        NODEWISE_RETURN_IF_ERROR(RunInChild(&plain, {kPlainRunLimitMs}));
        std::vector<NDArray> kept;
        for (const NamedTensor& output : outputs) kept.push_back(output.tensor);
        return CompareOutputs(kept, plain);
      });
}

absl::StatusOr<std::unique_ptr<Runner>> MakeDebugRunner(
    std::shared_ptr<const GraphTarget> target, NodeObserver* watcher,
    TensorAddresses addresses) {
  DebugExecutor::DebugOptions options;
  options.records = false;
  if (addresses == TensorAddresses::kBarelyAligned) {
    options.allocate = &AllocateBarelyAligned;
  }
  NODEWISE_ASSIGN_OR_RETURN(auto executor,
                            MakeDebugExecutor(*target, {}, std::move(options)));
  DebugExecutor& made = *executor;
  if (watcher != nullptr) made.AddObserver(watcher);
  return std::make_unique<DebugRunner>(std::move(target), std::move(executor),
                                       made);
}

}  // namespace nodewise
