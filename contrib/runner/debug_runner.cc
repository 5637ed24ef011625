#include "nodewise/runner/debug_runner.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "fmt/format.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/device/device.h"
#include "nodewise/graph/finding.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/ndarray/tensor_stats.h"
#include "nodewise/process/isolation.h"
#include "nodewise/runner/graph_target.h"
#include "nodewise/runner/runner.h"
#include "nodewise/support/clock.h"
#include "nodewise/support/memory_use.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_observer.h"

namespace nodewise {
namespace {

// The time limit of one whole plain run.
constexpr int64_t kPlainRunLimitMs = 3'600'000;

OutputCheck CheckOf(const absl::StatusOr<OutputCheck>& compared) {
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

absl::Status RefuseBoth(const FoundPatch& patch, const FoundPatch& other) {
  if (patch.entry == other.entry) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: entry {}: is given twice, expected once ({} has it too)",
        patch.patch->from, patch.patch->entry, other.patch->from));
  }
  return absl::InvalidArgumentError(fmt::format(
      "{}: entry {}: shares its memory with {}, which {} is for, expected one "
      "of the two",
      patch.patch->from, patch.patch->entry, other.patch->entry,
      other.patch->from));
}

// A __nop's output is its input's memory, which changes with it.
void NoteSharing(const FoundPatch& patch, const DebugExecutor& executor,
                 std::vector<std::string>* notes) {
  const std::vector<uint32_t>& bases = executor.plan().base_of;
  const uint32_t base = bases[Index(patch.entry)];
  if (base == Index(patch.entry)) return;
  const GraphIndex& index = executor.index();
  std::vector<std::string> names;
  for (uint32_t entry = 0; entry < bases.size(); ++entry) {
    if (bases[entry] != base || entry == Index(patch.entry)) continue;
    const EntryId other{entry};
    names.push_back(index.OutputOf(other) == 0
                        ? index.KeyOf(index.NodeOf(other))
                        : index.KeyOf(other));
  }
  notes->push_back(
      fmt::format("{}: entry {} shares its memory with {} (patched with it)",
                  patch.patch->where, patch.patch->entry, ListOf(names, 8)));
}

// Gives back what each node has freed.
class MemoryReturner : public NodeObserver {
 public:
  absl::Status AfterNode(const NodeRun&) override {
    ReturnFreedMemory();
    return absl::OkStatus();
  }
};

// Notes who leaves the floating-point environment changed.
class FloatsObserver : public NodeObserver {
 public:
  explicit FloatsObserver(std::vector<NodeFloats>* found) : found_(*found) {}

  absl::Status AfterNode(const NodeRun& node) override {
    if (node.floats == nullptr) return absl::OkStatus();
    const GraphIndex& index = node.run.index();
    const std::string& key = index.KeyOf(node.node);
    const bool is_known = std::ranges::any_of(
        found_, [&](const NodeFloats& known) { return known.key == key; });
    if (is_known) return absl::OkStatus();
    found_.push_back({key, *node.floats});
    NoteFloatFinding(FloatFinding(PlaceOf(index, node.node), *node.floats));
    return absl::OkStatus();
  }

 private:
  std::vector<NodeFloats>& found_;
};
absl::StatusOr<NDArray> AllocateBarelyAligned(uint32_t, size_t bytes,
                                              DLDevice device) {
  constexpr size_t kPromised = 64;
  constexpr DLDataType kByte = {kDLUInt, 8, 1};
  static_assert(kTensorAlignment % (2 * kPromised) == 0);
  if (bytes > SIZE_MAX / 2) {
    return absl::ResourceExhaustedError("there is not so much memory");
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
    FloatsObserver floats(&result.floats);
    executor_.AddObserver(&floats);
    executor_.SetPutsFloatsBack(!options.leaves_floats);
    const absl::Cleanup remove = [&] { executor_.RemoveObserver(&floats); };
    MemoryReturner returner;
    std::optional<LittleMemory> little;
    if (options.in_little_memory) {
      little.emplace();
      executor_.AddObserver(&returner);
    }
    const NotedRun run("");
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
  const auto compare = [&]() -> absl::StatusOr<OutputCheck> {
    NODEWISE_ASSIGN_OR_RETURN(const auto plain, target.MakeExecutor(inputs));
    const NotedRun run("");
    NODEWISE_RETURN_IF_ERROR(plain->Run());
    return CompareOutputs(debugged, *plain);
  };
  return CheckOf(compare());
}

OutputCheck CheckAgainstPlainChild(const GraphTarget& target,
                                   absl::Span<const RunInput> inputs,
                                   absl::Span<const NamedTensor> outputs) {
  const auto compare = [&]() -> absl::StatusOr<OutputCheck> {
    NODEWISE_ASSIGN_OR_RETURN(const auto plain, target.MakeExecutor(inputs));
    NODEWISE_RETURN_IF_ERROR(RunInChild(plain.get(), {kPlainRunLimitMs}));
    std::vector<NDArray> kept;
    kept.reserve(outputs.size());
    for (const NamedTensor& output : outputs) kept.push_back(output.tensor);
    return CompareOutputs(kept, *plain);
  };
  return CheckOf(compare());
}

// Gives the executor the patches. Fails with kInvalidArgument for two patches
// of one entry, or of two entries in the same memory: only one could take
// effect. Adds a note for each patch that changes other entries too, by sharing
// their memory. Only in builds with USE_PROFILER.
absl::Status ApplyPatches(absl::Span<const TensorPatch> patches,
                          DebugExecutor* executor,
                          std::vector<std::string>* notes);

absl::Status ApplyPatches(absl::Span<const TensorPatch> patches,
                          DebugExecutor* executor,
                          std::vector<std::string>* notes) {
  const std::vector<uint32_t>& bases = executor->plan().base_of;
  std::vector<FoundPatch> applied;
  for (const TensorPatch& patch : patches) {
    const auto entry = executor->index().FindEntry(patch.entry);
    if (!entry.ok()) return At(patch.where, entry.status());
    const FoundPatch found{&patch, *entry};
    for (const FoundPatch& other : applied) {
      if (bases[Index(other.entry)] == bases[Index(found.entry)]) {
        return At(patch.where, RefuseBoth(found, other));
      }
    }
    NODEWISE_RETURN_IF_ERROR(
        At(patch.where, executor->Patch(found.entry, *patch.tensor)));
    NoteSharing(found, *executor, notes);
    applied.push_back(found);
  }
  return absl::OkStatus();
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
