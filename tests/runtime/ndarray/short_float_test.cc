#include "nodewise/ndarray/short_float.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "nodewise/ndarray/elements.h"

namespace nodewise {
namespace {

template <typename T>
uint8_t Encode(double x, ShortRounding rounding = {}) {
  return EncodeShortFloat(T::kFormat, x, rounding);
}
template <typename T>
double Rounded(double x, ShortRounding rounding = {}) {
  return DecodeElement(T{Encode<T>(x, rounding)});
}

// Searches all patterns of the sign for the nearest, the even one of two.
template <typename T>
uint8_t NearestPattern(double x) {
  const int last = 1 << (T::kFormat.bits - 1);
  int best = -1;
  double least = INFINITY;
  for (int i = 0; i < last; ++i) {
    const double value = DecodeElement(T{static_cast<uint8_t>(i)});
    if (!std::isfinite(value)) continue;
    const double off = std::fabs(value - std::fabs(x));
    if (off < least || (off == least && i % 2 == 0)) best = i;
    least = std::min(least, off);
  }
  return static_cast<uint8_t>(best | (std::signbit(x) ? last : 0));
}

// Numbers between the patterns and close to the middles of two.
template <typename T>
std::vector<double> HardNumbers() {
  std::vector<double> numbers;
  std::mt19937_64 random(20260925);  // The seed.
  std::uniform_real_distribution<double> part(-1, 1);
  const int last = 1 << (T::kFormat.bits - 1);
  for (int i = 0; i + 1 < last; ++i) {
    const double a = DecodeElement(T{static_cast<uint8_t>(i)});
    const double b = DecodeElement(T{static_cast<uint8_t>(i + 1)});
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    const double middle = (a + b) / 2;
    for (const double x :
         {a, middle, std::nextafter(middle, 0), std::nextafter(middle, b),
          middle + part(random) * (b - a) / 2}) {
      numbers.push_back(x);
      numbers.push_back(-x);
    }
  }
  return numbers;
}

template <typename T>
class SignedShortFloatTest : public testing::Test {};
using SignedTypes = testing::Types<Float8E4M3, Float8E4M3Fnuz, Float8E5M2,
                                   Float8E5M2Fnuz, Float4E2M1>;
TYPED_TEST_SUITE(SignedShortFloatTest, SignedTypes);

TYPED_TEST(SignedShortFloatTest, NumbersGoToTheNearestAndTiesToTheEven) {
  for (const double x : HardNumbers<TypeParam>()) {
    const bool has_one_zero =
        TypeParam::kFormat.specials == ShortSpecials::kOneNan;
    uint8_t expected = NearestPattern<TypeParam>(x);
    if (has_one_zero && expected == 0x80) expected = 0;
    ASSERT_EQ(Encode<TypeParam>(x), expected) << x;
  }
}

TYPED_TEST(SignedShortFloatTest, EveryNumberIsRoundedToItself) {
  for (int i = 0; i < 1 << TypeParam::kFormat.bits; ++i) {
    const double x = DecodeElement(TypeParam{static_cast<uint8_t>(i)});
    if (std::isfinite(x)) {
      ASSERT_EQ(Encode<TypeParam>(x), i);
    }
  }
}

// The tables of ONNX's Cast, row by row.
struct SpecialRow {
  double x;
  double e4m3, e4m3_fnuz, e5m2, e5m2_fnuz;
};

TEST(ShortFloatTest, WhatIsTooLargeBecomesTheLargest) {
  const SpecialRow rows[] = {
      {INFINITY, 448, 240, 57344, 57344},
      {-INFINITY, -448, -240, -57344, -57344},
      {1e30, 448, 240, 57344, 57344},
      {-465, -448, -240, -448, -448},
      {-0.0, -0.0, 0, -0.0, 0},
      {1e-30, 0, 0, 0, 0},
  };
  for (const SpecialRow& row : rows) {
    EXPECT_EQ(Rounded<Float8E4M3>(row.x), row.e4m3) << row.x;
    EXPECT_EQ(Rounded<Float8E4M3Fnuz>(row.x), row.e4m3_fnuz) << row.x;
    EXPECT_EQ(Rounded<Float8E5M2>(row.x), row.e5m2) << row.x;
    EXPECT_EQ(Rounded<Float8E5M2Fnuz>(row.x), row.e5m2_fnuz) << row.x;
  }
  EXPECT_TRUE(std::signbit(Rounded<Float8E4M3>(-0.0)));
  EXPECT_FALSE(std::signbit(Rounded<Float8E4M3Fnuz>(-0.0)));
  EXPECT_EQ(Encode<Float8E5M2Fnuz>(-1e-30), 0);
}

TEST(ShortFloatTest, WithoutSaturationItIsInfiniteOrNan) {
  constexpr ShortRounding kNot{.saturates = false};
  for (const double x : {double{INFINITY}, 1e30}) {
    EXPECT_TRUE(std::isnan(Rounded<Float8E4M3>(x, kNot)));
    EXPECT_TRUE(std::isnan(Rounded<Float8E4M3Fnuz>(x, kNot)));
    EXPECT_EQ(Rounded<Float8E5M2>(x, kNot), INFINITY);
    EXPECT_EQ(Rounded<Float8E5M2>(-x, kNot), -INFINITY);
    EXPECT_TRUE(std::isnan(Rounded<Float8E5M2Fnuz>(-x, kNot)));
    EXPECT_EQ(Rounded<Float4E2M1>(x, kNot), 6);
  }
  // What is rounded back to the largest is not too large.
  EXPECT_EQ(Rounded<Float8E4M3>(464, kNot), 448);
  EXPECT_TRUE(std::isnan(Rounded<Float8E4M3>(464.001, kNot)));
  EXPECT_EQ(Rounded<Float8E5M2>(61439, kNot), 57344);
  EXPECT_EQ(Rounded<Float8E5M2>(61440, kNot), INFINITY);
}

TEST(ShortFloatTest, NanStaysNanWhereThereIsOne) {
  for (const bool saturates : {false, true}) {
    const ShortRounding rounding{.saturates = saturates};
    EXPECT_EQ(Encode<Float8E4M3>(NAN, rounding), 0x7F);
    EXPECT_EQ(Encode<Float8E4M3>(-NAN, rounding), 0xFF);
    EXPECT_EQ(Encode<Float8E4M3Fnuz>(-NAN, rounding), 0x80);
    EXPECT_EQ(Encode<Float8E5M2>(NAN, rounding), 0x7E);
    EXPECT_EQ(Encode<Float8E8M0>(NAN, rounding), 0xFF);
    EXPECT_EQ(Encode<Float4E2M1>(NAN, rounding), 0);
  }
}

TEST(ShortFloatTest, PowersGoUpDownOrToTheNearest) {
  constexpr ShortRounding kUp{.powers = RoundMode::kUp};
  constexpr ShortRounding kDown{.powers = RoundMode::kDown};
  constexpr ShortRounding kNearest{.powers = RoundMode::kNearest};
  const struct {
    double x, up, down, nearest;
  } rows[] = {{4, 4, 4, 4},
              {4.1, 8, 4, 4},
              {6, 8, 4, 8},
              {5.9, 8, 4, 4},
              {0x1.8p-126, 0x1p-125, 0x1p-126, 0x1p-125},
              {0x1p-127, 0x1p-127, 0x1p-127, 0x1p-127}};
  for (const auto& row : rows) {
    EXPECT_EQ(Rounded<Float8E8M0>(row.x, kUp), row.up) << row.x;
    EXPECT_EQ(Rounded<Float8E8M0>(row.x, kDown), row.down) << row.x;
    EXPECT_EQ(Rounded<Float8E8M0>(row.x, kNearest), row.nearest) << row.x;
  }
}

TEST(ShortFloatTest, PowersOutOfRangeAreTheLastOrNan) {
  constexpr ShortRounding kNot{.saturates = false,
                               .powers = RoundMode::kNearest};
  for (const double x : {double{INFINITY}, 1e300, 0x1.1p127}) {
    EXPECT_EQ(Encode<Float8E8M0>(x), 254) << x;
    EXPECT_EQ(Encode<Float8E8M0>(x, kNot), 255) << x;
  }
  for (const double x : {0.0, 1e-300, 0x1p-128}) {
    EXPECT_EQ(Encode<Float8E8M0>(x), 0) << x;
    EXPECT_EQ(Encode<Float8E8M0>(x, kNot), 255) << x;
  }
}

}  // namespace
}  // namespace nodewise
