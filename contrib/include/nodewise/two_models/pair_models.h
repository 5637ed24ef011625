#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/align/layout.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"

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

}  // namespace nodewise
