#pragma once

#include <cstdint>
#include <vector>

#include "contrib/lab/planter/spoiling.h"

namespace nodewise {

// One side of an output of a node, longer than 1. The sizes are those that the
// graph has for it, since kernels may be called with tensors that are flat.
struct OutputSide {
  size_t output = 0;
  int side = 0;
  int64_t outer = 1;  // Elements of the sides before it.
  int64_t size = 1;
  int64_t inner = 1;  // Elements of those behind it.

  int64_t count() const { return outer * size * inner; }
  // Returns where along the side an element lies.
  int64_t PlaceOf(int64_t element) const { return element / inner % size; }
};

// Returns such sides of all outputs in a drawn order; not the first of several
// sides, which is the batch's as a rule, unless there is no other.
std::vector<OutputSide> SidesOf(const FaultPlace& place, RandomSource& random);

// Returns the largest absolute number that is finite; 0 if there is none.
double LargestOf(const NDArray& tensor);

}  // namespace nodewise
