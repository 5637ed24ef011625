#pragma once

// Functions of one number between the layers of a network. Each class is its
// operator's primary attributes.

namespace nodewise::ops {

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
