#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/compare/compare.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/op/op_def.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {

// Checks a run of a graph node by node *on equal inputs*: the reference
// computes each node again from what that node really read in the run. So a
// node is wrong only if it made the error itself, and those behind it, which
// computed correctly from wrong inputs, are not.

// A node that was compared with the reference.
struct NodeCheck {
  NodeId node{};
  std::string key;  // GraphIndex::KeyOf().
  std::vector<TensorComparison> outputs;

  // Returns the comparison of the output that is worst: by the verdict, then by
  // the largest error for its bound. REQUIRES: it has outputs, as every node
  // of NodeChecks has.
  const TensorComparison& Worst() const;
  bool IsWrong() const { return Worst().is_wrong(); }
  // Returns whether all outputs are equal to the reference's.
  bool IsEqual() const;
};

// A function node that was not, and the reason.
struct SkippedNode {
  NodeId node{};
  std::string key;
  std::string why;
};

struct NodeChecks {
  std::vector<NodeCheck> nodes;      // In the order of the run.
  std::vector<SkippedNode> skipped;  // With `nodes`, all function nodes.

  // Returns how many nodes have this as their worst verdict.
  size_t CountOf(Verdict verdict) const;
  size_t CountEqual() const;
  // Returns the node that is wrong, if several are the first; null if none is.
  const NodeCheck* FirstWrong() const;
};

// Visits a run of the graph once: the debug executor's (SourceOfRuns), or a
// dump with whole tensors. If the source has what nodes read (role kInput, as
// with TensorObserverOptions::with_node_inputs), a node that reads memory which
// another has written over is judged by what it read there; otherwise by what
// the nodes before it made. Nodes must say what they compute, as those of
// Lower() do; others are skipped with the reason, and so are those whose
// tensors are not in the source. Fails as Visit() does, and with
// kFailedPrecondition, naming the source, if no node could be checked.
absl::StatusOr<NodeChecks> CheckNodes(const Graph& graph, const OpSet& ops,
                                      TensorSource& run);

}  // namespace nodewise
