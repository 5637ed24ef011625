#pragma once

// Operators that give a tensor another shape, or tell its shape. Each class is
// its operator's primary attributes.

#include <cstdint>
#include <optional>

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

}  // namespace nodewise::ops
