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

// Floats of 8 bits and less, each in a byte of its own: what their patterns
// mean, and how a number is rounded to one.

// Which patterns are not ordinary numbers.
enum class ShortSpecials : uint8_t {
  kIeee,       // The last exponent is that of infinity and of NaN.
  kLastIsNan,  // The last pattern of either sign is NaN; there is no infinity.
  // The pattern that would be -0 is the only NaN; there is no infinity.
  kOneNan,
  kPowers,  // Powers of two alone: no sign, no zero; the last is NaN.
  kNone,    // All are numbers.
};

struct ShortFloat {
  uint8_t bits;
  uint8_t exponent_bits;
  uint8_t fraction_bits;
  uint8_t bias;
  ShortSpecials specials;
};

// Where a number between two powers of two goes.
enum class RoundMode { kUp, kDown, kNearest };

// How a number becomes a short float.
struct ShortRounding {
  // Numbers that are too large, infinity too, become the largest; else infinity
  // or, in a format without it, NaN. Formats without NaN always do so.
  bool saturates = true;
  RoundMode powers = RoundMode::kUp;  // For formats of powers alone.
};

// Returns the pattern of the nearest number, of the even one if two are as
// near, by the tables of ONNX's Cast (docs/formats/onnx_import.md). NaN is NaN,
// and 0 where there is none. Formats without a sign take the size of negative
// numbers.
uint8_t EncodeShortFloat(const ShortFloat& format, double x,
                         ShortRounding rounding = {});

}  // namespace nodewise
