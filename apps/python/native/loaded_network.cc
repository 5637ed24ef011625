#include "apps/python/native/loaded_network.h"

#include <algorithm>

#include "nodewise/graph/finding.h"
#include "nodewise/runner/debug_runner.h"
#include "nodewise/runner/network_runner.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Only such sizes can be decided by giving inputs; others come from the data.
bool HasOpenInputs(const Network& network) {
  const auto list = ListInputs(network);
  for (size_t i = 0; i < list->size(); ++i) {
    if (!list->Type(i).is_static()) return true;
  }
  return false;
}

// Inputs and parameters are nodes of a graph, too, which nothing runs.
std::vector<NodeId> FunctionNodes(const Graph& graph) {
  std::vector<NodeId> nodes;
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.IsFunction(NodeId{n})) nodes.push_back(NodeId{n});
  }
  return nodes;
}

// Only inputs of other types or shapes make another graph.
bool HasTypeOf(const NDArray& a, const NDArray& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape();
}

// Keeps the tensor of one name, and ends the run if it is cancelled.
class KeepingSink : public TensorSink {
 public:
  KeepingSink(std::string wanted, const std::atomic<bool>& cancel)
      : wanted_(std::move(wanted)), cancel_(cancel) {}

  absl::Status Consume(const TensorItem& item) override {
    if (cancel_.load(std::memory_order_relaxed)) {
      return Cancelled("the run was cancelled");
    }
    if (item.key.Name() != wanted_) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(kept_, item.Keep());
    return absl::OkStatus();
  }

  const NDArray& kept() const { return kept_; }

 private:
  const std::string wanted_;
  const std::atomic<bool>& cancel_;
  NDArray kept_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedNetwork>> LoadedNetwork::Open(
    TargetSpec spec, const std::atomic<bool>* cancel,
    DiagnosticList* diagnostics) {
  std::unique_ptr<LoadedNetwork> loaded(
      new LoadedNetwork(std::move(spec), cancel));
  NODEWISE_RETURN_IF_ERROR(loaded->OpenFirst(diagnostics));
  NODEWISE_RETURN_IF_ERROR(loaded->Set(loaded->spec_.inputs.tensors));
  return loaded;
}

// The sizes of a model are left open here, so that it can be given others.
absl::Status LoadedNetwork::OpenFirst(DiagnosticList* diagnostics) {
  TargetSpec spec = spec_;
  spec.keeps_open_sizes = true;
  if (IsModelOrText(spec.path)) spec.inputs.tensors.clear();
  InputFiles files;
  NODEWISE_ASSIGN_OR_RETURN(session_,
                            OpenWithoutInputs(spec, &files, diagnostics));
  if (session_.network != nullptr && HasOpenInputs(*session_.network)) {
    open_ = session_.network;
    return absl::OkStatus();
  }
  return MakeReady();
}

// What is a graph runs under the debug executor, all else in the reference.
absl::Status LoadedNetwork::MakeReady() {
  outputs_.clear();
  if (session_.target == nullptr) {
    NODEWISE_ASSIGN_OR_RETURN(runner_, MakeNetworkRunner(session_));
    return absl::OkStatus();
  }
  DebugExecutor::DebugOptions options;
  options.records = false;
  options.cancel = cancel_;
  NODEWISE_ASSIGN_OR_RETURN(
      executor_, MakeDebugExecutor(*session_.target, {}, std::move(options)));
  outputs_.resize(executor_->NumOutputs());
  return absl::OkStatus();
}

std::vector<LoadedNetwork::Input> LoadedNetwork::Inputs() const {
  // With open sizes the model is asked, whose types say what is open; the graph
  // has only the sizes that were given last.
  std::unique_ptr<const InputList> own;
  const InputList* list = nullptr;
  if (session_.target != nullptr && open_ == nullptr) {
    list = &session_.target->inputs();
  } else {
    own = ListInputs(open_ != nullptr ? *open_ : *session_.network);
    list = own.get();
  }
  std::vector<Input> inputs;
  for (size_t i = 0; i < list->size(); ++i) {
    inputs.push_back({list->Key(i), list->Type(i), list->IsNeeded(i)});
  }
  return inputs;
}

// While sizes are open there is neither an executor nor a runner, and then the
// list is empty.
std::vector<std::string> LoadedNetwork::Nodes() const {
  std::vector<std::string> keys;
  if (executor_ != nullptr) {
    for (const NodeId node : FunctionNodes(executor_->graph())) {
      keys.push_back(executor_->index().KeyOf(node));
    }
  } else if (runner_ != nullptr) {
    for (const OperationId id : session_.network->order()) {
      keys.push_back(session_.network->operation(id).name);
    }
  }
  return keys;
}

// The names are known before the sizes are, so that they can be asked for
// first.
std::vector<std::string> LoadedNetwork::Outputs() const {
  std::vector<std::string> names;
  if (executor_ != nullptr) {
    for (size_t i = 0; i < executor_->NumOutputs(); ++i) {
      names.push_back(executor_->OutputInfo(i).name);
    }
    return names;
  }
  const Network& network = open_ != nullptr ? *open_ : *session_.network;
  for (const ValueId output : network.outputs()) {
    names.push_back(network.value(output).name);
  }
  return names;
}

absl::Status LoadedNetwork::CheckFit(
    absl::Span<const NamedTensor> inputs) const {
  const auto open = open_ != nullptr ? ListInputs(*open_) : nullptr;
  const InputList& list = open != nullptr ? *open : runner_->inputs();
  for (const NamedTensor& input : inputs) {
    NODEWISE_ASSIGN_OR_RETURN(const size_t number, list.Find(input.name));
    if (list.Fits(number, input.tensor)) continue;
    return InvalidArgument(
        "{}: input {} is {}, expected {}", name(), input.name,
        TypeToString(input.tensor.shape(), input.tensor.dtype()),
        list.TypeText(number));
  }
  return absl::OkStatus();
}

// There are few inputs, so that a list is as fast as a table.
bool LoadedNetwork::Keep(const NamedTensor& input) {
  const auto known = std::ranges::find(given_, input.name, &NamedTensor::name);
  if (known == given_.end()) {
    given_.push_back(input);
    return false;
  }
  const bool has_same_type = HasTypeOf(known->tensor, input.tensor);
  known->tensor = input.tensor;
  return has_same_type;
}

// The model is compiled anew for the sizes at hand. Patches are given up: they
// had the sizes before.
absl::Status LoadedNetwork::Resize() {
  executor_ = nullptr;
  runner_ = nullptr;
  patches_.clear();
  Network network = *open_;
  BindSizes(given_, &network);
  TargetSpec spec = spec_;
  spec.network = std::make_shared<const Network>(std::move(network));
  spec.inputs.tensors.clear();
  spec.keeps_open_sizes = true;
  InputFiles files;
  DiagnosticList diagnostics;
  NODEWISE_ASSIGN_OR_RETURN(session_,
                            OpenWithoutInputs(spec, &files, &diagnostics));
  // Inputs that are missing are an error of the run, and not of this call.
  if (session_.target == nullptr && HasOpenInputs(*session_.network)) {
    return absl::OkStatus();
  }
  NODEWISE_RETURN_IF_ERROR(MakeReady());
  return GiveInputs();
}

// A new executor knows nothing of what was set before.
absl::Status LoadedNetwork::GiveInputs() {
  if (executor_ == nullptr) return absl::OkStatus();
  for (const NamedTensor& input : given_) {
    NODEWISE_ASSIGN_OR_RETURN(const size_t number,
                              executor_->InputIndex(input.name));
    NODEWISE_RETURN_IF_ERROR(
        bound_.contains(input.name)
            ? executor_->SetInputZeroCopy(number, input.tensor)
            : executor_->SetInput(number, *input.tensor));
  }
  return absl::OkStatus();
}

// A graph of fixed sizes has memory for its inputs, and the executor checks
// them. All else keeps copies, since a later call may change the sizes.
absl::Status LoadedNetwork::Set(absl::Span<const NamedTensor> inputs) {
  if (inputs.empty()) return absl::OkStatus();
  if (open_ == nullptr && executor_ != nullptr) {
    return executor_->SetInputs(inputs);
  }
  NODEWISE_RETURN_IF_ERROR(CheckFit(inputs));
  bool is_same = executor_ != nullptr || runner_ != nullptr;
  for (const NamedTensor& input : inputs) {
    // The caller may write to it before the network runs.
    NODEWISE_ASSIGN_OR_RETURN(NDArray copy, input.tensor.CopyToHost());
    if (!Keep({input.name, std::move(copy)})) is_same = false;
    bound_.erase(input.name);
  }
  // Sizes that stay cost no new executor.
  if (open_ != nullptr && !is_same) return Resize();
  return executor_ == nullptr ? absl::OkStatus() : executor_->SetInputs(inputs);
}

// The tensor is kept as well where sizes are open: after a change of sizes the
// next executor reads the same memory.
absl::Status LoadedNetwork::Bind(const NamedTensor& input) {
  if (open_ != nullptr) {
    NODEWISE_RETURN_IF_ERROR(CheckFit({input}));
    bound_.insert(input.name);
    if (!Keep(input) || executor_ == nullptr) return Resize();
  }
  NODEWISE_ASSIGN_OR_RETURN(auto* const executor, Debugger("bind"));
  NODEWISE_ASSIGN_OR_RETURN(const size_t number,
                            executor->InputIndex(input.name));
  return executor->SetInputZeroCopy(number, input.tensor);
}

// Parameters have memory as inputs do.
absl::StatusOr<NDArray> LoadedNetwork::InputMemory(const std::string& name) {
  NODEWISE_ASSIGN_OR_RETURN(auto* const executor,
                            Debugger("hand out the memory of an input"));
  NODEWISE_ASSIGN_OR_RETURN(const size_t number, executor->InputIndex(name));
  return executor->GetInput(number);
}

// Everything between nodes needs the executor. The message says which of the
// two reasons there is for its absence, and what can be done.
absl::StatusOr<DebugExecutor*> LoadedNetwork::Debugger(const char* what) const {
  if (executor_ != nullptr) return executor_.get();
  if (runner_ == nullptr) {
    return FailedPrecondition(
        "{}: cannot {}: its sizes are open (give its inputs first)",
        session_.name, what);
  }
  return Unimplemented(
      "{}: cannot {}: data decides its sizes, so that the reference runs it as "
      "a whole (run it, and read what it made)",
      session_.name, what);
}

// A caller that still holds outputs of the last run keeps them as they are: the
// next run writes somewhere else then.
absl::Status LoadedNetwork::GiveOutputsMemory() {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    Output& output = outputs_[i];
    if (output.memory.defined() && output.lent.expired()) continue;
    const TensorInfo info = executor_->OutputInfo(i);
    NODEWISE_ASSIGN_OR_RETURN(
        output.memory, NDArray::Empty(info.shape, info.dtype,
                                      session_.target->devices().front()));
    NODEWISE_RETURN_IF_ERROR(executor_->SetOutputZeroCopy(i, output.memory));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NDArray>> LoadedNetwork::RunGraph(bool is_timed) {
  NODEWISE_RETURN_IF_ERROR(GiveOutputsMemory());
  // What patches, stops or records runs node by node; else nothing is watched,
  // and the run costs what it costs without a debugger.
  const bool is_plain =
      executor_->CheckPlain().ok() && executor_->dump_plan() == nullptr;
  const NotedRun run("");
  const absl::Status status = !is_plain  ? executor_->Run()
                              : is_timed ? executor_->RunTimed()
                                         : executor_->RunPlain();
  NODEWISE_RETURN_IF_ERROR(status);
  if (!is_plain) NODEWISE_RETURN_IF_ERROR(executor_->dump_status());
  // Each array keeps a mark alive by which the next run knows of it.
  std::vector<NDArray> made;
  for (Output& output : outputs_) {
    auto lent = std::make_shared<NDArray>(output.memory);
    output.lent = lent;
    made.push_back(NDArray::Borrow(*output.memory, std::move(lent)));
  }
  return made;
}

absl::StatusOr<RunResult> LoadedNetwork::RunInto(TensorSink* sink) {
  RunOptions options;
  options.sink = sink;
  options.patches = patches_;
  return runner_->Run(given_, options);
}

// The reference makes new outputs in each run, so that nothing is lent.
absl::StatusOr<std::vector<NDArray>> LoadedNetwork::RunNetwork() {
  KeepingSink sink("", *cancel_);
  NODEWISE_ASSIGN_OR_RETURN(RunResult result, RunInto(&sink));
  std::vector<NDArray> made;
  for (NamedTensor& output : result.outputs) {
    made.push_back(std::move(output.tensor));
  }
  return made;
}

absl::StatusOr<std::vector<NDArray>> LoadedNetwork::Run(bool is_timed) {
  if (executor_ != nullptr) return RunGraph(is_timed);
  if (runner_ != nullptr) return RunNetwork();
  return Debugger("run").status();
}

absl::StatusOr<std::vector<int64_t>> LoadedNetwork::TimeRuns(uint32_t runs) {
  NODEWISE_ASSIGN_OR_RETURN(auto* const executor, Debugger("time its runs"));
  NODEWISE_RETURN_IF_ERROR(GiveOutputsMemory());
  NODEWISE_RETURN_IF_ERROR(executor->CheckPlain());
  // The loop is here, so that no call of Python's stands between the runs.
  std::vector<int64_t> durations;
  for (uint32_t run = 0; run < runs; ++run) {
    const NotedRun noted("");
    const int64_t start_ns = ClockNanoseconds();
    NODEWISE_RETURN_IF_ERROR(executor->RunPlain());
    durations.push_back(ClockNanoseconds() - start_ns);
  }
  return durations;
}

absl::StatusOr<std::vector<std::pair<std::string, int64_t>>>
LoadedNetwork::Times() const {
  NODEWISE_ASSIGN_OR_RETURN(auto* const executor, Debugger("time its nodes"));
  std::vector<std::pair<std::string, int64_t>> times;
  for (const NodeId node : FunctionNodes(executor->graph())) {
    times.emplace_back(executor->index().KeyOf(node),
                       executor->times().nodes[Index(node)].Duration());
  }
  return times;
}

// The reference keeps no tensors, but makes the same ones in another run.
absl::StatusOr<NDArray> LoadedNetwork::ReadOfNetwork(const std::string& value) {
  KeepingSink sink(value, *cancel_);
  NODEWISE_RETURN_IF_ERROR(RunInto(&sink).status());
  if (sink.kept().defined()) return sink.kept();
  // Nothing of that name came by: a name is likely to be misspelt.
  std::vector<std::string> names;
  for (const OperationId id : session_.network->order()) {
    for (const ValueId output : session_.network->operation(id).outputs) {
      if (output == kNoValue) continue;
      names.push_back(session_.network->value(output).name);
    }
  }
  return NotFound("{}: makes no value called \"{}\"{}", session_.name, value,
                  DidYouMean(value, names));
}

absl::StatusOr<NDArray> LoadedNetwork::Read(const std::string& entry) {
  if (runner_ != nullptr) return ReadOfNetwork(entry);
  NODEWISE_ASSIGN_OR_RETURN(auto* const executor, Debugger("be read"));
  NODEWISE_ASSIGN_OR_RETURN(const EntryId id,
                            executor->index().FindEntry(entry));
  auto read = executor->ReadEntry(id);
  if (read.ok() || !executor->AtEnd()) return read;
  // The whole network has run, and something was written over it: it is made
  // again, and the run brought to its end as before.
  NODEWISE_RETURN_IF_ERROR(Restart());
  const NotedRun run("");
  NODEWISE_RETURN_IF_ERROR(executor->RunUntil(executor->index().NodeOf(id)));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray made, executor->ReadEntry(id));
  NODEWISE_ASSIGN_OR_RETURN(NDArray copy, made.CopyToHost());
  NODEWISE_RETURN_IF_ERROR(executor->Continue());
  return copy;
}

absl::Status LoadedNetwork::Patch(const std::string& entry,
                                  const NDArray& tensor) {
  // The reference takes patches with each run; the caller may change the
  // tensor.
  if (runner_ != nullptr) {
    std::erase_if(patches_,
                  [&](const TensorPatch& each) { return each.entry == entry; });
    NODEWISE_ASSIGN_OR_RETURN(NDArray copy, tensor.CopyToHost());
    patches_.push_back({entry, std::move(copy), "", "patch"});
    return absl::OkStatus();
  }
  NODEWISE_ASSIGN_OR_RETURN(auto* const executor, Debugger("be patched"));
  NODEWISE_ASSIGN_OR_RETURN(const EntryId id,
                            executor->index().FindEntry(entry));
  return executor->Patch(id, *tensor);
}

// Nodes make their own tensors again with the next run, not at once.
absl::Status LoadedNetwork::ClearPatches() {
  patches_.clear();
  if (executor_ != nullptr) executor_->ClearPatches();
  return absl::OkStatus();
}

absl::Status LoadedNetwork::Restart() {
  NODEWISE_ASSIGN_OR_RETURN(auto* const executor, Debugger("restart"));
  NODEWISE_RETURN_IF_ERROR(GiveOutputsMemory());
  return executor->Restart();
}

absl::Status LoadedNetwork::Step() {
  NODEWISE_ASSIGN_OR_RETURN(auto* const executor, Debugger("step"));
  const NotedRun run("");
  return executor->Step();
}

absl::Status LoadedNetwork::RunUntil(const std::string& node) {
  NODEWISE_ASSIGN_OR_RETURN(auto* const executor, Debugger("stop at a node"));
  NODEWISE_ASSIGN_OR_RETURN(const NodeId id, executor->index().FindNode(node));
  // A node that has run already belongs to the next pass.
  if (Index(id) < Index(executor->Position())) {
    NODEWISE_RETURN_IF_ERROR(Restart());
  }
  const NotedRun run("");
  return executor->RunUntil(id);
}

absl::Status LoadedNetwork::Continue() {
  NODEWISE_ASSIGN_OR_RETURN(auto* const executor, Debugger("continue"));
  const NotedRun run("");
  return executor->Continue();
}

absl::StatusOr<std::vector<std::string>> LoadedNetwork::Recompute() {
  NODEWISE_ASSIGN_OR_RETURN(auto* const executor, Debugger("recompute"));
  const NotedRun run("");
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<NodeId> nodes,
                            executor->Recompute());
  std::vector<std::string> keys;
  for (const NodeId node : nodes) keys.push_back(executor->index().KeyOf(node));
  return keys;
}

absl::StatusOr<std::string> LoadedNetwork::Position() const {
  NODEWISE_ASSIGN_OR_RETURN(auto* const executor, Debugger("say where it is"));
  // Inputs do not run, and are passed by the next step.
  const uint32_t at = Index(executor->Position());
  for (const NodeId node : FunctionNodes(executor->graph())) {
    if (Index(node) >= at) return executor->index().KeyOf(node);
  }
  return "";
}

// The dump begins with the next run; one that is under way is not recorded.
absl::Status LoadedNetwork::Record(const std::string& folder) {
  NODEWISE_ASSIGN_OR_RETURN(auto* const executor, Debugger("record"));
  if (folder.empty()) {
    executor->StopRecording();
    return absl::OkStatus();
  }
  RecordOptions record;
  record.root = folder;
  return executor->StartRecording(std::move(record));
}

// A question and no request, so that it cannot fail.
std::string LoadedNetwork::DumpFolder() const {
  return executor_ == nullptr ? "" : executor_->dump_folder();
}

}  // namespace nodewise
