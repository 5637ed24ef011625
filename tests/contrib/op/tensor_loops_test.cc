#include "nodewise/op/tensor_loops.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace nodewise {
namespace {

// Half the distance from x to the next number away from 0.
double HalfStepOf(float x) {
  const float next =
      std::nextafter(std::fabs(x), std::numeric_limits<float>::infinity());
  if (std::isinf(next)) return HalfStepOf(std::nextafter(std::fabs(x), 0.0F));
  return (double{next} - double{std::fabs(x)}) / 2;
}

TEST(TensorLoopsTest, HalfUlpIsHalfTheDistanceToTheNextNumber) {
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i) {
    const auto x = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isfinite(x)) continue;
    ASSERT_EQ(HalfUlp(kFloat32, x), HalfStepOf(x)) << x;
  }
  for (const float x : {0.0F, 1e-45F, 0x1p-126F, 1.0F, -1.0F, 3e38F}) {
    EXPECT_EQ(HalfUlp(kFloat32, x), HalfStepOf(x)) << x;
  }
}

TEST(TensorLoopsTest, HalfUlpOfOneIsTheUnitRoundoff) {
  const DLDataType types[] = {
      {kDLFloat, 16, 1}, {kDLBfloat, 16, 1}, kFloat32, {kDLFloat, 64, 1}};
  for (const DLDataType type : types) {
    EXPECT_EQ(HalfUlp(type, 1), UnitRoundoff(type));
    EXPECT_EQ(HalfUlp(type, -1.75), UnitRoundoff(type));
    EXPECT_EQ(HalfUlp(type, 2), 2 * UnitRoundoff(type));
    EXPECT_EQ(HalfUlp(type, std::nextafter(1.0, 0.0)), UnitRoundoff(type) / 2);
  }
}

TEST(TensorLoopsTest, HalfUlpsOfSubnormalsAreTheSmallestThereAre) {
  EXPECT_EQ(HalfUlp({kDLFloat, 16, 1}, 0), 0x1p-25);
  EXPECT_EQ(HalfUlp({kDLFloat, 16, 1}, 0x1p-24), 0x1p-25);
  EXPECT_EQ(HalfUlp({kDLFloat, 16, 1}, 0x1p-13), 0x1p-24);
  EXPECT_EQ(HalfUlp({kDLBfloat, 16, 1}, 0), 0x1p-134);
  // There is no half of the smallest double.
  EXPECT_EQ(HalfUlp({kDLFloat, 64, 1}, 0x1p-1022), 0x1p-1074);
  EXPECT_EQ(HalfUlp({kDLFloat, 64, 1}, 0x1p-1021), 0x1p-1074);
}

TEST(TensorLoopsTest, WhatIsNotFiniteOrNoFloatHasNoUlp) {
  EXPECT_EQ(HalfUlp(kFloat32, std::numeric_limits<double>::infinity()), 0);
  EXPECT_EQ(HalfUlp(kFloat32, std::nan("")), 0);
  EXPECT_EQ(HalfUlp(kInt64, 1), 0);
  EXPECT_EQ(UnitRoundoff(kInt64), 0);
}

}  // namespace
}  // namespace nodewise
