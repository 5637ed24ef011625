#pragma once

// One number from the elements along some sides. Each class is its operator's
// primary attributes; the sides are an input.

namespace nodewise::ops {

struct ReduceAttributes {
  bool keepdims = true;               // Sides that are reduced stay, 1 long.
  bool noop_with_empty_axes = false;  // False: without axes all are reduced.
};

// y = sum of x.
struct ReduceSum : ReduceAttributes {};

// y = sum of x / number of elements.
struct ReduceMean : ReduceAttributes {};

// y = sum of x^2.
struct ReduceSumSquare : ReduceAttributes {};

// y = sum of |x|.
struct ReduceL1 : ReduceAttributes {};

// y = sqrt(sum of x^2).
struct ReduceL2 : ReduceAttributes {};

// y = log(sum of x).
struct ReduceLogSum : ReduceAttributes {};

// y = log(sum of exp(x)).
struct ReduceLogSumExp : ReduceAttributes {};

// y = the largest x.
struct ReduceMax : ReduceAttributes {};

// y = the smallest x.
struct ReduceMin : ReduceAttributes {};

// y = product of x.
struct ReduceProd : ReduceAttributes {};

}  // namespace nodewise::ops
