#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/compare/compare.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/locate/cause.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/op_def.h"
#include "nodewise/runner/runner.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {

// Returns OK unless one of the inputs holds a NaN: then what it reaches has not
// been judged, since a NaN on both sides counts as equal, and runs that seem to
// agree say little. Fails with kFailedPrecondition, naming the input and the
// first such element.
absl::Status CheckGivenNumbers(absl::Span<const NamedTensor> inputs);

// Checks a run of a graph node by node *on equal inputs*: the reference
// computes each node again from what that node really read in the run. So a
// node is wrong only if it made the error itself, and those behind it, which
// computed correctly from wrong inputs, are not.

struct NodeCheckOptions {
  // Also computes the whole network with the reference, from its inputs on, and
  // compares what each node made with that: NodeCheck::accumulated and all that
  // is said to come with it. Takes about twice as long.
  bool with_accumulated = false;
  // Works out all bounds, so that each comparison says how large its errors are
  // for them. Takes several times as long; the verdicts are the same.
  bool with_all_bounds = false;
  // Returns whether a node is checked; null: all are. The others are neither
  // checked nor skipped.
  std::function<bool(NodeId node)> selects = nullptr;
  // Also checks those that read what a node has made far wrong on what it
  // should have made: NodeCheck::on_right_inputs.
  bool asks_readers = false;
  // Called with each node that is wrong beyond the tolerance of its type, as
  // soon as it has been compared; what it returns becomes NodeCheck::cause. May
  // be null.
  std::function<std::optional<Cause>(const WrongNode& node)> explain = nullptr;
  // Called with the nodes done and their number; may be null.
  std::function<void(size_t done, size_t total)> progress = nullptr;
};

// How many elements of some tensors are not finite.
struct NonFiniteCount {
  uint64_t nans = 0;
  uint64_t infinities = 0;

  bool any() const { return nans > 0 || infinities > 0; }
  NonFiniteCount& operator+=(const NonFiniteCount& other) {
    nans += other.nans;
    infinities += other.infinities;
    return *this;
  }
};

// A node that was compared with the reference.
struct NodeCheck {
  NodeId node{};
  std::string key;  // GraphIndex::KeyOf().
  // What it computes: "Conv", "Conv+Relu".
  std::string operators = {};
  std::vector<TensorComparison> outputs = {};
  // What the reference makes of what the node read, by output; only where the
  // worst verdict is not a pass.
  std::vector<NDArray> expected = {};
  std::optional<Cause> cause = {};  // With NodeCheckOptions::explain.
  // With NodeCheckOptions::asks_readers, where something that it read is beyond
  // the tolerance of its type: `outputs` if it had read the right thing.
  std::vector<TensorComparison> on_right_inputs = {};

  // With NodeCheckOptions::with_accumulated:
  // Its outputs against the reference's run of the whole network, for which no
  // bounds are known: the tolerance of the shortest float type in the graph
  // judges, and integers must be equal.
  std::vector<TensorComparison> accumulated = {};
  // What that run makes, by output; only where there is `expected`.
  std::vector<NDArray> reference = {};
  // The largest RelativeError() of what it read, in that comparison.
  double received = 0;
  // What it made, what it read of other nodes, and what it read of the inputs
  // and parameters of the network.
  NonFiniteCount made_non_finite = {};
  NonFiniteCount read_non_finite = {};
  NonFiniteCount given_non_finite = {};

  // Returns the comparison of the output that is worst: by the verdict, then by
  // the largest error for its bound. REQUIRES: it has outputs, as every node
  // of NodeChecks has.
  const TensorComparison& Worst() const;
  bool IsWrong() const { return Worst().is_wrong(); }
  // Returns whether all outputs are equal to the reference's.
  bool IsEqual() const;

  // Return the largest RelativeError() of its outputs: the error that it made
  // itself on what it read, and the accumulated one.
  double MadeError() const;
  double PassedOnError() const;
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
  // With NodeCheckOptions::with_accumulated: the outputs of the graph as the
  // reference makes them of the network's inputs. Nodes that were skipped made
  // what they made in the run.
  std::vector<NDArray> reference_outputs = {};

  // Returns how many nodes have this as their worst verdict.
  size_t CountOf(Verdict verdict) const;
  size_t CountEqual() const;
  // Returns the check of a node; null if it was not checked.
  const NodeCheck* Find(NodeId node) const;
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
absl::StatusOr<NodeChecks> CheckNodes(const GraphIndex& index, const OpSet& ops,
                                      TensorSource& run,
                                      const NodeCheckOptions& options = {});

}  // namespace nodewise
