#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/compare/compare.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/locate/layer_comparator.h"
#include "nodewise/runner/graph_target.h"
#include "nodewise/runner/runner.h"
#include "nodewise/support/memory_use.h"

namespace nodewise {

// The facts that are known about a layer when it is judged.
struct LayerValues {
  // Its outputs as both backends made them in the network, or why they could
  // not be compared.
  std::vector<TensorComparison> in_network = {};
  absl::Status compared = absl::OkStatus();
  std::vector<NDArray> read = {};      // The reference's, by Layer::inputs.
  std::vector<NDArray> expected = {};  // What the reference made of them.
};

// A part of the network, and the number that each of its nodes has there.
struct LayerPart {
  Graph graph;
  std::vector<NodeId> nodes;
  // The tensors for all inputs of a part whose inputs are not the network's; it
  // is read where it lies.
  Params given = {};
};

// The two backends of a comparison, and the network that they run. Wherever
// that is possible, each run of the candidate has a process of its own, so that
// a layer that crashes or hangs is only noted.
class LayerSides {
 public:
  // A backend and its functions.
  struct Side {
    const LayerBackend& backend;
    Ref<Library> functions;
  };

  // All that is given must outlive the object.
  LayerSides(const LayerModule& mod, const std::vector<NamedTensor>& inputs,
             Side reference, Side candidate, Rule rule);

  const Graph& graph() const { return mod_.graph; }
  const GraphIndex& index() const { return index_; }
  const Rule& rule() const { return rule_; }
  bool HasBounds() const { return rule_.kind == Rule::Kind::kBounds; }

  // How long a layer of the candidate may take.
  void SetNodeLimit(int64_t limit_ms) { node_limit_ms_ = limit_ms; }

  // Runs a part of the network once; all that the run needed is freed then.
  absl::StatusOr<RunResult> RunReference(Graph part,
                                         const std::vector<NamedTensor>& inputs,
                                         const RunOptions& options) const;
  // Runs a part of the network on the candidate. A layer that ends the run is
  // noted in FailureOf(), and the reference stands in for it from then on: the
  // run begins again, and before it `begins_again` is called, if it is not
  // null. Fails as runs do, and if the reference ends them, too.
  absl::StatusOr<RunResult> RunCandidate(
      const LayerPart& part, const std::vector<NamedTensor>& inputs,
      RunOptions options, const std::function<void()>& begins_again = nullptr);
  // Returns how a layer has ended a run; null if it has not. A program's
  // failures have no layer.
  const NodeFailure* FailureOf(NodeId node) const;
  // The memory that the runs and all between them have taken.
  const PeakMemory& memory() const { return memory_; }

  // Returns those of the given inputs that a part has.
  std::vector<NamedTensor> InputsOf(const Graph& part) const;
  // Returns what the network was given for an entry that no node makes:
  // undefined if it was given nothing.
  NDArray GivenFor(EntryId entry) const;

  // Compares an output of a layer in the network.
  absl::StatusOr<TensorComparison> CompareInNetwork(
      NodeId node, uint32_t slot, const NDArray& expected,
      const DLTensor& found) const;

 private:
  // Makes what runners of a part can be made of, with the module's parameters
  // or else `given`.
  absl::StatusOr<std::shared_ptr<const GraphTarget>> TargetOf(
      const Side& side, Graph part, Params given = {}) const;
  // These run a part on a candidate that is a program: the whole network with a
  // sink, all that leads to the last node, or a layer alone, which is given
  // what it reads.
  absl::StatusOr<RunResult> RunProgram(const LayerPart& part,
                                       const RunOptions& options) const;
  absl::StatusOr<RunResult> RunWhole(const RunOptions& options) const;
  absl::StatusOr<RunResult> RunUpTo(NodeId node) const;
  absl::StatusOr<RunResult> RunAlone(const LayerPart& part) const;
  absl::StatusOr<std::unique_ptr<Runner>> RunnerOf(
      Network network,
      std::optional<std::vector<std::string>> observed = {}) const;
  absl::StatusOr<RunResult> TryCandidate(const LayerPart& part,
                                         const std::vector<NamedTensor>& inputs,
                                         const RunOptions& options);
  // Notes the failure that a status carries. Fails with the status, and what it
  // means, if it carries none or the reference has stood in for the layer.
  absl::Status NoteFailure(const LayerPart& part, const absl::Status& status);

  const LayerModule& mod_;
  PeakMemory memory_;  // Begins when the module's parameters are resident.
  std::map<NodeId, NodeFailure> failures_;
  int64_t node_limit_ms_ = RunOptions().node_limit_ms;
  const std::vector<NamedTensor>& inputs_;
  const GraphIndex index_;
  const Side reference_;
  const Side candidate_;
  const Rule rule_;
  const Tolerance tolerance_;  // In the network, if bounds judge alone.
};

}  // namespace nodewise
