#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/locate/output_error.h"
#include "nodewise/compare/compare.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/lower/region.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// Searches that ask few questions, and what a question about a network takes:
// the cuts through it, the reference that computes what lies behind one, and
// how much of the error is left in what comes out.

// Answers need not be monotone: what is found was asked about, and holds for
// that place.

// Returns a number for which `asks` says true, while it says false for the one
// before. REQUIRES: low < high; the answer for low is known to be false, and
// for high to be true. Asks about log2(high - low) times, always for the middle
// of what is left. An error ends the search and is returned as it is.
absl::StatusOr<size_t> FirstLeap(
    size_t low, size_t high,
    absl::FunctionRef<absl::StatusOr<bool>(size_t)> asks);

// Returns items, in their order, for which together `holds` says true, while it
// says false if any one of them is left out. REQUIRES: it holds for all of
// `items`, and does not for none of them. Asks about log2(items) times for each
// item that is returned.
absl::StatusOr<std::vector<size_t>> SmallestSet(
    const std::vector<size_t>& items,
    absl::FunctionRef<absl::StatusOr<bool>(const std::vector<size_t>&)> holds);

// The function nodes that some outputs of a graph depend on, in the graph's
// order, and the cuts between them: cut k has the first k nodes before it and
// all others behind it.
struct BisectPath {
  // `heads` are places in Graph::heads. The index must outlive this.
  BisectPath(const GraphIndex& index, const std::vector<size_t>& heads);

  size_t size() const { return nodes.size(); }

  // Returns what nodes before one of the cuts made and nodes behind it read, or
  // is an output. The cuts are sorted.
  std::vector<EntryId> LiveAt(const std::vector<size_t>& cuts) const;

  // Returns the cuts that halving may ask for first between `low` and `high`:
  // as many halvings deep as fit, with all that is live at one of them, into
  // this memory; never fewer than the middle. Sorted.
  // REQUIRES: high - low > 1.
  std::vector<size_t> CutsBetween(size_t low, size_t high,
                                  size_t most_bytes) const;

  // An entry is live at the cuts `from` to `to`.
  struct Live {
    EntryId entry{};
    size_t from = 0, to = 0;
  };

  const GraphIndex* index;
  std::vector<NodeId> nodes;
  std::vector<EntryId>
      outputs;  // The entries of those outputs, in their order.
  // The inputs and parameters of the graph that the nodes read, or that are
  // among the outputs.
  std::vector<EntryId> given;
  std::vector<Live> live;  // By entry.
};

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

// The outputs of a network that are wrong in a run, and by how much: what other
// runs are measured against. By default nothing is wrong.
struct WrongOutputs {
  std::vector<size_t> heads = {};  // Their places in Graph::heads.
  std::vector<std::string> names = {};
  std::vector<NDArray> reference = {};
  OutputError error = {};
  Tolerance tolerance = {};

  bool empty() const { return heads.empty(); }
  // Return which share of the error is left: in these outputs alone, by
  // `heads`, and in a run of the whole network.
  absl::StatusOr<double> ShareLeft(std::vector<NDArray> outputs) const;
  absl::StatusOr<double> ShareLeftIn(
      const std::vector<NamedTensor>& outputs) const;
};

// Both lists have all outputs of the network. The comparisons go to `compared`,
// unless it is null.
absl::StatusOr<WrongOutputs> FindWrongOutputs(
    const std::vector<NDArray>& reference,
    const std::vector<NamedTensor>& outputs, Tolerance tolerance,
    std::vector<TensorComparison>* compared);

}  // namespace nodewise
