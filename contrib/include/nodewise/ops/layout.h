#pragma once

// Operators that give a tensor another shape, or tell its shape, and those that
// cut tensors, put them together and turn them around. Each class is its
// operator's primary attributes.

#include <cstdint>
#include <optional>
#include <vector>

#include "nodewise/op/attribute_types.h"

namespace nodewise::ops {

// Gives the data the shape of the second input, where -1 stands for what is
// left.
struct Reshape {
  bool allowzero = false;  // False: 0 stands for the data's own side.
};

// Makes two sides of all: those before `axis`, and those from it on.
struct Flatten {
  int64_t axis = 1;
};

// Takes away the given sides, or all that are 1 long.
struct Squeeze {};

// Inserts sides that are 1 long.
struct Unsqueeze {};

// y = x.
struct Identity {};

// Repeats sides that are 1 long until the tensor has the broadcast shape.
struct Expand {};

// The sides [start, end) of the data.
struct Shape {
  int64_t start = 0;
  std::optional<int64_t> end;  // None: behind the last.
};

// The number of elements of the data.
struct Size {};

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
