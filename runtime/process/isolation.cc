#include "nodewise/process/isolation.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "nodewise/debug/run_observer.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/finding.h"
#include "nodewise/process/process_state.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "runtime/process/child_process.h"

namespace nodewise {
namespace {

// Returns what a child's end says about its node. An error of the node already
// begins with the node's title, which the place of the finding says too.
Finding FindingOf(const ChildEnd& end, NodePlace place, int64_t limit_ms) {
  const std::string text = end.ToString(limit_ms);
  switch (end.kind) {
    case ChildEnd::Kind::kReturned: {
      const std::string prefix = place.title + ": ";
      std::string_view message = text;
      if (message.starts_with(prefix)) message.remove_prefix(prefix.size());
      return MakeFinding(isolation_kinds::kNodeError, std::move(place),
                         std::string(message));
    }
    case ChildEnd::Kind::kSignal: {
      std::vector<FindingNumber> numbers = {{"signal", int64_t{end.signal}}};
      if (end.has_address) numbers.push_back({"address", end.address});
      return MakeFinding(isolation_kinds::kCrash, std::move(place), text,
                         std::move(numbers));
    }
    case ChildEnd::Kind::kTimeout:
      return MakeFinding(isolation_kinds::kTimeout, std::move(place), text,
                         {{"time_limit_ms", limit_ms}});
    case ChildEnd::Kind::kExit:
      return MakeFinding(isolation_kinds::kExit, std::move(place), text,
                         {{"exit_status", int64_t{end.exit_status}}});
    case ChildEnd::Kind::kVanished:
      break;
  }
  return MakeFinding(isolation_kinds::kExit, std::move(place), text);
}

// The floating-point environment that a node has left, as its child tells it.
using LeftFloats = std::optional<FloatChange>;

// Returns an error if the node has changed what later ones rely on. Checked in
// the child, where the node has run: the parent would see none of it.
absl::Status CheckSideEffects(const ArgumentRecord& arguments,
                              const ProcessState& process) {
  constexpr size_t kNamedChanges = 3;
  const std::string change = arguments.FindChange();
  if (!change.empty()) return absl::AbortedError(change);
  const auto changes = process.ChangesIn(ProcessState::Capture());
  if (changes.empty()) return absl::OkStatus();
  return absl::AbortedError("left the process changed: " +
                            ListOf(changes, kNamedChanges));
}

// Takes the place of the call of each node: forks, has the child call the node
// and put the outputs into shared memory, and copies them from there into the
// parent's tensors. The parent goes on from memory that no node has touched but
// for those copies, so one that crashes costs its outputs and nothing else.
class Isolation {
 public:
  Isolation(DebugExecutor* executor, const IsolationOptions& options,
            ChildRunner runner, SharedMemory outputs, SharedMemory floats)
      : executor_(executor),
        options_(options),
        runner_(std::move(runner)),
        outputs_(std::move(outputs)),
        floats_(std::move(floats)),
        left_floats_(new (floats_.get()) LeftFloats),
        has_failed_(executor->graph()),
        has_run_(executor->graph()) {}

  // The invoker that was set before is put back, also after an error.
  absl::StatusOr<IsolationReport> Run() {
    DebugExecutor::Invoker theirs = executor_->SetInvoker(
        [this](NodeId node, absl::FunctionRef<absl::Status()> call) {
          return Invoke(node, call);
        });
    const absl::Cleanup restore = [&] {
      executor_->SetInvoker(std::move(theirs));
    };
    NODEWISE_RETURN_IF_ERROR(executor_->Run());
    FindTainted();
    return std::move(report_);
  }

  // Returns the maximum size of one node's outputs together.
  static size_t SharedBytes(const DebugExecutor& executor) {
    size_t most = 0;
    for (const NodeId node : AllNodes(executor.graph())) {
      size_t bytes = 0;
      for (const EntryId entry : EntriesMadeBy(executor.graph(), node)) {
        bytes += executor.index().BytesOf(entry);
      }
      most = std::max(most, bytes);
    }
    return most;
  }

 private:
  // The status of a node that fails is OK: the run goes on, and the finding
  // says what happened. A real error is one of the system, such as no memory
  // for a child.
  absl::Status Invoke(NodeId node, absl::FunctionRef<absl::Status()> call) {
    left_floats_->reset();
    const auto work = [&] {
      const ArgumentRecord arguments(executor_->InputsOf(node),
                                     executor_->OutputsOf(node));
      const ProcessState process = ProcessState::Capture();
      FloatWatch watch(/*puts_back=*/true);
      absl::Status status = call();
      *left_floats_ = watch.Finish();
      if (status.ok()) status = CheckSideEffects(arguments, process);
      if (status.ok()) CopyOutputs(node, /*is_child=*/true);
      return status;
    };
    NODEWISE_ASSIGN_OR_RETURN(const ChildEnd end,
                              runner_.Run(work, options_.time_limit_ms));
    ++report_.nodes;
    has_run_[node] = true;
    NodePlace place = PlaceOf(executor_->index(), node);
    if (left_floats_->has_value()) {
      report_.findings.push_back(FloatFinding(place, **left_floats_));
    }
    if (end.kind == ChildEnd::Kind::kReturned && end.status.ok()) {
      CopyOutputs(node, /*is_child=*/false);
      return absl::OkStatus();
    }
    report_.findings.push_back(
        FindingOf(end, std::move(place), options_.time_limit_ms));
    has_failed_[node] = true;
    return absl::OkStatus();
  }

  void CopyOutputs(NodeId node, bool is_child) {
    // Both sides walk the outputs in the same order, so no offsets need to be
    // passed.
    uint8_t* shared = outputs_.get();
    for (const EntryId entry : EntriesMadeBy(executor_->graph(), node)) {
      void* const own = DataOf(executor_->TensorOf(entry));
      const size_t bytes = executor_->index().BytesOf(entry);
      if (bytes == 0) continue;
      std::memcpy(is_child ? shared : own, is_child ? own : shared, bytes);
      shared += bytes;
    }
  }

  // A node is tainted if it reads a bad entry; all outputs of a tainted or
  // failed node are bad, unless a patch gives them their contents. One pass is
  // enough, since nodes read entries of earlier nodes alone.
  void FindTainted() {
    const Graph& graph = executor_->graph();
    ByEntry<bool> is_bad(graph);
    for (const NodeId node : AllNodes(graph)) {
      const auto& inputs = graph.node(node).inputs;
      const bool is_tainted = std::any_of(
          inputs.begin(), inputs.end(),
          [&](const EntryRef& ref) { return is_bad[graph.EntryOf(ref)]; });
      if (is_tainted && has_run_[node]) report_.tainted.push_back(node);
      if (!is_tainted && !has_failed_[node]) continue;
      for (const EntryId entry : EntriesMadeBy(graph, node)) {
        is_bad[entry] = !executor_->IsPatched(entry);
      }
    }
  }

  DebugExecutor* executor_;
  const IsolationOptions& options_;
  ChildRunner runner_;
  SharedMemory outputs_;
  SharedMemory floats_;  // LeftFloats.
  LeftFloats* const left_floats_;
  IsolationReport report_;
  ByNode<bool> has_failed_;
  ByNode<bool> has_run_;
};

}  // namespace

// Memory of a device belongs to the process that opened it, so every entry must
// be on the host.
absl::StatusOr<IsolationReport> RunIsolated(DebugExecutor* executor,
                                            const IsolationOptions& options) {
  NODEWISE_RETURN_IF_ERROR(CheckTimeLimit(options.time_limit_ms));
  for (const EntryId entry : AllEntries(executor->graph())) {
    const DLDevice device = executor->TensorOf(entry).device;
    if (DeviceTypeOf(device) == kDLCPU) continue;
    return Unimplemented(
        "node {} is on {}, expected cpu(0) (a device does not survive a fork)",
        Index(executor->index().NodeOf(entry)), ToString(device));
  }
  NODEWISE_ASSIGN_OR_RETURN(ChildRunner runner, ChildRunner::Create());
  NODEWISE_ASSIGN_OR_RETURN(SharedMemory outputs,
                            ShareMemory(Isolation::SharedBytes(*executor)));
  NODEWISE_ASSIGN_OR_RETURN(SharedMemory floats,
                            ShareMemory(sizeof(LeftFloats)));
  return Isolation(executor, options, std::move(runner), std::move(outputs),
                   std::move(floats))
      .Run();
}

// The outputs come back one after the other in shared memory that is as large
// as all of them.
absl::Status RunInChild(GraphExecutor* executor,
                        const IsolationOptions& options) {
  NODEWISE_RETURN_IF_ERROR(CheckTimeLimit(options.time_limit_ms));
  std::vector<NDArray> outputs;
  size_t bytes = 0;
  for (size_t i = 0; i < executor->NumOutputs(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(NDArray output, executor->GetOutput(i));
    bytes += output.bytes();
    outputs.push_back(std::move(output));
  }
  NODEWISE_ASSIGN_OR_RETURN(ChildRunner runner, ChildRunner::Create());
  NODEWISE_ASSIGN_OR_RETURN(const SharedMemory shared, ShareMemory(bytes));
  const auto work = [&]() -> absl::Status {
    NODEWISE_RETURN_IF_ERROR(executor->Run());
    uint8_t* to = shared.get();
    for (const NDArray& output : outputs) {
      NODEWISE_RETURN_IF_ERROR(CopyToBytes(*output, to, output.bytes()));
      to += output.bytes();
    }
    return absl::OkStatus();
  };
  NODEWISE_ASSIGN_OR_RETURN(const ChildEnd end,
                            runner.Run(work, options.time_limit_ms));
  if (end.kind != ChildEnd::Kind::kReturned) {
    NodePlace place;
    place.title = "plain run";
    return absl::AbortedError(
        FindingOf(end, place, options.time_limit_ms).ToString());
  }
  NODEWISE_RETURN_IF_ERROR(end.status);
  const uint8_t* from = shared.get();
  for (const NDArray& output : outputs) {
    NODEWISE_RETURN_IF_ERROR(CopyFromBytes(from, output.bytes(), *output));
    from += output.bytes();
  }
  return absl::OkStatus();
}

}  // namespace nodewise
