#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/runner/runner.h"
#include "nodewise/session/session.h"

namespace nodewise {

// A network that stays loaded, to be run again and again, stopped between its
// nodes, looked into and changed.
//
// Where all sizes are known it is a graph under the debug executor. A model
// that takes its sizes from its inputs becomes one when they are given, and
// again when they change. Where only the data decides a size, the reference
// runs the network, which cannot stop between nodes.
//
// Not thread-safe.
class LoadedNetwork {
 public:
  struct Input {
    std::string name;
    TensorType type;
    bool is_needed = false;  // A run cannot do without it.
  };

  // `spec.inputs.tensors` decide sizes, and stay set. Runs end with kCancelled
  // where `cancel`, which must outlive the network, is true. Fails as
  // OpenTarget().
  static absl::StatusOr<std::unique_ptr<LoadedNetwork>> Open(
      TargetSpec spec, const std::atomic<bool>* cancel,
      DiagnosticList* diagnostics);

  const std::string& name() const { return session_.name; }
  const std::vector<std::string>& notes() const { return session_.notes; }
  std::vector<Input> Inputs() const;
  // In the order of the run. Empty while sizes are open.
  std::vector<std::string> Nodes() const;
  std::vector<std::string> Outputs() const;

  // Copies the tensors into the inputs of these names; all or none.
  absl::Status Set(absl::Span<const NamedTensor> inputs);
  // Has runs read the tensor's own memory, as it is at that time. Where sizes
  // are open the tensor also decides them, as those of Set() do.
  absl::Status Bind(const NamedTensor& input);
  // Returns the memory of an input or parameter, which runs read.
  absl::StatusOr<NDArray> InputMemory(const std::string& name);

  // Runs all nodes and returns the outputs, whose memory no later run writes
  // to while it is held.
  absl::StatusOr<std::vector<NDArray>> Run(bool is_timed);
  // Runs all nodes so often, and returns how long each run took.
  absl::StatusOr<std::vector<int64_t>> TimeRuns(uint32_t runs);
  // How long each node took in the last timed run, or in this pass.
  absl::StatusOr<std::vector<std::pair<std::string, int64_t>>> Times() const;

  // Returns what a node has made: "conv1" or "conv1:1". A graph's is its
  // memory, which later nodes may write over; after a whole run, what has been
  // written over is made again, and copied.
  absl::StatusOr<NDArray> Read(const std::string& entry);
  absl::Status Patch(const std::string& entry, const NDArray& tensor);
  absl::Status ClearPatches();

  // As those of DebugExecutor.
  absl::Status Restart();
  absl::Status Step();
  absl::Status RunUntil(const std::string& node);
  absl::Status Continue();
  absl::StatusOr<std::vector<std::string>> Recompute();
  // The key of the node that is next; empty at the end of the pass.
  absl::StatusOr<std::string> Position() const;

  // The next runs leave dumps in this folder; empty: none.
  absl::Status Record(const std::string& folder);
  std::string DumpFolder() const;

 private:
  // The memory that an output is written to, and who holds it.
  struct Output {
    std::weak_ptr<NDArray> lent;
    NDArray memory;
  };

  LoadedNetwork(TargetSpec spec, const std::atomic<bool>* cancel)
      : spec_(std::move(spec)), cancel_(cancel) {}

  absl::Status OpenFirst(DiagnosticList* diagnostics);
  // Makes what runs the session's network.
  absl::Status MakeReady();
  // For what is not a graph yet.
  absl::Status CheckFit(absl::Span<const NamedTensor> inputs) const;
  // Returns whether it takes the place of a tensor of the same type.
  bool Keep(const NamedTensor& input);
  // Makes what runs the open network with the sizes of the inputs at hand, and
  // gives it these.
  absl::Status Resize();
  absl::Status GiveInputs();
  absl::StatusOr<DebugExecutor*> Debugger(const char* what) const;
  absl::Status GiveOutputsMemory();
  absl::StatusOr<std::vector<NDArray>> RunGraph(bool is_timed);
  // Runs what is not a graph, and hands every value of the run to `sink`.
  absl::StatusOr<RunResult> RunInto(TensorSink* sink);
  absl::StatusOr<std::vector<NDArray>> RunNetwork();
  absl::StatusOr<NDArray> ReadOfNetwork(const std::string& value);

  const TargetSpec spec_;
  const std::atomic<bool>* const cancel_;
  Session session_;
  // The model with its open sizes; null if there are none.
  std::shared_ptr<const Network> open_;
  // Not both; none while sizes are open.
  std::unique_ptr<DebugExecutor> executor_;
  std::unique_ptr<Runner> runner_;
  // The inputs of what is not a graph, or takes its sizes from them.
  std::vector<NamedTensor> given_;
  // Those of them that runs read where they lie.
  std::set<std::string> bound_;
  std::vector<TensorPatch> patches_;
  std::vector<Output> outputs_;
};

}  // namespace nodewise
