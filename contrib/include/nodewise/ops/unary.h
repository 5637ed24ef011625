#pragma once

// Functions of one number: elementary ones, and those between the layers of a
// network. Each class is its operator's primary attributes.

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

// y = x where x > 0, else 0.
struct Relu {};

// y = x where x >= 0, else alpha * x.
struct LeakyRelu {
  float alpha = 0.01f;
};

// y = x where x > alpha, else 0.
struct ThresholdedRelu {
  float alpha = 1;
};

// y = x where x >= 0, else alpha * (exp(x) - 1).
struct Elu {
  float alpha = 1;
};

// y = gamma * x where x > 0, else gamma * alpha * (exp(x) - 1).
struct Selu {
  float alpha = 1.67326319217681884765625f;
  float gamma = 1.05070102214813232421875f;
};

// y = max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).
struct Celu {
  float alpha = 1;
};

// y = 1 / (1 + exp(-x)).
struct Sigmoid {};

// y = max(0, min(1, alpha * x + beta)).
struct HardSigmoid {
  float alpha = 0.2f;
  float beta = 0.5f;
};

// y = x * max(0, min(1, x / 6 + 0.5)).
struct HardSwish {};

enum class GeluFormula { kErf, kTanh };
// y = x * Phi(x), Phi being the normal distribution or an approximation of it.
struct Gelu {
  GeluFormula approximate = GeluFormula::kErf;
};

// y = x * sigmoid(alpha * x).
struct Swish {
  float alpha = 1;
};

// Y = A * sigmoid(alpha * A) * B.
struct SwiGLU {
  float alpha = 1;
};

// y = log(1 + exp(x)).
struct Softplus {};

// y = x * tanh(softplus(x)).
struct Mish {};

// y = x / (1 + |x|).
struct Softsign {};

// y = x drawn towards 0 by `bias` outside of [-lambd, lambd], 0 inside.
struct Shrink {
  float bias = 0;
  float lambd = 0.5f;
};

}  // namespace nodewise::ops
