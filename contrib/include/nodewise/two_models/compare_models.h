#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/align/layout.h"
#include "nodewise/compare/compare.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/precision/sensitivity.h"

namespace nodewise {

// Two models of one network: before and after a quantiser, a simplifier, a
// converter of types, or from two exporters. Their graphs differ, so a value of
// one goes with the value of the other that holds the same numbers.

// Values of one model that hold the numbers of one tensor, each made of the one
// before by quantising, dequantising or changing the type of floats.
struct ValueChain {
  ValueId made = kNoValue;  // The first.
  ValueId read = kNoValue;  // The last, as coarse as all before it together.
};

// A tensor of the network in both models.
struct ValuePair {
  enum class Way {
    kInput,
    kOutput,
    kName,
    kNumbers,
  };
  ValueChain reference;
  ValueChain target;
  Layout layout;  // How the target's lies, seen from the reference's.
  Way way = Way::kName;
  // How far what the target has made of its own numbers is from what the
  // reference makes of the same: relative L2. This is the error of the
  // operations between the pairs before and this one, and of nothing else.
  double own_error = 0;
};

struct ModelPairing {
  std::vector<ValuePair> pairs;  // In the order of the reference.
  // Values that nothing of the other model goes with; the first of each chain.
  std::vector<ValueId> reference_alone;
  std::vector<ValueId> target_alone;
};

// The inputs of one model for another one.
struct MatchedInputs {
  std::vector<NDArray> tensors;  // In the order of the reference.
  std::vector<size_t> places;    // In the list of the target's inputs.
  std::vector<Layout> layouts;   // How the target's lies.
  // What is not alike: "input x is taken for image, with its sides in the order
  // 0 3 1 2".
  std::vector<std::string> notes;
};

// Finds for each input of the reference the target's of its name, or else the
// one of its numbers of elements whose place is nearest. `given` are the
// target's, in its order. Fails with kInvalidArgument, naming the input, if
// there is none.
absl::StatusOr<MatchedInputs> MatchModelInputs(const Network& reference,
                                               const Network& target,
                                               absl::Span<const NDArray> given);

// Which layers make two models of one network differ, and how much each costs.
//
// A layer is what lies between pairs of values: operations of the reference,
// and those of the target that stand for them. Either model's may be run in the
// place of the other's. So what a layer costs is measured twice: alone in the
// reference, where all else is right, and repaired in the target. The first
// ranks: where every layer is a little wrong, repairing one shows nothing.

struct ModelLayer {
  // The operation that the layer is known by: the one with the most weights
  // among those that the target does not have as they are, or the last.
  std::string name;
  std::string kind;
  std::string value;                   // What it makes.
  std::vector<OperationId> reference;  // In the order of the model.
  // Those that make what it reads of constants alone.
  std::vector<OperationId> reference_constants;
  std::vector<OperationId> target;
  size_t pair = 0;  // ModelPairing::pairs: what the layer makes.
  // How far it is from the reference's on what the target reads: relative L2.
  double own_error = 0;
  // The error of the outputs if this layer alone is the target's.
  double alone = 0;
  // The error that is left if this layer alone is the reference's; known of the
  // layers that cost the most.
  std::optional<double> left;
  // How its output compares with the reference's, on what the target reads.
  std::optional<TensorComparison> made;
};

// A tensor that the target keeps in integers whose range is too narrow for what
// the reference makes of the same inputs.
struct NarrowRange {
  std::string value;  // The reference's.
  double share = 0;   // How many of its elements the range cuts off.
};

struct ModelComparison {
  ModelPairing pairing;
  std::vector<TensorComparison> outputs;  // In the order of the reference.
  // Outputs that the target does not have, or not in this size, in words. Then
  // no layer is asked what it costs.
  std::vector<std::string> missing_outputs;
  // OutputError() of the target, of all sets of inputs.
  double error = 0;
  // What the target computes in and the reference does not: "8-bit integers",
  // "float16"; empty if nothing.
  std::string lowered;
  // It only stores its weights so, and computes as the reference does.
  bool are_weights_lowered = false;
  // Calibration is at fault with these, and no layer; the worst first.
  std::vector<NarrowRange> narrow_ranges;
  // Those that make something else, the most costly first.
  std::vector<ModelLayer> layers;
  // Layers that were looked at.
  size_t judged = 0;
  // With the first layers of the ranking as in the reference, and all others as
  // in the target; for a target of lower precision.
  Sensitivity sensitivity;
  // The operations of the layers that are suggested to be kept.
  std::vector<std::string> keep;
  // The tensors of a file that nothing goes with.
  std::vector<std::string> tensors_alone;
  std::vector<std::string> notes;

  bool AreOutputsWrong() const;
};

struct ModelComparisonRequest {
  const Network& reference;
  const Network& target;
  // By set, in the order of the target's inputs.
  std::vector<std::vector<NDArray>> inputs;
  // For how many of the most costly layers it is measured what repairing does.
  size_t most_repaired = 10;
  // May be null.
  std::function<void(size_t done, size_t total)> progress = nullptr;
};

// Returns whether two tensors in host memory have the same bytes.
bool HaveOneContent(const NDArray& a, const NDArray& b);

// Compares a model with tensors that something has made of it, which may have
// names of their own. Each is judged on those before it; nothing is said of
// what a layer costs. Fails with kInvalidArgument if an input of the model is
// not among them, and as running the model does.
absl::StatusOr<ModelComparison> CompareWithTensors(
    const Network& network, absl::Span<const NamedTensor> tensors);

// Compares both by the definitions of their operators. Fails as
// MatchModelInputs(), and as running either model does.
absl::StatusOr<ModelComparison> CompareModels(
    const ModelComparisonRequest& request);

}  // namespace nodewise
