#pragma once

// Operators that cut tensors, put them together and turn them around. Each
// class is its operator's primary attributes.

#include <cstdint>
#include <optional>
#include <vector>

#include "nodewise/op/attribute_types.h"

namespace nodewise::ops {

// Every step-th element from a start to an end along some sides.
struct Slice {};

// Cuts a side into parts of the given lengths, or of equal ones.
struct Split {
  int64_t axis = 0;
  // Parts; the last may be shorter. None: as many as there are outputs, all
  // equal.
  std::optional<int64_t> num_outputs;
};

// Puts tensors one after the other along a side.
struct Concat {
  Required<int64_t> axis;
};

// Exchanges sides: side i of the result is side perm[i] of the data.
struct Transpose {
  std::vector<int64_t> perm;  // Empty: the sides backwards.
};

}  // namespace nodewise::ops
