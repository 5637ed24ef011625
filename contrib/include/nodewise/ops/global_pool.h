#pragma once

// One number for each plane: all spatial sides of one channel of one image.
// Each class is its operator's primary attributes.

#include <cstdint>

namespace nodewise::ops {

// The mean of the elements.
struct GlobalAveragePool {};

// The largest element; NaN where there is one.
struct GlobalMaxPool {};

// The p-norm: the p-th root of the sum of |x|^p.
struct GlobalLpPool {
  int64_t p = 2;
};
// The p-norm in opset 1, where p may be any number above 0.
struct GlobalLpPool1 {
  float p = 2;
};

}  // namespace nodewise::ops
