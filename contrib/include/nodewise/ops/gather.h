#pragma once

// Operators that pick elements by index; a negative index counts from the end.
// Each class is its operator's primary attributes.

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

}  // namespace nodewise::ops
