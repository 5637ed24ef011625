#include "nodewise/compare/bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/tensors.h"

namespace nodewise {
namespace {

constexpr Tolerance kFallback = {0, 0.5};

BoundCheck Checked(const std::vector<float>& expected,
                   const std::vector<float>& actual,
                   const std::vector<double>& proved,
                   const std::vector<double>& in_practice) {
  return CheckBounds(*Floats(expected), *Floats(actual), proved, in_practice,
                     kFallback);
}

TEST(BoundsTest, ElementsAreCountedByTheBoundTheyAreBeyond) {
  const BoundCheck check = Checked({1, 2, 3, 4}, {1, 2.5, 4, 6}, {1, 1, 1, 1},
                                   {0.75, 0.75, 0.75, 0.75});
  EXPECT_EQ(check.outside, 1U);
  EXPECT_EQ(check.unexpected, 2U);
  EXPECT_EQ(check.worst.element, 3U);
  EXPECT_EQ(check.bound, 1);
  EXPECT_EQ(check.ratio, 2);
  EXPECT_EQ(check.allowed_norm, 2);
}

TEST(BoundsTest, WhereNoBoundIsKnownTheToleranceCounts) {
  const BoundCheck check =
      Checked({1, 2, 3}, {1, 2.5, 6}, {NAN, NAN, NAN}, {NAN, NAN, NAN});
  EXPECT_EQ(check.without_bound, 2U);
  EXPECT_EQ(check.outside_fallback, 1U);
  EXPECT_EQ(check.worst.element, 2U);
  EXPECT_TRUE(std::isnan(check.bound));
  EXPECT_TRUE(std::isnan(check.ratio));
}

TEST(BoundsTest, AnElementWithABoundDecidesBeforeThoseWithout) {
  const BoundCheck check = Checked({1, 2}, {9, 2.25}, {NAN, 1}, {NAN, 1});
  EXPECT_EQ(check.worst.element, 1U);
  EXPECT_EQ(check.ratio, 0.25);
}

TEST(BoundsTest, NoBoundsAtAllAreNone) {
  const BoundCheck check = Checked({1, 2}, {1, 3}, {}, {});
  EXPECT_EQ(check.without_bound, 1U);
}

TEST(BoundsTest, AFactorOnAllIsFarFromIndependentErrors) {
  std::mt19937 random(1);
  std::normal_distribution<float> draw;
  std::vector<float> expected, scaled, noisy;
  for (int i = 0; i < 10000; ++i) {
    expected.push_back(draw(random));
    scaled.push_back(expected.back() * 1.0005F);
    noisy.push_back(expected.back() + 0.0005F * draw(random));
  }
  const std::vector<double> bounds(expected.size(), 0.005);
  EXPECT_GT(Checked(expected, scaled, bounds, bounds).alignment, 6.2);
  EXPECT_LT(Checked(expected, noisy, bounds, bounds).alignment, 1);
}

TEST(BoundsTest, ADifferenceBelowTheNormalNumbersIsCountedApart) {
  const BoundCheck check = Checked({6e-42F, 1, 2e-38F}, {0, 1, 1.9e-38F},
                                   {1e-44, 1, 0}, {1e-45, 1, 0});
  EXPECT_EQ(check.subnormal, 2U);
  EXPECT_EQ(check.outside + check.unexpected, 0U);
  EXPECT_EQ(check.worst.element, 0U);
  EXPECT_EQ(check.ratio, 0);
  // With others it stays a remark, and they decide.
  const BoundCheck both = Checked({6e-42F, 1}, {0, 3}, {0, 1}, {0, 1});
  EXPECT_EQ(both.subnormal, 1U);
  EXPECT_EQ(both.outside, 1U);
  EXPECT_EQ(both.worst.element, 1U);
  // The next larger difference counts.
  EXPECT_EQ(Checked({2.4e-38F}, {0}, {0}, {0}).outside, 1U);
}

TEST(BoundsTest, TheSmallestNormalNumberIsThatOfTheType) {
  EXPECT_EQ(SmallestNormal({kDLFloat, 32, 1}),
            std::numeric_limits<float>::min());
  EXPECT_EQ(SmallestNormal({kDLFloat, 64, 1}),
            std::numeric_limits<double>::min());
  EXPECT_EQ(SmallestNormal({kDLBfloat, 16, 1}),
            std::numeric_limits<float>::min());
  EXPECT_EQ(SmallestNormal({kDLFloat, 16, 1}), 0x1p-14);
  EXPECT_EQ(SmallestNormal({kDLInt, 32, 1}), 0);
}

TEST(BoundsTest, WhatIsNotFiniteIsNotJudged) {
  const BoundCheck check = Checked({1, INFINITY}, {NAN, 1}, {0, 0}, {0, 0});
  EXPECT_EQ(check.outside, 0U);
  EXPECT_EQ(check.without_bound, 0U);
}

TEST(BoundsTest, WhereTheBoundIsInfiniteAnythingIsRight) {
  const BoundCheck check =
      Checked({NAN, 1, INFINITY, 1, NAN}, {1, INFINITY, -INFINITY, 9, NAN},
              {INFINITY, INFINITY, INFINITY, INFINITY, INFINITY}, {});
  EXPECT_EQ(check.outside, 0U);
  EXPECT_EQ(check.open_nans, 1U);
  EXPECT_EQ(check.open_infinities, 2U);
}

}  // namespace
}  // namespace nodewise
