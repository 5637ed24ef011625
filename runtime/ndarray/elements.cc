#include "nodewise/ndarray/elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

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

// Every half is a float, so nothing is rounded here. Subnormal halves are
// multiplied out, since they are normal as floats.
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

// A bfloat is the upper half of a float, rounded to the nearest, even if two
// are as near. NaN goes its own way: adding to its bits could make it infinite,
// and the bit that is set keeps it from losing all of its fraction.
uint16_t FloatToBfloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (value != value) return static_cast<uint16_t>(bits >> 16 | 0x40);
  const uint32_t odd = bits >> 16 & 1;
  return static_cast<uint16_t>((bits + 0x7FFF + odd) >> 16);
}

// What a pattern of a short float stands for is calculated while compiling, so
// that the constants are there before any code runs.

// std::ldexp is not constexpr in C++20. Powers of two are exact at every step.
constexpr double PowerOfTwo(int exponent) {
  double power = 1;
  for (; exponent > 0; --exponent) power *= 2;
  for (; exponent < 0; ++exponent) power /= 2;
  return power;
}

// Follows the fields of a pattern as IEEE 754 has them, after the patterns that
// the format gives another meaning.
constexpr double ShortFloatValue(const ShortFloat& format, unsigned pattern) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (format.specials == ShortSpecials::kPowers) {
    return pattern == 255 ? kNan
                          : PowerOfTwo(static_cast<int>(pattern) - format.bias);
  }
  const unsigned sign_bit = 1U << (format.bits - 1);
  const bool is_negative = (pattern & sign_bit) != 0;
  const unsigned rest = pattern & (sign_bit - 1);
  const int last = (1 << format.exponent_bits) - 1;
  const int exponent = static_cast<int>(rest >> format.fraction_bits);
  const int fraction =
      static_cast<int>(rest) & ((1 << format.fraction_bits) - 1);
  const double sign = is_negative ? -1 : 1;
  switch (format.specials) {
    case ShortSpecials::kIeee:
      if (exponent != last) break;
      return fraction != 0 ? kNan
                           : sign * std::numeric_limits<double>::infinity();
    case ShortSpecials::kLastIsNan:
      if (rest == sign_bit - 1) return kNan;
      break;
    case ShortSpecials::kOneNan:
      if (is_negative && rest == 0) return kNan;
      break;
    default:
      break;
  }
  const int hidden = exponent == 0 ? 0 : 1 << format.fraction_bits;
  const int scale = (exponent == 0 ? 1 : exponent) - format.bias -
                    static_cast<int>(format.fraction_bits);
  return sign * (hidden + fraction) * PowerOfTwo(scale);
}

constexpr std::array<float, 256> ShortFloatValues(const ShortFloat& format) {
  std::array<float, 256> values{};
  for (unsigned i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(ShortFloatValue(format, i));
  }
  return values;
}

namespace {

// Powers of two alone. The table in ONNX's Cast says what becomes of a number
// out of range before any rounding.
uint8_t EncodePower(const ShortFloat& format, double size,
                    ShortRounding rounding) {
  constexpr uint8_t kNan = 255;
  constexpr uint8_t kLargest = 254;
  if (size > ShortFloatValue(format, kLargest)) {
    return rounding.saturates ? kLargest : kNan;
  }
  if (size < ShortFloatValue(format, 0)) return rounding.saturates ? 0 : kNan;
  int exponent = std::ilogb(size);
  const double significand = std::ldexp(size, -exponent);
  const bool goes_up =
      (rounding.powers == RoundMode::kUp && significand > 1) ||
      (rounding.powers == RoundMode::kNearest && significand >= 1.5);
  if (goes_up) ++exponent;
  return static_cast<uint8_t>(exponent + format.bias);
}

// The patterns for NaN and for numbers that are too large, without the sign;
// for the latter, it is infinity if there is one.
struct SpecialPatterns {
  unsigned nan;
  unsigned too_large;
  unsigned largest;  // The largest number.
};

// Depends on how the format spends its last exponent.
SpecialPatterns PatternsOf(const ShortFloat& format) {
  const unsigned last = (1U << (format.bits - 1)) - 1;
  switch (format.specials) {
    case ShortSpecials::kIeee: {
      const unsigned infinity = last & ~((1U << format.fraction_bits) - 1);
      const unsigned quiet = 1U << (format.fraction_bits - 1);
      return {infinity | quiet, infinity, infinity - 1};
    }
    case ShortSpecials::kOneNan:
      return {last + 1, last + 1, last};
    case ShortSpecials::kNone:
      return {0, last, last};
    default:
      return {last, last, last - 1};
  }
}

}  // namespace

// The size is scaled so that the last bit of the format is worth 1, rounded by
// the processor to the nearest even, and added to the exponent's field; the
// sign comes last. A result past the largest number is treated like a number
// that was too large from the start.
uint8_t EncodeShortFloat(const ShortFloat& format, double x,
                         ShortRounding rounding) {
  const double size = std::fabs(x);
  if (format.specials == ShortSpecials::kPowers) {
    return std::isnan(x) ? 255 : EncodePower(format, size, rounding);
  }
  const unsigned sign = std::signbit(x) ? 1U << (format.bits - 1) : 0;
  const SpecialPatterns patterns = PatternsOf(format);
  if (std::isnan(x)) return static_cast<uint8_t>(patterns.nan | sign);
  const unsigned too_large =
      (rounding.saturates ? patterns.largest : patterns.too_large) | sign;
  // One and a half would do, but this bounds what is scaled below.
  if (size >= 2 * ShortFloatValue(format, patterns.largest)) {
    return static_cast<uint8_t>(too_large);
  }
  const int least = 1 - static_cast<int>(format.bias);
  const int exponent = size == 0 ? least : std::max(std::ilogb(size), least);
  // For a normal number this holds the leading 1, which adds one to the
  // exponent's field, as does a carry from rounding.
  const double significand =
      std::nearbyint(std::ldexp(size, format.fraction_bits - exponent));
  const unsigned pattern =
      (static_cast<unsigned>(exponent - least) << format.fraction_bits) +
      static_cast<unsigned>(significand);
  if (pattern > patterns.largest) return static_cast<uint8_t>(too_large);
  const bool has_no_such_zero =
      pattern == 0 && format.specials == ShortSpecials::kOneNan;
  return static_cast<uint8_t>(pattern | (has_no_such_zero ? 0 : sign));
}

// Constant, so that static objects of other files may use them while they are
// made.
template <uint8_t width, uint8_t exponent, uint8_t fraction, uint8_t bias,
          ShortSpecials specials>
constinit const std::array<float, 256>
    ShortFloatOf<width, exponent, fraction, bias, specials>::kValues =
        ShortFloatValues(kFormat);

template struct ShortFloatOf<8, 4, 3, 7, ShortSpecials::kLastIsNan>;
template struct ShortFloatOf<8, 4, 3, 8, ShortSpecials::kOneNan>;
template struct ShortFloatOf<8, 5, 2, 15, ShortSpecials::kIeee>;
template struct ShortFloatOf<8, 5, 2, 16, ShortSpecials::kOneNan>;
template struct ShortFloatOf<8, 8, 0, 127, ShortSpecials::kPowers>;
template struct ShortFloatOf<4, 2, 1, 1, ShortSpecials::kNone>;

// Compiled once for each type here, so that callers for which speed does not
// matter need no template of their own.
bool DecodeToDoubles(DLDataType dtype, const void* elements, size_t count,
                     double* to) {
  bool has_numbers = false;
  VisitElementType(dtype, [&](auto element) {
    using T = typename decltype(element)::Stored;
    if constexpr (DecodableElement<T>) {
      has_numbers = true;
      for (size_t i = 0; i < count; ++i) {
        to[i] = static_cast<double>(DecodeElement(LoadElement<T>(elements, i)));
      }
    }
  });
  return has_numbers;
}

}  // namespace nodewise
