#pragma once

// Operators that write into a copy of their first input, by index. Each class
// is its operator's primary attributes.

#include <cstdint>

namespace nodewise::ops {

// What becomes of the old element: it is replaced (kNone), or the update is
// added to it, and so on.
enum class ScatterReduction { kNone, kAdd, kMul, kMax, kMin };

// Writes each update to its own place, but at its index along `axis`.
struct ScatterElements {
  int64_t axis = 0;
  ScatterReduction reduction = ScatterReduction::kNone;  // Since opset 16.
};
// Writes each update to its own place, but at its index along `axis`: the older
// name of ScatterElements.
struct Scatter : ScatterElements {};

// Writes each update to the place that a tuple of indices names.
struct ScatterND {
  ScatterReduction reduction = ScatterReduction::kNone;  // Since opset 16.
};

enum class CacheMode { kLinear, kCircular };
// Writes an update into a cache, from an index along `axis` on that each item
// of the batch has.
struct TensorScatter {
  int64_t axis = -2;
  CacheMode mode = CacheMode::kLinear;  // kCircular: goes on at the front.
};

}  // namespace nodewise::ops
