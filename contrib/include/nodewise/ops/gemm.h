#pragma once

namespace nodewise::ops {

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
