#pragma once

// Products of quantized tensors. Each class is its operator's primary
// attributes.

#include "nodewise/ops/conv.h"

namespace nodewise::ops {

// The convolution of ConvInteger plus the bias B, multiplied by x_scale *
// w_scale / y_scale, rounded and moved by y_zero_point.
struct QLinearConv : ConvAttributes {};

// The product of MatMulInteger, multiplied by a_scale * b_scale / y_scale,
// rounded and moved by y_zero_point. Floats of 8 bits are multiplied as they
// are, and rounded to such only once.
struct QLinearMatMul {};

}  // namespace nodewise::ops
