#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/compare/compare.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// How far all outputs of a network together are from the reference's.
struct OutputError {
  uint64_t non_finite = 0;  // Elements that are so on one side alone.
  double size = 0;  // The root of the sum of the squared RelativeError().

  bool any() const { return non_finite > 0 || size > 0; }
};
OutputError ErrorOf(absl::Span<const TensorComparison> outputs);

// Returns which share of the error is gone in the other one. REQUIRES:
// error.any().
double ShareGone(const OutputError& error, const OutputError& left);

// Compares the outputs of a run with the reference's, by place, with the
// tolerance of AccumulatedTolerance().
absl::StatusOr<std::vector<TensorComparison>> CompareNetworkOutputs(
    absl::Span<const NDArray> reference, absl::Span<const NamedTensor> outputs,
    Tolerance tolerance);

}  // namespace nodewise
