#include "nodewise/debug/debug_executor.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "nodewise/func/c_errors.h"
#include "nodewise/graph/finding.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/run_mark.h"
#include "nodewise/support/status.h"
#include "runtime/debug/entry_values.h"

namespace nodewise {
namespace {

class RecordingObserver : public NodeObserver {
 public:
  // `is_alone`: no other observer watches the pass, so that nothing runs
  // between two nodes.
  RecordingObserver(DumpWriter* writer, bool is_alone)
      : writer_(writer), is_alone_(is_alone) {}

  absl::Status BeforePass(const RunView& run) override {
    const Graph& graph = run.graph();
    for (const NodeId node : AllNodes(graph)) {
      if (graph.IsFunction(node)) continue;
      for (const DLTensor* output : run.OutputsOf(node)) {
        writer_->Input(node, *output);
      }
    }
    return absl::OkStatus();
  }

  absl::Status BeforeNode(const NodeRun& node) override {
    writer_->WillRun(node.node, node.inputs, is_alone_);
    return absl::OkStatus();
  }

  absl::Status AfterNode(const NodeRun& node) override {
    if (node.floats != nullptr) {
      writer_->LeftFloatsChanged(*node.floats);
      NoteFloatFinding(
          FloatFinding(PlaceOf(node.run.index(), node.node), *node.floats));
    }
    writer_->DidRun(node.node, node.outputs, node.time);
    return absl::OkStatus();
  }

 private:
  DumpWriter* const writer_;
  const bool is_alone_;
};

// Inputs and free __nop have no call.
constexpr uint32_t kNoCall = UINT32_MAX;

}  // namespace

// The options are read twice: the plain executor keeps its part of them.
DebugExecutor::DebugExecutor(Graph graph, DebugOptions options)
    : GraphExecutor(std::move(graph), static_cast<Options>(options)),
      debug_options_(std::move(options)) {}

DebugExecutor::~DebugExecutor() = default;

absl::StatusOr<std::unique_ptr<DebugExecutor>> DebugExecutor::Create(
    Graph graph, Ref<Library> library, DebugOptions options) {
  std::unique_ptr<DebugExecutor> executor(
      new DebugExecutor(std::move(graph), std::move(options)));
  NODEWISE_RETURN_IF_ERROR(executor->Init(*library));
  NODEWISE_RETURN_IF_ERROR(executor->InitDebug());
  return executor;
}

// The pointers to all tensors are laid out once, one node after the other, so
// that observers are handed spans and no list is made while nodes run.
absl::Status DebugExecutor::InitDebug() {
  index_ = std::make_unique<const GraphIndex>(graph(), plan());
  call_of_ = ByNode<uint32_t>(graph(), kNoCall);
  for (uint32_t c = 0; c < calls().size(); ++c) call_of_[calls()[c].node] = c;
  first_tensor_ = ByNode<size_t>(graph());
  for (const NodeId node : AllNodes(graph())) {
    first_tensor_[node] = node_tensors_.size();
    for (const EntryRef& ref : graph().node(node).inputs) {
      node_tensors_.push_back(&tensor(graph().EntryOf(ref)));
    }
    for (const EntryId entry : EntriesMadeBy(graph(), node)) {
      node_tensors_.push_back(&tensor(entry));
    }
  }
  times_.nodes.resize(graph().nodes.size());
  patches_ = std::make_unique<Patches>(View());
  liveness_ = std::make_unique<Liveness>(
      index(), [this](EntryId entry) { return IsInSlot(entry); });
  BeginLiveness();
  if (!debug_options_.records) return absl::OkStatus();
  return StartRecording(std::move(debug_options_.record));
}

// A plan that fails leaves the previous one in place.
absl::Status DebugExecutor::StartRecording(RecordOptions record) {
  NODEWISE_ASSIGN_OR_RETURN(DumpPlan planned, PlanDump(index(), record));
  debug_options_.record = std::move(record);
  dump_plan_ = std::make_shared<const DumpPlan>(std::move(planned));
  return absl::OkStatus();
}

// A run that is under way has its own copy of the plan, and finishes its dump.
void DebugExecutor::StopRecording() {
  dump_plan_.reset();
  dump_folder_.clear();
  dump_status_ = absl::OkStatus();
}

TensorSpan DebugExecutor::InputsOf(NodeId node) const {
  return {node_tensors_.data() + first_tensor_[node],
          graph().node(node).inputs.size()};
}

TensorSpan DebugExecutor::OutputsOf(NodeId node) const {
  const size_t num_inputs = graph().node(node).inputs.size();
  return {node_tensors_.data() + first_tensor_[node] + num_inputs,
          graph().OutputsOf(node)};
}

void DebugExecutor::RemoveObserver(NodeObserver* observer) {
  // A visit that is under way goes by places, so the observer's place is only
  // emptied; it is dropped when no visit is left.
  std::replace(observers_.begin(), observers_.end(), observer,
               static_cast<NodeObserver*>(nullptr));
  DropRemoved();
}

// Observers may add and remove others while they are called; places stay until
// the last visit is over.
absl::Status DebugExecutor::VisitObservers(
    absl::FunctionRef<absl::Status(NodeObserver&)> visit) {
  ++visits_;
  const absl::Cleanup leave = [this] {
    --visits_;
    DropRemoved();
  };
  // By number, since an observer may add others, which are not called yet.
  const size_t count = observers_.size();
  for (size_t i = 0; i < count; ++i) {
    if (observers_[i] == nullptr) continue;
    NODEWISE_RETURN_IF_ERROR(visit(*observers_[i]));
  }
  return absl::OkStatus();
}

// Defined here, since run_observer.h must not know the executor.
const Graph& RunView::graph() const { return executor_->graph(); }

const StoragePlan& RunView::plan() const { return executor_->plan(); }

const GraphIndex& RunView::index() const { return executor_->index(); }

const DLTensor& RunView::TensorOf(EntryId entry) const {
  return executor_->TensorOf(entry);
}

TensorSpan RunView::InputsOf(NodeId node) const {
  return executor_->InputsOf(node);
}

TensorSpan RunView::OutputsOf(NodeId node) const {
  return executor_->OutputsOf(node);
}

// Observers hear of the end once for each pass: a pass may fail in a node and
// later be given up for the next one.
void DebugExecutor::NotifyPassEnded(const absl::Status& status) {
  if (!is_pass_told_) return;
  is_pass_told_ = false;
  (void)VisitObservers([&](NodeObserver& observer) {
    observer.AfterPass(View(), status);
    return absl::OkStatus();
  });
}

// Without anything that watches or changes the run, the fast loop does the
// same.
absl::Status DebugExecutor::Run() {
  if (dump_plan_ != nullptr) return RunRecorded();
  if (observers_.empty() && patches_->empty() && !invoker_) return RunTimed();
  NODEWISE_RETURN_IF_ERROR(Restart());
  return Continue();
}

// The plain executor's loop and one reading of the clock a node: the end of one
// node is the start of the next. Times are kept up to the node that failed or
// that the run was cancelled before.
absl::Status DebugExecutor::RunTimed() {
  GiveUpPass();
  NODEWISE_RETURN_IF_ERROR(PrepareRun());
  std::fill(times_.nodes.begin(), times_.nodes.end(), NodeTime());
  const CandidateFloatEnvironment floats;
  NodeTime* const times = times_.nodes.data();
  int64_t last = ClockNanoseconds();
  times_.whole = {last, last};
  MarkedRun mark;
  for (const Call& call : calls()) {
    if (IsCancelled()) [[unlikely]] {
      times_.whole.end_ns = last;
      LeavePass(call.node);
      return CancelledAt(call.node);
    }
    mark.BeginNode(Index(call.node));
    const int rc = call.function.Run();
    const int64_t now = ClockNanoseconds();
    times[Index(call.node)] = {last, now};
    last = now;
    if (rc != 0) [[unlikely]] {
      times_.whole.end_ns = now;
      LeavePass(call.node);
      return CallError(call);
    }
  }
  times_.whole.end_ns = last;
  EndPass();
  return FinishRun();
}

// An observer may start or stop recording, which is for the next run.
absl::Status DebugExecutor::RunRecorded() {
  const std::shared_ptr<const DumpPlan> recorded = dump_plan_;
  // TVM names the folder after the first device, where most of a graph lives.
  const DLDevice device =
      plan().slots.empty() ? kCpu : tensor(EntryId{0}).device;
  const auto writer =
      DumpWriter::Create(graph(), *recorded, debug_options_.record, device);
  const std::string folder = writer.ok() ? (*writer)->folder() : "";
  dump_folder_ = folder;
  dump_status_ = writer.status();
  RecordingObserver recorder(writer.ok() ? writer->get() : nullptr,
                             /*is_alone=*/observers_.empty());
  // A node's results are recorded before an observer can touch them.
  if (writer.ok()) observers_.insert(observers_.begin(), &recorder);
  absl::Cleanup remove = [&] { RemoveObserver(&recorder); };
  absl::Status status = Restart();
  if (status.ok()) status = Continue();
  std::move(remove).Invoke();
  dump_folder_ = folder;
  dump_status_ = writer.ok() ? (*writer)->Close(times_.nodes) : writer.status();
  return status;
}

// The mark says which node is under way, for a process that watches this one.
absl::Status DebugExecutor::CallNode(const Call& call) {
  MarkedRun mark;
  mark.BeginNode(Index(call.node));
  return call.function.Run() == 0 ? absl::OkStatus() : CallError(call);
}

// An invoker is code of others, and may throw.
absl::Status DebugExecutor::InvokeNode(NodeId node) {
  const uint32_t index = call_of_[node];
  if (index == kNoCall) return absl::OkStatus();
  const Call& call = calls()[index];
  if (!invoker_) return CallNode(call);
  try {
    return invoker_(node, [&] { return CallNode(call); });
  } catch (...) {
    return At(NodeTitle(graph(), node), StatusOfException("invoker"));
  }
}

// All that watches a node works in the thread's own floating-point environment,
// the node in that of compiled code.
absl::Status DebugExecutor::InvokeTimed(NodeId node,
                                        std::optional<FloatChange>* floats) {
  FloatWatch watch(puts_floats_back_);
  const int64_t start = ClockNanoseconds();
  absl::Status status = InvokeNode(node);
  const int64_t end = ClockNanoseconds();
  *floats = watch.Finish();
  NodeTime& time = times_.nodes[Index(node)];
  time = call_of_[node] == kNoCall ? NodeTime() : NodeTime{start, end};
  if (times_.whole.start_ns == 0) times_.whole.start_ns = time.start_ns;
  times_.whole.end_ns = std::max(times_.whole.end_ns, time.end_ns);
  return status;
}

absl::Status DebugExecutor::RunNode(NodeId node) {
  const WorkingOn on(graph().node(node).name);
  NODEWISE_RETURN_IF_ERROR(VisitObservers([&](NodeObserver& observer) {
    return observer.BeforeNode(RunOf(node, NodeTime()));
  }));
  const NodeTime& time = times_.nodes[Index(node)];
  std::optional<FloatChange> floats;
  if (!patches_->Replace(node)) {
    absl::Status status = InvokeTimed(node, &floats);
    if (!status.ok()) {
      liveness_->MarkLost(node);
      (void)VisitObservers([&](NodeObserver& observer) {
        observer.NodeFailed(RunOf(node, time), status);
        return absl::OkStatus();
      });
      return status;
    }
  }
  if (!patches_->empty()) {
    NODEWISE_RETURN_IF_ERROR(patches_->WriteOutputs(node));
  }
  liveness_->MarkComputed(node);
  return VisitObservers([&](NodeObserver& observer) {
    return observer.AfterNode(
        RunOf(node, time, floats.has_value() ? &*floats : nullptr));
  });
}

}  // namespace nodewise
