#pragma once

// Operators that pick elements by index, and those that write into a copy of
// their first input by index; a negative index counts from the end. Each class
// is its operator's primary attributes.

#include <cstdint>

namespace nodewise::ops {

// The slices along a side that the indices name.
struct Gather {
  int64_t axis = 0;
};

// For each element of the indices, the element of the data at its place, but
// with the index along one side.
struct GatherElements {
  int64_t axis = 0;
};

// The slices whose places the last side of the indices holds as tuples.
struct GatherND {
  // So many first sides are the same in data and indices (from opset 12 on).
  int64_t batch_dims = 0;
};

// Each sequence of a batch turned round as far as its length says.
struct ReverseSequence {
  int64_t batch_axis = 1;  // One axis is 0, the other 1.
  int64_t time_axis = 0;
};

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
