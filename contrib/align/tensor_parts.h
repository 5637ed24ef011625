#pragma once

#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/align/tensor_match.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// A tensor of the network that a compiled one may be a part of, or have as one.
struct PartCandidate {
  size_t place = 0;  // The caller's own number for the tensor.
  const TensorFacts* facts = nullptr;
};

struct PartMatch {
  size_t place = 0;
  TensorMatch match;
};

// Returns the tensors that the compiled one is a part of along one of their
// sides, the nearest first; none if its few numbers are in many tensors.
// `load` returns the contents by set of inputs, and its failure is this one's.
absl::StatusOr<std::vector<PartMatch>> FindWholes(
    const TensorMatcher& compiled, absl::Span<const PartCandidate> candidates,
    absl::FunctionRef<absl::StatusOr<std::vector<NDArray>>(size_t place)> load);

// Returns the tensors that the compiled one has joined along one of their
// sides, in their order there; none unless they are all of it. Fails as
// FindWholes().
absl::StatusOr<std::vector<PartMatch>> FindParts(
    const TensorMatcher& compiled, absl::Span<const PartCandidate> candidates,
    absl::FunctionRef<absl::StatusOr<std::vector<NDArray>>(size_t place)> load);

}  // namespace nodewise
