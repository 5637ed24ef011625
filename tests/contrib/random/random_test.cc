#include "nodewise/random/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "nodewise/ndarray/short_float.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;

NDArray Draw(DLDataType dtype, int64_t count = 4096, uint64_t seed = 7) {
  RandomSource source(seed);
  const auto tensor = RandomTensor(source, {count}, dtype);
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  return *tensor;
}

template <typename T>
std::set<int> Values(const NDArray& tensor) {
  const T* const values = tensor.As<T>();
  return {values, values + tensor.bytes() / sizeof(T)};
}

TEST(RandomSourceTest, SequenceNeverChanges) {
  // From an independent implementation of the algorithms, in Python.
  RandomSource plain(42);
  RandomSource stream(42, "input");
  EXPECT_EQ(plain.Next(), 18098215908451704037u);
  EXPECT_EQ(plain.Next(), 717166463988665777u);
  EXPECT_EQ(stream.Next(), 11117337091518187700u);
  EXPECT_EQ(stream.Next(), 3827605521892161985u);
}

TEST(RandomSourceTest, StreamsAndSeedsDiffer) {
  std::set<uint64_t> firsts;
  for (const uint64_t seed : {0, 1, 2}) {
    for (const char* stream : {"", "a", "b", "ab", "ba"}) {
      firsts.insert(RandomSource(seed, stream).Next());
    }
  }
  EXPECT_EQ(firsts.size(), 15u);
}

TEST(RandomSourceTest, SymmetricNumbersFillTheirInterval) {
  RandomSource source(1);
  double least = 1;
  double most = -1;
  double sum = 0;
  for (int i = 0; i < 100000; ++i) {
    const double value = source.Symmetric();
    ASSERT_TRUE(value >= -1 && value < 1) << value;
    least = std::min(least, value);
    most = std::max(most, value);
    sum += value;
  }
  EXPECT_LT(least, -0.999);
  EXPECT_GT(most, 0.999);
  EXPECT_NEAR(sum / 100000, 0, 0.01);
}

TEST(RandomSourceTest, BetweenReachesBothEndsAndNothingElse) {
  RandomSource source(1);
  std::set<int64_t> seen;
  for (int i = 0; i < 200; ++i) seen.insert(source.Between(-1, 2));
  EXPECT_THAT(seen, ElementsAre(-1, 0, 1, 2));
  EXPECT_EQ(source.Between(5, 5), 5);
}

TEST(RandomSourceTest, BetweenHoldsForTheWidestRangeAtTheEnds) {
  RandomSource source(1);
  for (int i = 0; i < 100; ++i) {
    EXPECT_GE(source.Between(INT64_MAX - 0xFFFFFFFF, INT64_MAX),
              INT64_MAX - 0xFFFFFFFF);
    EXPECT_LE(source.Between(INT64_MIN, INT64_MIN + 0xFFFFFFFF),
              INT64_MIN + 0xFFFFFFFF);
  }
}

TEST(SmallNumbersTest, AllBelowTheLimitAreEquallyOften) {
  for (const uint32_t limit : {1u, 2u, 7u, 32u, 256u}) {
    SmallNumbers numbers(RandomSource(7, "small"));
    std::vector<int> counts(limit);
    constexpr int kEach = 4000;
    for (uint32_t i = 0; i < limit * kEach; ++i) {
      const uint32_t number = numbers.Below(limit);
      ASSERT_LT(number, limit);
      ++counts[number];
    }
    // Five standard deviations.
    const double off = 5 * std::sqrt(kEach);
    EXPECT_THAT(counts, Each(AllOf(Ge(kEach - off), Le(kEach + off)))) << limit;
  }
}

TEST(RandomTensorTest, SmallerFloatsAreTheRoundedFloat32) {
  const NDArray wide = Draw(kFloat32);
  const NDArray half = Draw({kDLFloat, 16, 1});
  const NDArray bfloat = Draw({kDLBfloat, 16, 1});
  for (int i = 0; i < 4096; ++i) {
    const float value = wide.As<float>()[i];
    ASSERT_TRUE(value >= -1 && value < 1) << value;
    const float h = HalfToFloat(half.As<uint16_t>()[i]);
    const float b = BfloatToFloat(bfloat.As<uint16_t>()[i]);
    EXPECT_NEAR(h, value, h < 0.9995f ? 0x1p-12 : 0x1p-11);
    EXPECT_NEAR(b, value, b < 0.996f ? 0x1p-9 : 0x1p-8);
    EXPECT_TRUE(h < 1 && b < 1);
  }
}

TEST(RandomTensorTest, SixteenBitFloatsStayBelowOne) {
  const NDArray half = Draw({kDLFloat, 16, 1}, 1 << 18);
  const NDArray bfloat = Draw({kDLBfloat, 16, 1}, 1 << 18);
  float most_half = -1;
  float most_bfloat = -1;
  for (int i = 0; i < 1 << 18; ++i) {
    most_half = std::max(most_half, HalfToFloat(half.As<uint16_t>()[i]));
    most_bfloat =
        std::max(most_bfloat, BfloatToFloat(bfloat.As<uint16_t>()[i]));
  }
  EXPECT_EQ(most_half, 1 - 0x1p-11f);
  EXPECT_EQ(most_bfloat, 1 - 0x1p-8f);
}

// The value of an 8-bit float below infinity.
double FromFloat8(uint8_t bits, int mantissa_bits, int bias) {
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int exponent = (bits & 0x7F) >> mantissa_bits;
  const double magnitude = exponent == 0
                               ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                               : std::ldexp((1 << mantissa_bits) + mantissa,
                                            exponent - bias - mantissa_bits);
  return bits & 0x80 ? -magnitude : magnitude;
}

TEST(RandomTensorTest, EightBitFloatsAreTheNearestOfTheirType) {
  const NDArray wide = Draw({kDLFloat, 64, 1});
  const NDArray e4m3 = Draw({kDTypeE4M3, 8, 1});
  const NDArray e5m2 = Draw({kDTypeE5M2, 8, 1});
  for (int i = 0; i < 4096; ++i) {
    const double value = wide.As<double>()[i];
    const double size = std::fabs(value);
    const double a = FromFloat8(e4m3.As<uint8_t>()[i], 3, 7);
    const double b = FromFloat8(e5m2.As<uint8_t>()[i], 2, 15);
    EXPECT_LE(std::fabs(a - value),
              value > 0.96 ? 0x1p-4 : std::max(size * 0x1p-4, 0x1p-10));
    EXPECT_LE(std::fabs(b - value), value > 0.93 ? 0x1p-3 : size * 0x1p-3);
    EXPECT_TRUE(a < 1 && b < 1);
  }
}

TEST(RandomTensorTest, IntegersFillWhatTheTypeHoldsOfTheirRange) {
  const struct {
    DLDataType dtype;
    int least;
    int most;
  } rows[] = {
      {{kDLInt, 8, 1}, -10, 11}, {{kDLUInt, 8, 1}, 0, 11},
      {{kDLInt, 4, 1}, -8, 7},   {{kDLUInt, 4, 1}, 0, 11},
      {{kDLInt, 1, 1}, -1, 0},   {kBool, 0, 1},
      {kFfiBool, 0, 1},
  };
  for (const auto& row : rows) {
    const std::set<int> values = Values<int8_t>(Draw(row.dtype));
    EXPECT_EQ(*values.begin(), row.least) << ToString(row.dtype);
    EXPECT_EQ(*values.rbegin(), row.most) << ToString(row.dtype);
    EXPECT_EQ(values.size(), static_cast<size_t>(row.most - row.least + 1));
  }
}

TEST(RandomTensorTest, IntegersOfAllWidthsAreTheSame) {
  const std::set<int> values = Values<int64_t>(Draw(kInt64));
  EXPECT_EQ(*values.begin(), -10);
  EXPECT_EQ(*values.rbegin(), 11);
  EXPECT_EQ(Values<int32_t>(Draw({kDLInt, 32, 1})), values);
  EXPECT_EQ(Values<int16_t>(Draw({kDLInt, 16, 1})), values);
  EXPECT_EQ(Values<int8_t>(Draw({kDLInt, 8, 1})), values);
}

TEST(RandomTensorTest, LanesAndPartsTakeOneDrawEach) {
  const NDArray plain = Draw(kFloat32, 8);
  const NDArray lanes = Draw({kDLFloat, 32, 4}, 2);
  const NDArray parts = Draw({kDLComplex, 64, 1}, 4);
  EXPECT_EQ(std::memcmp(plain.data(), lanes.data(), 32), 0);
  EXPECT_EQ(std::memcmp(plain.data(), parts.data(), 32), 0);
}

TEST(RandomTensorTest, TypesWithoutNumbersAreRefused) {
  for (const DLDataType dtype :
       {DLDataType{kDLOpaqueHandle, 64, 1}, DLDataType{kDLUInt, 1, 8},
        DLDataType{kDLInt, 128, 1}, DLDataType{kDLFloat, 128, 1}}) {
    RandomSource source(1);
    const auto tensor = RandomTensor(source, {1}, dtype);
    EXPECT_EQ(tensor.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(MessageOf(tensor.status())),
                HasSubstr("type is " + ToString(dtype)));
  }
}

TEST(RandomTensorTest, NegativeDimensionIsInvalid) {
  RandomSource source(1);
  EXPECT_EQ(RandomTensor(source, {-1}, kFloat32).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace nodewise
