#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/debug/run_observer.h"
#include "nodewise/tensors/tensor_sink.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {

// Only in builds with USE_PROFILER.

// Which tensors of a run go to a sink.
struct TensorObserverOptions {
  std::string source = {};  // TensorKey::source of all of them.
  // What nodes read, too, with role kInput.
  bool with_node_inputs = false;
  // By node; the others are left out. Empty: all.
  std::vector<bool> nodes = {};
};

// Hands the tensors of every pass of an executor to a sink: first the inputs
// and parameters of the graph, then node by node. Nothing is copied, hashed or
// fetched from a device; the sink's error ends the pass.
class TensorObserver : public NodeObserver {
 public:
  // Both must outlive it.
  TensorObserver(const GraphIndex& index, TensorSink* sink,
                 TensorObserverOptions options = {});

  absl::Status BeforePass(const RunView& run) override;
  absl::Status BeforeNode(const NodeRun& node) override;
  absl::Status AfterNode(const NodeRun& node) override;

  // What the sink said: OK, or its first error in the last pass.
  const absl::Status& sink_status() const { return sink_status_; }

 private:
  bool Sees(NodeId node) const;
  absl::Status Emit(const TensorItem& item);

  const Graph& graph_;
  TensorSink& sink_;
  const TensorObserverOptions options_;
  std::vector<TensorKey> keys_;                    // By entry.
  std::vector<std::vector<TensorKey>> read_keys_;  // By node and input.
  absl::Status sink_status_;
};

// Returns a source each of whose visits runs the executor once, with the inputs
// that are set then. Nothing is recorded. It cannot find single tensors. The
// executor must outlive it.
std::unique_ptr<TensorSource> SourceOfRuns(DebugExecutor* executor,
                                           TensorObserverOptions options);

}  // namespace nodewise
