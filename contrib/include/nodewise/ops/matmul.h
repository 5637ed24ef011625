#pragma once

// Products of matrices. Each class is its operator's primary attributes.

namespace nodewise::ops {

// NumPy's matrix product.
struct MatMul {};

// The product of 8-bit integers less their zero points, modulo 2^32.
struct MatMulInteger {};

struct GemmAttributes {
  float alpha = 1;
  float beta = 1;
  bool transA = false;
  bool transB = false;
};
// Y = alpha A B + beta C, with A and B transposed if asked for.
struct Gemm : GemmAttributes {};
// The calculation of Gemm below opset 7, where C is broadcast if asked for.
struct Gemm1 : GemmAttributes {
  bool broadcast = false;
};

}  // namespace nodewise::ops
