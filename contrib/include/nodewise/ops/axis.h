#pragma once

// Operators that go along one side. Each class is its operator's primary
// attributes.

#include <cstdint>

namespace nodewise::ops {

// What ArgMax and ArgMin have.
struct ArgAttributes {
  int64_t axis = 0;                // May be counted from the end, from -1 on.
  bool keepdims = true;            // The side stays, with size 1.
  bool select_last_index = false;  // Among equals; else the first counts.
};
// The place of the largest element along a side; the first NaN wins.
struct ArgMax : ArgAttributes {};
// The place of the smallest element along a side; the first NaN wins.
struct ArgMin : ArgAttributes {};

// What CumSum and CumProd have; the side is input 1.
struct CumulativeAttributes {
  bool exclusive = false;  // Without the element itself.
  bool reverse = false;    // From the end on.
};
// Sums of all elements up to each along a side.
struct CumSum : CumulativeAttributes {};
// Products of all elements up to each along a side.
struct CumProd : CumulativeAttributes {};

}  // namespace nodewise::ops
