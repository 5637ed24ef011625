#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/float_environment.h"

namespace nodewise {

class DebugExecutor;

// What may be seen of a run, and not changed. Valid while its executor lives;
// copies are as good.
class RunView {
 public:
  explicit RunView(const DebugExecutor& executor) : executor_(&executor) {}

  const Graph& graph() const;
  const StoragePlan& plan() const;
  // Returns how nodes and entries are called, which entries are one tensor, and
  // what else is known of the graph.
  const GraphIndex& index() const;
  // Returns what compiled code sees of an entry now, live or dead.
  const DLTensor& TensorOf(EntryId entry) const;
  // Return the tensors of a node's inputs or outputs, in order.
  TensorSpan InputsOf(NodeId node) const;
  TensorSpan OutputsOf(NodeId node) const;

 private:
  const DebugExecutor* executor_;
};

// One node of a run, as observers are told of it.
struct NodeRun {
  RunView run;
  NodeId node;
  TensorSpan inputs;
  TensorSpan outputs;
  NodeTime time;  // Both 0 before the node has run.
  // How the node has left the floating-point environment changed, in
  // AfterNode(); null if it has not.
  const FloatChange* floats = nullptr;
};

// Watches a run at the boundaries of its nodes. Its work in between is not part
// of any node's time. An error that it returns ends the run.
class NodeObserver {
 public:
  virtual ~NodeObserver() = default;
  // All inputs are in place; nothing has run.
  virtual absl::Status BeforePass(const RunView&) { return absl::OkStatus(); }
  // Called for function nodes only, also for a __nop that costs nothing.
  virtual absl::Status BeforeNode(const NodeRun&) { return absl::OkStatus(); }
  virtual absl::Status AfterNode(const NodeRun&) { return absl::OkStatus(); }
  // The node failed: AfterNode() is not called, and the contents of its outputs
  // are undefined.
  virtual void NodeFailed(const NodeRun&, const absl::Status&) {}
  // The pass is over: it has come to its end, has failed, or was given up for
  // another one (kCancelled). Follows each BeforePass() once, unless the
  // executor is destroyed first.
  virtual void AfterPass(const RunView&, const absl::Status&) {}
};

// What a node's function is told of its tensors. It may only read that: later
// nodes are told by the same structs.
class ArgumentRecord {
 public:
  // Both must outlive it.
  ArgumentRecord(TensorSpan inputs, TensorSpan outputs);

  // Returns what is another now, "changed the shape of its input 0 from (2, 3)
  // to (6, 3)"; empty if nothing is.
  std::string FindChange() const;
  // Makes all as it was.
  void Restore() const;

 private:
  struct Argument {
    const DLTensor* tensor;
    DLTensor before;
    std::vector<int64_t> shape;
    std::vector<int64_t> strides;
    std::string name;  // "its input 0"
  };

  std::vector<Argument> arguments_;
};

}  // namespace nodewise
