#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "contrib/align/precision.h"
#include "contrib/align/tensor_match.h"
#include "nodewise/op/tensor_loops.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::DoubleNear;

TensorFacts FactsOf(const NDArray& tensor) {
  const absl::Span<const int64_t> shape = tensor.shape();
  return {{shape.begin(), shape.end()}, tensor.dtype(), {StatsOf(*tensor)}};
}

// Numbers from -0.9 to 2.1 and what they are in steps of 0.02 from -0.8 on, in
// 8 bits: those below are clipped.
class Quantised : public testing::Test {
 protected:
  Quantised() {
    for (int i = 0; i < 97; ++i) {
      const float number = 0.6F + 3 * std::sin(static_cast<float>(i)) / 2;
      floats_.push_back(number);
      const float q = std::round(number / 0.02F) + 40;
      integers_.push_back(static_cast<uint8_t>(std::clamp(q, 0.0F, 255.0F)));
    }
  }

  NDArray Floats() const { return MakeTensor<float>({97}, floats_, kFloat32); }
  NDArray Integers() const {
    return MakeTensor<uint8_t>({97}, integers_, kUint8);
  }

  std::vector<float> floats_;
  std::vector<uint8_t> integers_;
};

TEST_F(Quantised, ScaleAndZeroPointAreFoundThoughSomeIsClipped) {
  const NDArray tensors[] = {Integers()};
  const TensorMatcher matcher(FactsOf(Integers()), tensors);
  const NDArray sources[] = {Floats()};
  ASSERT_TRUE(matcher.MayMatchRounded(FactsOf(Floats())));
  const auto match = matcher.MatchRounded(FactsOf(Floats()), sources);
  ASSERT_TRUE(match.has_value());
  ASSERT_TRUE(match->layout.quantisation.has_value());
  EXPECT_THAT(match->layout.quantisation->scale, DoubleNear(0.02, 1e-4));
  EXPECT_EQ(match->layout.quantisation->zero_point, 40);
  EXPECT_EQ(match->layout.text.substr(0, 22), "quantised, scale 0.020");
  EXPECT_LT(match->distance, 2e-3);
}

TEST_F(Quantised, IntegersThatFollowNoFloatsAreNone) {
  std::vector<uint8_t> others = integers_;
  for (size_t i = 0; i < others.size(); ++i) {
    others[i] = static_cast<uint8_t>(i * 37 % 251);
  }
  const NDArray tensors[] = {MakeTensor<uint8_t>({97}, others, kUint8)};
  const TensorMatcher matcher(FactsOf(tensors[0]), tensors);
  const NDArray sources[] = {Floats()};
  EXPECT_FALSE(matcher.MatchRounded(FactsOf(Floats()), sources).has_value());
}

TEST(RoundoffTest, NumbersShowHowTheyWereMade) {
  const double kHalf = UnitRoundoff(kFloat16);
  std::vector<double> thirds;
  std::vector<double> halves;
  std::vector<double> steps;
  for (int i = 1; i < 60; ++i) {
    const float third = static_cast<float>(i) / 3 + 0.1F;
    thirds.push_back(third);
    halves.push_back(HalfToFloat(FloatToHalf(third)));
    steps.push_back(0.0123F * static_cast<float>(i * i % 31 - 9));
  }
  EXPECT_EQ(RoundoffOfNumbers(kFloat32, {{thirds}}), UnitRoundoff(kFloat32));
  EXPECT_EQ(RoundoffOfNumbers(kFloat32, {{halves}}), kHalf);
  EXPECT_THAT(RoundoffOfNumbers(kFloat32, {{steps}}),
              DoubleNear(0.5 / 19, 1e-3));
  EXPECT_EQ(RoundoffOfNumbers(kInt32, {{steps}}), 0);
}

}  // namespace
}  // namespace nodewise
