#pragma once

// Windows that slide over a channel's plane, and pools of whole planes: all
// spatial sides of one channel of one image. Each class is its operator's
// primary attributes.

#include <cstdint>
#include <vector>

#include "nodewise/op/attribute_types.h"

namespace nodewise::ops {

// What the pools have in common. Lists are by spatial side.
struct PoolAttributes {
  Padding auto_pad = Padding::kNotset;
  bool ceil_mode = false;  // True: a last window may reach beyond the padding.
  std::vector<int64_t> dilations;     // Empty: 1 each.
  std::vector<int64_t> kernel_shape;  // Required.
  std::vector<int64_t> pads;          // Beginnings, then ends; empty: 0 each.
  std::vector<int64_t> strides;       // Empty: 1 each.
};

// The largest element of each window; NaN where there is one, and the first of
// equals.
struct MaxPool : PoolAttributes {
  bool storage_order = false;  // True: indices count columns first.
};

// The mean of each window.
struct AveragePool : PoolAttributes {
  // True: padding counts as elements that are 0.
  bool count_include_pad = false;
};

// The p-norm of each window: the p-th root of the sum of |x|^p.
struct LpPool : PoolAttributes {
  int64_t p = 2;
};
// The p-norm in opset 1, where p may be any number above 0.
struct LpPool1 {
  Padding auto_pad = Padding::kNotset;
  std::vector<int64_t> kernel_shape;  // Required.
  float p = 2;
  std::vector<int64_t> pads;     // Beginnings, then ends; empty: 0 each.
  std::vector<int64_t> strides;  // Empty: 1 each.
};

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
