#pragma once

// Calculations with two numbers, limits, and operators with any number of
// inputs. Each class is its operator's primary attributes. From opset 7 on (8
// for any number of inputs) sides of 1 are repeated as NumPy does.

#include <cstdint>
#include <optional>

namespace nodewise::ops {

// What operators with two inputs have below opset 7, where sides are not
// repeated as NumPy does: the second input is repeated along the sides of the
// first.
struct AxisBroadcast {
  bool broadcast = false;  // False: both inputs have the same shape.
  // The side of the first input that the second one's first side goes with;
  // none: its sides go with the last ones.
  std::optional<int64_t> axis;
};

// C = A + B.
struct Add {};
// C = A + B, below opset 7.
struct Add1 : AxisBroadcast {};

// C = A - B.
struct Sub {};
// C = A - B, below opset 7.
struct Sub1 : AxisBroadcast {};

// C = A * B.
struct Mul {};
// C = A * B, below opset 7.
struct Mul1 : AxisBroadcast {};

// C = A / B; integers are cut off towards 0.
struct Div {};
// C = A / B, below opset 7.
struct Div1 : AxisBroadcast {};

// The remainder of A / B, with the sign of the divisor as in Python (below
// opset 28 of integers only), or with that of the dividend as in C.
struct Mod {
  bool fmod = false;  // True: as in C.
};

// Z = X to the power of Y, in the type of X; Y may be of another.
struct Pow {};
// Z = X to the power of Y, below opset 7.
struct Pow1 : AxisBroadcast {};

// Y = X where X is not below 0, else slope * X.
struct PRelu {};

// Clamps to [min, max]; gives max if min is above it.
struct Clip {};

// y = the smallest of the inputs' elements; NaN if one is.
struct Min {};

// y = the largest of the inputs' elements; NaN if one is.
struct Max {};

// y = the sum of the inputs.
struct Sum {};

// y = the sum of the inputs / their number.
struct Mean {};

}  // namespace nodewise::ops
