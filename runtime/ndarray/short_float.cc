#include "nodewise/ndarray/short_float.h"

#include <algorithm>
#include <cmath>

#include "runtime/ndarray/short_float_values.h"

namespace nodewise {
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

// What stands for NaN and for numbers that are too large, without the sign; for
// the latter, it is infinity if there is one.
struct SpecialPatterns {
  unsigned nan;
  unsigned too_large;
  unsigned largest;  // The largest number.
};

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

}  // namespace nodewise
