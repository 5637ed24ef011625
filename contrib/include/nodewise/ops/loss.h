#pragma once

// Losses of scores [N, C, d1, ...] whose right classes are given as labels
// [N, d1, ...]. Each class is its operator's primary attributes.

#include <cstdint>
#include <optional>

namespace nodewise::ops {

// What becomes of the losses of all labels: they stay, or are summed, or their
// weighted mean is taken.
enum class Reduction { kNone, kSum, kMean };

struct LossAttributes {
  std::optional<int64_t> ignore_index;  // A label whose losses do not count.
  Reduction reduction = Reduction::kMean;
};

// -input[label], by label or reduced.
struct NegativeLogLikelihoodLoss : LossAttributes {};

// -log(softmax(x))[label], by label or reduced; the logarithm of the softmax is
// a second result.
struct SoftmaxCrossEntropyLoss : LossAttributes {};

}  // namespace nodewise::ops
