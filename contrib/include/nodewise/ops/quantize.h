#pragma once

// Floats to shorter numbers by a scale and a zero point, and back, and products
// of such numbers. Each class is its operator's primary attributes.
//
// There is one scale (and zero point) for all elements, one for each index
// along `axis`, or, if `block_size` is not 0, one for each block along it.

#include <cstdint>
#include <optional>

#include "nodewise/ndarray/dtype.h"
#include "nodewise/ops/conv.h"

namespace nodewise::ops {

// y = x / y_scale, rounded, plus y_zero_point, and clamped to the range of the
// type.
struct QuantizeLinear {
  int64_t axis = 1;
  int64_t block_size = 0;
  std::optional<DLDataType> output_dtype;  // None: the zero point's, or uint8.
  std::optional<DLDataType> precision;     // The division's. None: the scale's.
  bool saturate = true;                    // For floats of 8 bits.
};

// y = (x - x_zero_point) * x_scale.
struct DequantizeLinear {
  int64_t axis = 1;
  int64_t block_size = 0;
  std::optional<DLDataType> output_dtype;  // None: the scale's.
};

// y = DequantizeLinear(QuantizeLinear(x)): what training for quantization
// inserts. An operator of the domain "nodewise".
struct FakeQuantize {
  int64_t axis = 1;
  int64_t block_size = 0;
  // The type in between. None: the zero point's, or uint8.
  std::optional<DLDataType> output_dtype;
};

// Quantizes to uint8 with the scale and zero point of the data's own range,
// widened so that 0 is in it.
struct DynamicQuantizeLinear {};

// The convolution of ConvInteger plus the bias B, multiplied by x_scale *
// w_scale / y_scale, rounded and moved by y_zero_point.
struct QLinearConv : ConvAttributes {};

// The product of MatMulInteger, multiplied by a_scale * b_scale / y_scale,
// rounded and moved by y_zero_point. Floats of 8 bits are multiplied as they
// are, and rounded to such only once.
struct QLinearMatMul {};

}  // namespace nodewise::ops
