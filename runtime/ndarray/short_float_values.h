#pragma once

#include <array>
#include <limits>

#include "nodewise/ndarray/short_float.h"

namespace nodewise {

// Return what a pattern of a format stands for, and that of all patterns.
// Constants are made of them, so that they are there before any code runs.

constexpr double PowerOfTwo(int exponent) {
  double power = 1;
  for (; exponent > 0; --exponent) power *= 2;
  for (; exponent < 0; ++exponent) power /= 2;
  return power;
}

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

}  // namespace nodewise
