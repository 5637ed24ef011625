#pragma once

// Probabilities from numbers. Each class is its operator's primary attributes.
// Below opset 13 all sides from `axis` on are one distribution, since then the
// elements along that side.

#include <cstdint>

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

}  // namespace nodewise::ops
