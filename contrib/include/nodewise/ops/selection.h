#pragma once

// Operators that select elements by their values, or put them in order. Each
// class is its operator's primary attributes.

#include <cstdint>
#include <optional>

namespace nodewise::ops {

// The places of all elements that are not 0, a column each.
struct NonZero {};

// The slices along `axis` whose condition is true.
struct Compress {
  std::optional<int64_t> axis;  // None: the elements, as one list.
};

// The best boxes of each class that do not overlap a better one too much.
struct NonMaxSuppression {
  bool center_point_box = false;  // False: boxes are given by two corners.
};

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
