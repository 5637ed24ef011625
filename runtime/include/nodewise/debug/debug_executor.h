#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/debug/run_observer.h"
#include "nodewise/dump/dump.h"
#include "nodewise/func/time_repeats.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ndarray/tensor_stats.h"

namespace nodewise {

class Liveness;
class Patches;

// A graph executor that lets one see what happens in it: it times every node,
// records every tensor, runs node by node, and changes nothing in the outcome.
// It takes the place of a GraphExecutor: same methods, same meaning.
//
// Like it, not thread-safe.
class DebugExecutor : public GraphExecutor {
 public:
  struct DebugOptions : Options {
    bool records = true;   // Else Run() only times.
    RecordOptions record;  // What it records.
  };

  // As GraphExecutor::Create, and kInvalidArgument if what is to be recorded
  // makes no sense.
  static absl::StatusOr<std::unique_ptr<DebugExecutor>> Create(
      Graph graph, Ref<Library> library, DebugOptions options);

  ~DebugExecutor() override;

  // Runs all nodes in order, in their real storage, timing each, and records
  // what the options say, one dump folder a run. The status is that of the
  // nodes; trouble with the dump is dump_status().
  absl::Status Run() override;

  // The times of the last pass, also of one that stopped early or failed, whose
  // last node they have too. `whole` ends with the node that ran last, also
  // where Recompute() ran it again.
  const TimedRun& times() const { return times_; }
  // The folder of the last Run(), and what went wrong with writing it.
  const std::string& dump_folder() const { return dump_folder_; }
  const absl::Status& dump_status() const { return dump_status_; }
  // What the next runs record, not one that is under way; kInvalidArgument if
  // it makes no sense.
  absl::Status StartRecording(RecordOptions record);
  // The next runs only time, and no dump is the last one any more.
  void StopRecording();
  // What a run records; null if nothing.
  const DumpPlan* dump_plan() const { return dump_plan_.get(); }

  // --- Stepping ---
  // A pass over the graph can be stopped between nodes. Nothing is recorded.

  // The node that is next in this pass; the number of nodes at its end.
  NodeId Position() const { return position_; }
  bool AtEnd() const { return Index(position_) == graph().nodes.size(); }
  // Begins a new pass: nothing has run.
  absl::Status Restart();
  // Runs the next function node; kOutOfRange at the end of the pass.
  absl::Status Step();
  // Runs up to and including `node`, from the start if it has already run.
  absl::Status RunUntil(NodeId node);
  // Runs what is left of the pass.
  absl::Status Continue();
  // Runs until `stop` says true after a node, and returns that node; none if
  // the end came first.
  using StopRule = std::function<absl::StatusOr<bool>(NodeId)>;
  absl::StatusOr<std::optional<NodeId>> ContinueUntil(const StopRule& stop);

  // OK if the entry has been computed in this pass, or is an input that was set
  // (at any time, also before the first pass), and no later node has written
  // over it; else kFailedPrecondition that says which node will compute it or
  // has overwritten it.
  absl::Status CheckLive(EntryId entry) const;
  // The entry's memory, which later nodes may write over; kFailedPrecondition
  // as CheckLive.
  absl::StatusOr<NDArray> ReadEntry(EntryId entry) const;

  // Gives the entry these contents: now if it is alive, also where a pass ended
  // early, and whenever its node runs, until ClearPatches(). A node all of
  // whose outputs are patched is not called. An input of the graph is set for
  // good. Shape and type must be the entry's. The output of a __nop is its
  // input's memory (plan().base_of): both have the contents, and of several
  // patches of one memory the last counts.
  absl::Status Patch(EntryId entry, const DLTensor& tensor);
  void ClearPatches();
  // Whether a patch gives the entry its contents.
  bool IsPatched(EntryId entry) const;
  // Runs again those nodes of this pass that depend on patched entries, and
  // what must be computed anew for them because its storage was used again; no
  // other. Returns the nodes in order.
  absl::StatusOr<std::vector<NodeId>> Recompute();

  // --- For tools ---
  // What is known of the graph before it runs. Valid while the executor is.
  const GraphIndex& index() const { return *index_; }

  // Observers see every node that this executor runs, in the order added, and
  // must outlive it or be removed. An observer may add and remove others and
  // itself: who is removed is called no more, who is added from the next
  // boundary on.
  void AddObserver(NodeObserver* observer) { observers_.push_back(observer); }
  void RemoveObserver(NodeObserver* observer);

  // Replaces how a node is called. The invoker runs `call`, here or in another
  // process, and its status is the node's. Null: called directly. Returns the
  // one that was set before.
  using Invoker =
      std::function<absl::Status(NodeId, absl::FunctionRef<absl::Status()>)>;
  Invoker SetInvoker(Invoker invoker) {
    return std::exchange(invoker_, std::move(invoker));
  }

  // Whether the floating-point environment that a node has left changed is put
  // back before the next one, so that each can be judged by itself. In a plain
  // run, and here unless this says so, the next one runs in it.
  void SetPutsFloatsBack(bool puts_back) { puts_floats_back_ = puts_back; }

  // What compiled code sees of an entry now, dead or alive.
  const DLTensor& TensorOf(EntryId entry) const { return tensor(entry); }
  // Those of a node's inputs and outputs, in order.
  TensorSpan InputsOf(NodeId node) const;
  TensorSpan OutputsOf(NodeId node) const;
  // Returns a view of the run for those who must not change it.
  RunView View() const { return RunView(*this); }

  // --- For timing the compiled code alone; see Profiler ---

  // OK if the nodes are called as a plain run calls them: kFailedPrecondition
  // while patches or an invoker are set.
  absl::Status CheckPlain() const;
  // A pass as a plain executor makes it: not timed, not seen by observers, not
  // recorded.
  absl::Status RunPlain();
  // A pass that is timed, and no more than that.
  absl::Status RunTimed();
  // Calls the node that is next in this pass as the options say, on the inputs
  // that it has in a real run, unseen by observers, and returns the seconds of
  // each repeat, all 0 for a node that is not a function. The pass stays where
  // it is. A node that writes over its own input gets other memory to write to.
  absl::StatusOr<std::vector<double>> TimeNext(const RepeatOptions& options);

  // Grows with the inputs that were set; unlike before means that what has run
  // is out of date. Zero-copy inputs may change without it (true).
  uint64_t InputChanges() const { return input_changes(); }
  bool InputsMayChangeUnseen() const { return MayChangeUnseen(); }

 private:
  DebugExecutor(Graph graph, DebugOptions options);

  absl::Status InitDebug();
  absl::Status RunRecorded();
  // One node of the pass, a function or not.
  absl::Status Advance();
  // Begins a pass unless one is under way.
  absl::Status EnsurePassStarted() {
    return in_pass_ ? absl::OkStatus() : Restart();
  }
  // Does a part of the pass that is under way. If it fails the pass is over,
  // and observers are told: what it left is undefined, so that the next step
  // begins a new one.
  absl::Status InPass(absl::FunctionRef<absl::Status()> part);
  absl::Status RunNode(NodeId node);
  absl::Status CallNode(const Call& call);
  absl::Status InvokeNode(NodeId node);
  absl::Status InvokeTimed(NodeId node, std::optional<FloatChange>* floats);
  absl::Status VisitObservers(
      absl::FunctionRef<absl::Status(NodeObserver&)> visit);
  void DropRemoved() {
    if (visits_ == 0) std::erase(observers_, nullptr);
  }
  NodeRun RunOf(NodeId node, NodeTime time,
                const FloatChange* floats = nullptr) const {
    return {View(), node, InputsOf(node), OutputsOf(node), time, floats};
  }
  // Tells the observers of a pass, unless they know, that it is over.
  void NotifyPassEnded(const absl::Status& status);

  absl::Status PatchInput(NodeId node, DLTensor value);

  // A pass that ended at a node that failed: the contents of its outputs are
  // undefined, and so the next step begins a new pass.
  void LeavePass(NodeId node);
  // Forgets the pass that is under way, before another kind of run.
  void GiveUpPass();
  // A pass that stepping can look at, though it did not step: all has run.
  void EndPass();
  // After a fast run it is only worked out when it is asked for.
  Liveness& Live() const;
  void BeginLiveness() const;
  bool IsComputed(EntryId entry) const override;
  void ValueWasSet(EntryId base) override;
  void ValueWasDropped(EntryId base) override;
  absl::Status AddMissing(ByNode<bool>* wanted) const;

  absl::StatusOr<std::vector<double>> MeasureApart(
      const Call& call, const RepeatOptions& options);

  DebugOptions debug_options_;
  std::shared_ptr<const DumpPlan> dump_plan_;
  std::string dump_folder_;
  absl::Status dump_status_;
  TimedRun times_;
  std::unique_ptr<const GraphIndex> index_;
  ByNode<uint32_t> call_of_;  // Its place in calls(), or none.
  // Pointers to the tensors of each node's inputs and then its outputs, and
  // where in them a node's begin.
  std::vector<const DLTensor*> node_tensors_;
  ByNode<size_t> first_tensor_;
  NodeId position_{};
  bool in_pass_ = false;
  bool is_pass_told_ = false;  // Observers have been told of its beginning.
  std::unique_ptr<Liveness> liveness_;  // Null while this is being made.
  mutable bool is_liveness_due_ = false;
  std::unique_ptr<Patches> patches_;
  std::vector<NodeObserver*> observers_;  // Null: was removed in a visit.
  // How many visits of the observers are under way.
  int visits_ = 0;
  Invoker invoker_;
  bool puts_floats_back_ = false;
};

// Makes an executor anew over the same graph and library with other options,
// with all inputs and parameters set: what the tools that need several runs of
// one network are given.
using ExecutorMaker =
    std::function<absl::StatusOr<std::unique_ptr<DebugExecutor>>(
        DebugExecutor::DebugOptions)>;

// A rule for ContinueUntil: stops at the first node that makes such a value.
DebugExecutor::StopRule StopAtValues(const DebugExecutor& executor,
                                     StopValues values);

// Whether the outputs of two executors are the same bits, in words for a
// report: "outputs: bit for bit those of a plain run (2 tensors, 4040 bytes)".
struct OutputCheck {
  bool same = false;
  std::string text;
};
absl::StatusOr<OutputCheck> CompareOutputs(const GraphExecutor& debugged,
                                           const GraphExecutor& plain);
// Compares outputs that were kept, in their order, with those of a plain run.
absl::StatusOr<OutputCheck> CompareOutputs(absl::Span<const NDArray> outputs,
                                           const GraphExecutor& plain);

}  // namespace nodewise
