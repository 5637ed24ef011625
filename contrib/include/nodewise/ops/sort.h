#pragma once

// Operators that put elements in order. Each class is its operator's primary
// attributes.

#include <cstdint>
#include <optional>

namespace nodewise::ops {

// The k largest or smallest elements along `axis`, and their indices.
struct TopK {
  int64_t axis = -1;
  bool largest = true;
  bool sorted = true;  // False: any order will do.
};

// The different slices along `axis`, and which of them are equal.
struct Unique {
  std::optional<int64_t> axis;  // None: the elements, as one list.
  bool sorted = true;           // False: in the order in which they occur.
};

}  // namespace nodewise::ops
