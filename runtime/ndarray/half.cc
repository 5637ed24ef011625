#include "nodewise/ndarray/half.h"

#include <bit>

namespace nodewise {
namespace {

// Rounds the double `value` to a binary16. Done on the bits of a double, which
// holds every float exactly, so that no value is rounded twice.
uint16_t RoundToHalf(double value) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 48 & 0x8000);
  const int exponent = static_cast<int>(bits >> 52 & 0x7FF) - 1023;
  const uint64_t fraction = bits & 0xFFFFFFFFFFFFF;
  if (exponent == 1024 && fraction != 0) return sign | 0x7E00;
  if (exponent >= 16) return sign | 0x7C00;
  if (exponent < -25) return sign;  // Below half of the minimum subnormal.
  // Bits that do not fit: 42 for normal numbers, more as they get subnormal.
  const int shift = exponent >= -14 ? 42 : 42 + (-14 - exponent);
  const uint64_t significand = fraction | uint64_t{1} << 52;
  const uint64_t kept = significand >> shift;
  const uint64_t rest = significand & ((uint64_t{1} << shift) - 1);
  const uint64_t half = uint64_t{1} << (shift - 1);
  const uint64_t up = rest > half || (rest == half && (kept & 1)) ? 1 : 0;
  // A carry runs from the fraction into the exponent, as it should.
  const uint64_t base =
      exponent >= -14 ? static_cast<uint64_t>(exponent + 14) << 10 : 0;
  return sign | static_cast<uint16_t>(base + kept + up);
}

}  // namespace

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = half >> 10 & 0x1F;
  const uint32_t fraction = half & 0x3FF;
  if (exponent == 0x1F) {
    return std::bit_cast<float>(sign | 0x7F800000 | fraction << 13);
  }
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t FloatToHalf(float value) { return RoundToHalf(value); }

uint16_t DoubleToHalf(double value) { return RoundToHalf(value); }

float BfloatToFloat(uint16_t bfloat) {
  return std::bit_cast<float>(static_cast<uint32_t>(bfloat) << 16);
}

uint16_t FloatToBfloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (value != value) return static_cast<uint16_t>(bits >> 16 | 0x40);
  const uint32_t odd = bits >> 16 & 1;
  return static_cast<uint16_t>((bits + 0x7FFF + odd) >> 16);
}

}  // namespace nodewise
