#pragma once

// Probabilities from numbers, and losses of them. Each class is its operator's
// primary attributes. Below opset 13 all sides from `axis` on are one
// distribution, since then the elements along that side.

#include <cstdint>
#include <optional>

namespace nodewise::ops {

// y = exp(x) / sum of exp(x), over all sides from `axis` on.
struct Softmax1 {
  int64_t axis = 1;
};
// y = exp(x) / sum of exp(x), along `axis`.
struct Softmax {
  int64_t axis = -1;
};

// y = x - log(sum of exp(x)), over all sides from `axis` on.
struct LogSoftmax1 {
  int64_t axis = 1;
};
// y = x - log(sum of exp(x)), along `axis`.
struct LogSoftmax {
  int64_t axis = -1;
};

// y = 1 for the first of the largest elements of all sides from `axis` on, else
// 0.
struct Hardmax1 {
  int64_t axis = 1;
};
// y = 1 for the first of the largest elements along `axis`, else 0.
struct Hardmax {
  int64_t axis = -1;
};

// Losses are of scores [N, C, d1, ...] whose right classes are given as labels
// [N, d1, ...].
//
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
