#pragma once

// Truth values and bits. Each class is its operator's primary attributes. From
// opset 7 on sides of 1 are repeated as NumPy does.

#include "nodewise/op/attribute_types.h"
#include "nodewise/ops/arithmetic.h"

namespace nodewise::ops {

// C = A and B.
struct And {};
// C = A and B, below opset 7.
struct And1 : AxisBroadcast {};

// C = A or B.
struct Or {};
// C = A or B, below opset 7.
struct Or1 : AxisBroadcast {};

// C = A or B, but not both.
struct Xor {};
// C = A or B, but not both, below opset 7.
struct Xor1 : AxisBroadcast {};

// Y = not X.
struct Not {};

// C = whether A = B.
struct Equal {};
// C = whether A = B, below opset 7.
struct Equal1 : AxisBroadcast {};

// C = whether A > B.
struct Greater {};
// C = whether A > B, below opset 7.
struct Greater1 : AxisBroadcast {};

// C = whether A < B.
struct Less {};
// C = whether A < B, below opset 7.
struct Less1 : AxisBroadcast {};

// C = whether A >= B.
struct GreaterOrEqual {};

// C = whether A <= B.
struct LessOrEqual {};

// Y = whether X is not a number.
struct IsNaN {};

// Y = whether X is infinite, with a sign that counts.
struct IsInf {
  bool detect_negative = true;
  bool detect_positive = true;
};

// C = the bits that A and B both have.
struct BitwiseAnd {};

// C = the bits that A or B has.
struct BitwiseOr {};

// C = the bits that A or B has, but not both.
struct BitwiseXor {};

// Y = the bits that X has not.
struct BitwiseNot {};

enum class ShiftDirection { kLeft, kRight };
// Z = X with its bits moved by Y places. What comes in on the right is 0, on
// the left the sign of a signed X (from opset 28 on), else 0. A Y below 0 moves
// all bits out, as one that is too large does.
struct BitShift {
  Required<ShiftDirection> direction;
};

// X where the condition holds, else Y.
struct Where {};

}  // namespace nodewise::ops
