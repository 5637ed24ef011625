#pragma once

#include <cstdint>

namespace nodewise {

// Conversions of the 16-bit float types. They round to nearest even, and keep
// NaN and subnormals.
float HalfToFloat(uint16_t half);
uint16_t FloatToHalf(float value);
uint16_t DoubleToHalf(double value);
float BfloatToFloat(uint16_t bfloat);
uint16_t FloatToBfloat(float value);

}  // namespace nodewise
