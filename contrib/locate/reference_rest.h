#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/lower/region.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// The reference computes a part of a graph from tensors that were made
// elsewhere. The regions that nodes compute are read once and kept. One thread
// at a time.
class ReferenceRest {
 public:
  // Both must outlive it.
  ReferenceRest(const GraphIndex& index, const OpSet& ops)
      : index_(index), graph_(index.graph()), ops_(ops), kernels_(graph_) {}

  // Reads what the nodes compute, before anything runs. Fails with
  // kUnimplemented, naming the first node that does not say it.
  absl::Status Prepare(absl::Span<const NodeId> nodes);

  // Computes these nodes in their order, and returns `wanted`. `tensors` has
  // all that they read and do not make, in host memory; it is let go as soon as
  // no node reads it any more. REQUIRES: the nodes were prepared.
  absl::StatusOr<std::vector<NDArray>> Run(absl::Span<const NodeId> nodes,
                                           ByEntry<NDArray> tensors,
                                           absl::Span<const EntryId> wanted);

 private:
  struct Kernel {
    explicit Kernel(Region made)
        : region(std::move(made)), interpreter(region.network) {}
    const Region region;
    const Interpreter interpreter;
  };

  absl::Status Compute(NodeId node, ByEntry<NDArray>* tensors) const;

  const GraphIndex& index_;
  const Graph& graph_;
  const OpSet& ops_;
  ByNode<std::shared_ptr<const Kernel>> kernels_;  // Null: none yet.
};

}  // namespace nodewise
