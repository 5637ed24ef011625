#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/compare/compare.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/locate/layer_comparator.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// What is known about a layer when it is judged.
struct LayerValues {
  // Its outputs as both backends made them in the network, or why they could
  // not be compared.
  std::vector<TensorComparison> in_network = {};
  absl::Status compared = absl::OkStatus();
  std::vector<NDArray> read = {};      // The reference's, by Layer::inputs.
  std::vector<NDArray> expected = {};  // What the reference made of them.
};

// The two backends of a comparison, and the network that they run.
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
  const Side& reference() const { return reference_; }
  const Side& candidate() const { return candidate_; }
  const Rule& rule() const { return rule_; }
  bool HasBounds() const { return rule_.kind == Rule::Kind::kBounds; }

  // Makes a runner of a part of the network, which can be looked into.
  absl::StatusOr<std::unique_ptr<Runner>> MakeRunner(const Side& side,
                                                     Graph part) const;
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
  const LayerModule& mod_;
  const std::vector<NamedTensor>& inputs_;
  const GraphIndex index_;
  const Side reference_;
  const Side candidate_;
  const Rule rule_;
  const Tolerance tolerance_;  // In the network, if bounds judge alone.
};

// Compares an output of a node with the reference's.
absl::StatusOr<TensorComparison> CompareLayerOutput(
    const std::string& node, uint32_t slot, const NDArray& expected,
    const DLTensor& found, const CompareOptions& options);

}  // namespace nodewise
