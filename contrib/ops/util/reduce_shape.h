#pragma once

// Which sides an operator reduces, and what shape that leaves.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/op/shape_rules.h"

namespace nodewise {

struct ReduceRule {
  bool keepdims = true;
  bool noop_with_empty_axes = false;
};

// Requires input 1, if given, to be a list of axes of input 0.
absl::Status CheckReduce(const Inputs& in, const ReduceRule& rule);
absl::StatusOr<OutputInfos> InferReduce(const Inputs& in,
                                        const ReduceRule& rule);
// Returns which of `rank` sides are reduced.
absl::StatusOr<std::vector<bool>> ReducedSides(absl::Span<const int64_t> axes,
                                               int rank,
                                               const ReduceRule& rule);
std::vector<int64_t> ReducedShape(absl::Span<const int64_t> shape,
                                  const std::vector<bool>& is_reduced,
                                  bool keepdims);

}  // namespace nodewise
