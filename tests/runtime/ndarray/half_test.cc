#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "nodewise/ndarray/short_float.h"

namespace nodewise {
namespace {

constexpr double kDoubleInfinity = std::numeric_limits<double>::infinity();
constexpr double kDoubleNan = std::numeric_limits<double>::quiet_NaN();

// A 16-bit float type: sign, exponent, fraction.
struct HalfFormat {
  int fraction_bits;
  int bias;
  int max_exponent;  // The field that means infinity and NaN.
};
constexpr HalfFormat kHalf{10, 15, 31};
constexpr HalfFormat kBfloat{7, 127, 255};

// The value of 16 bits, by the definition of the format.
double ValueOf(uint16_t bits, const HalfFormat& format) {
  const double sign = bits & 0x8000 ? -1 : 1;
  const int exponent = (bits & 0x7FFF) >> format.fraction_bits;
  const int fraction = bits & ((1 << format.fraction_bits) - 1);
  if (exponent == format.max_exponent) {
    return fraction != 0 ? kDoubleNan : sign * kDoubleInfinity;
  }
  const int scale = std::max(exponent, 1) - format.bias - format.fraction_bits;
  const int whole = exponent == 0 ? 0 : 1 << format.fraction_bits;
  return sign * std::ldexp(whole + fraction, scale);
}

// The nearest 16 bits, found by trying: among neighbours, the one whose value
// is nearer, else the even one. What lies as far as the first number that the
// format lacks is infinite.
uint16_t Nearest(double value, const HalfFormat& format) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::fabs(value);
  const auto infinite =
      static_cast<uint16_t>(format.max_exponent << format.fraction_bits);
  uint16_t low = 0;
  uint16_t high = infinite;
  while (high - low > 1) {
    const auto middle = static_cast<uint16_t>((low + high) / 2);
    (ValueOf(middle, format) <= size ? low : high) = middle;
  }
  if (std::isinf(size)) return sign | infinite;
  const double above = high == infinite
                           ? std::ldexp(1.0, format.max_exponent - format.bias)
                           : ValueOf(high, format);
  const double to_low = size - ValueOf(low, format);
  const double to_high = above - size;
  const bool up = to_high < to_low || (to_high == to_low && (low & 1) == 1);
  return sign | (up ? high : low);
}

// Values around everything that matters: each number of the format, the tie
// above it, and what lies next to the tie on both sides.
template <typename T>
std::vector<T> TellingValues(const HalfFormat& format) {
  std::vector<T> values;
  for (int bits = 0; bits < 0x7FFF; ++bits) {
    const double low = ValueOf(static_cast<uint16_t>(bits), format);
    const double high = ValueOf(static_cast<uint16_t>(bits + 1), format);
    if (!std::isfinite(low) || !std::isfinite(high)) continue;
    const auto tie = static_cast<T>((low + high) / 2);
    const T most = std::numeric_limits<T>::infinity();
    for (const T value : {static_cast<T>(low), tie, std::nextafter(tie, most),
                          std::nextafter(tie, -most)}) {
      values.push_back(value);
      values.push_back(-value);
    }
  }
  return values;
}

// Random bit patterns of T, without NaN.
template <typename T, typename Bits>
std::vector<T> RandomValues() {
  std::mt19937_64 random(20240607);
  std::vector<T> values;
  while (values.size() < 300000) {
    const T value = std::bit_cast<T>(static_cast<Bits>(random()));
    if (!std::isnan(value)) values.push_back(value);
  }
  return values;
}

template <typename T, typename Round>
void ExpectNearest(const std::vector<T>& values, const HalfFormat& format,
                   Round round) {
  for (const T value : values) {
    ASSERT_EQ(round(value), Nearest(value, format)) << std::hexfloat << value;
  }
}

TEST(HalfTest, EveryHalfHasTheValueOfItsDefinition) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const double expected = ValueOf(half, kHalf);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(HalfToFloat(half))) << bits;
    } else {
      ASSERT_EQ(double{HalfToFloat(half)}, expected) << bits;
      ASSERT_EQ(std::signbit(HalfToFloat(half)), bits >= 0x8000) << bits;
    }
  }
}

TEST(HalfTest, EveryHalfComesBackFromFloatAndDouble) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if (std::isnan(ValueOf(half, kHalf))) continue;
    ASSERT_EQ(FloatToHalf(HalfToFloat(half)), half) << bits;
    ASSERT_EQ(DoubleToHalf(HalfToFloat(half)), half) << bits;
  }
}

TEST(HalfTest, FloatGoesToTheNearestHalfAndTiesToEven) {
  ExpectNearest(TellingValues<float>(kHalf), kHalf, &FloatToHalf);
  ExpectNearest(RandomValues<float, uint32_t>(), kHalf, &FloatToHalf);
}

TEST(HalfTest, DoubleIsRoundedOnceOnly) {
  ExpectNearest(TellingValues<double>(kHalf), kHalf, &DoubleToHalf);
  ExpectNearest(RandomValues<double, uint64_t>(), kHalf, &DoubleToHalf);
  // Rounded to float first, this would become a tie and go down to even.
  EXPECT_EQ(DoubleToHalf(1 + 0x1p-11 + 0x1p-40), 0x3C01);
}

TEST(HalfTest, EdgesOfTheRangeAreRoundedRight) {
  const struct {
    double value;
    uint16_t half;
  } rows[] = {
      {0.0, 0x0000},
      {-0.0, 0x8000},
      {65504, 0x7BFF},
      {65519.99, 0x7BFF},
      {65520, 0x7C00},
      {-65520, 0xFC00},
      {1e300, 0x7C00},
      {kDoubleInfinity, 0x7C00},
      {-kDoubleInfinity, 0xFC00},
      {0x1p-24, 0x0001},
      {0x1p-25, 0x0000},
      {std::nextafter(0x1p-25, 1.0), 0x0001},
      {0x1.8p-24, 0x0002},
      {0x1p-14, 0x0400},
      {0x1.ff8p-15, 0x03FF},
      {0x1.ffcp-15, 0x0400},
      {-0x1p-1074, 0x8000},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(DoubleToHalf(row.value), row.half) << row.value;
  }
}

TEST(HalfTest, NanStaysNan) {
  const float payload = std::bit_cast<float>(0xFF800001);
  for (const float nan : {static_cast<float>(kDoubleNan), payload}) {
    EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(nan))));
    EXPECT_TRUE(std::isnan(HalfToFloat(DoubleToHalf(nan))));
    EXPECT_TRUE(std::isnan(BfloatToFloat(FloatToBfloat(nan))));
  }
}

TEST(BfloatTest, EveryBfloatHasItsValueAndComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto bfloat = static_cast<uint16_t>(bits);
    const double expected = ValueOf(bfloat, kBfloat);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(BfloatToFloat(bfloat))) << bits;
    } else {
      ASSERT_EQ(double{BfloatToFloat(bfloat)}, expected) << bits;
      ASSERT_EQ(FloatToBfloat(BfloatToFloat(bfloat)), bfloat) << bits;
    }
  }
}

TEST(BfloatTest, FloatGoesToTheNearestBfloatAndTiesToEven) {
  ExpectNearest(TellingValues<float>(kBfloat), kBfloat, &FloatToBfloat);
  ExpectNearest(RandomValues<float, uint32_t>(), kBfloat, &FloatToBfloat);
}

TEST(BfloatTest, LargestFloatsBecomeInfinite) {
  const float most = std::numeric_limits<float>::max();
  EXPECT_EQ(FloatToBfloat(most), 0x7F80);
  EXPECT_EQ(FloatToBfloat(-most), 0xFF80);
  EXPECT_EQ(FloatToBfloat(0x1.fep127f), 0x7F7F);
}

}  // namespace
}  // namespace nodewise
