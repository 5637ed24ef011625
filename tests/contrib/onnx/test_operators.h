#pragma once

#include "nodewise/op/op_def.h"

namespace nodewise {

// Operators made up for the tests of import and export, so that these do not
// depend on the real ones:
//   Neg(X) -> Y
//   Plus(A, B) -> C, of one shape
//   Scale(X; factor, offset = 0) -> Y
//   Sides(X) -> the shape of X, int64
//   Fit(X, sides) -> X in that shape
//   Squash(X, axes) -> X; axes is an attribute before opset 13
//   Best(X, k) -> X; k is one number, an attribute before opset 10
//   Bound(X, limit) -> X; limit is one number, an attribute before opset 11
//   Halve(X) -> Y, optional Z
//   Choose(which; then_branch, else_branch) -> Y
//   Late(X) -> Y, from opset 15
const OpSet& TestOperators();

}  // namespace nodewise
