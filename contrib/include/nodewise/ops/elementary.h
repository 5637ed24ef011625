#pragma once

// Functions of one number. Each class is its operator's primary attributes.

namespace nodewise::ops {

// y = |x|.
struct Abs {};
// y = -x.
struct Neg {};
// y = 1 where x > 0, -1 where x < 0, else x.
struct Sign {};
// The error function: y = 2 / sqrt(pi) * the integral of exp(-t^2) from 0 to x.
struct Erf {};
// y = the square root of x.
struct Sqrt {};
// y = 1 / x.
struct Reciprocal {};
// y = e to the power of x.
struct Exp {};
// y = the natural logarithm of x.
struct Log {};
// y = the largest whole number not above x.
struct Floor {};
// y = the smallest whole number not below x.
struct Ceil {};
// y = the whole number nearest to x; the even one of two.
struct Round {};

// y = sin(x), x in radians.
struct Sin {};
// y = cos(x), x in radians.
struct Cos {};
// y = tan(x), x in radians.
struct Tan {};
// y = the angle in [-pi / 2, pi / 2] whose sine is x.
struct Asin {};
// y = the angle in [0, pi] whose cosine is x.
struct Acos {};
// y = the angle in [-pi / 2, pi / 2] whose tangent is x.
struct Atan {};

// y = (exp(x) - exp(-x)) / 2.
struct Sinh {};
// y = (exp(x) + exp(-x)) / 2.
struct Cosh {};
// y = sinh(x) / cosh(x).
struct Tanh {};
// y = the number whose hyperbolic sine is x.
struct Asinh {};
// y = the number, 0 or more, whose hyperbolic cosine is x.
struct Acosh {};
// y = the number whose hyperbolic tangent is x.
struct Atanh {};

}  // namespace nodewise::ops
