#pragma once

// Operators whose number of elements depends on the data. Each class is its
// operator's primary attributes.

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

}  // namespace nodewise::ops
