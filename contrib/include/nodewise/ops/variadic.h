#pragma once

// Operators with any number of inputs, all broadcast together. Each class is
// its operator's primary attributes.

namespace nodewise::ops {

// y = the smallest of the inputs' elements; NaN if one is.
struct Min {};

// y = the largest of the inputs' elements; NaN if one is.
struct Max {};

// y = the sum of the inputs.
struct Sum {};

// y = the sum of the inputs / their number.
struct Mean {};

}  // namespace nodewise::ops
