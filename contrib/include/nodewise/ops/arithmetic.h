#pragma once

// Calculations with two numbers, and limits. Each class is its operator's
// primary attributes. From opset 7 on sides of 1 are repeated as NumPy does.

#include "nodewise/ops/axis_broadcast.h"

namespace nodewise::ops {

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

}  // namespace nodewise::ops
