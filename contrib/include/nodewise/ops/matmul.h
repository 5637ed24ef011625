#pragma once

// Products of matrices. Each class is its operator's primary attributes.

namespace nodewise::ops {

// NumPy's matrix product.
struct MatMul {};

// The product of 8-bit integers less their zero points, modulo 2^32.
struct MatMulInteger {};

}  // namespace nodewise::ops
