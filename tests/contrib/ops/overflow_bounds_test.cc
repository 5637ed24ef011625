// Bounds where correct kernels meet infinities or subnormal numbers on their
// way, which the reference does not. Random tests of operators found these.

#include <cmath>
#include <limits>

#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

constexpr float kHuge = std::numeric_limits<float>::max();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();

struct Case {
  OpSetup operation;
  std::vector<NDArray> inputs;
};

NDArray Tensor(const Ints& shape, const Numbers& numbers) {
  return MakeTensor<float>(shape, numbers);
}

std::vector<Case> Overflowing() {
  return {
      // The sum, before it is divided.
      {{"GlobalAveragePool"}, {Tensor({1, 1, 3}, {kHuge, kHuge, -kHuge})}},
      {{"AveragePool", kNewestOpset, {{"kernel_shape", Ints{2}}}},
       {Tensor({1, 1, 2}, {kHuge, kHuge / 2})}},
      // Squares.
      {{"GlobalLpPool"}, {Tensor({1, 1, 2}, {1e30F, 1})}},
      {{"LpPool", kNewestOpset, {{"kernel_shape", Ints{2}}}},
       {Tensor({1, 1, 2}, {1e30F, 1})}},
      {{"LRN", kNewestOpset, {Attr("size", 1)}}, {Tensor({1, 1, 1}, {1e30F})}},
      {{"LayerNormalization"},
       {Tensor({1, 2}, {1e30F, 1}), Tensor({2}, {1, 1})}},
      {{"LpNormalization"}, {Tensor({1, 2}, {1e30F, 1})}},
      {{"MeanVarianceNormalization", kNewestOpset, {{"axes", Ints{1}}}},
       {Tensor({1, 2}, {1e30F, 1})}},
      // The product, before it is scaled.
      {{"Gemm", kNewestOpset, {Real("alpha", 0.25F)}},
       {Tensor({1, 1}, {kHuge}), Tensor({1, 1}, {2})}},
      // The product of some, times 0.
      {{"ReduceProd"}, {Tensor({3}, {kHuge, 0, kHuge})}},
      // The product that is scaled by nothing.
      {{"Gemm", kNewestOpset, {Real("alpha", 0)}},
       {Tensor({1, 1}, {kHuge}), Tensor({1, 1}, {2})}},
      // What is added, and scaled by nothing: as in BLAS it may not be read.
      {{"Gemm", kNewestOpset, {Real("beta", 0)}},
       {Tensor({1, 1}, {1}), Tensor({1, 1}, {1}), Tensor({1, 1}, {kInf})}},
      // The distance from the mean over the deviation, times a scale of 0.
      {{"BatchNormalization", 9},
       {Tensor({1, 1}, {0}), Tensor({1}, {0}), Tensor({1}, {0}),
        Tensor({1}, {kHuge}), Tensor({1}, {0.25F})}},
      // The scale over the deviation, and what is added to it.
      {{"BatchNormalization", 9},
       {Tensor({1, 1}, {0}), Tensor({1}, {-kInf}), Tensor({1}, {-kInf}),
        Tensor({1}, {-kInf}), Tensor({1}, {0.25F})}},
      {{"InstanceNormalization"},
       {Tensor({1, 1, 1}, {0}), Tensor({1}, {kHuge}), Tensor({1}, {0})}},
      // A variance that is too small for the type.
      {{"InstanceNormalization", kNewestOpset, {Real("epsilon", 0)}},
       {Tensor({1, 1, 2}, {4 * kTiny, 0}), Tensor({1}, {1}), Tensor({1}, {0})}},
      {{"LpNormalization"}, {Tensor({1, 1}, {4 * kTiny})}},
      // The sum, before its logarithm.
      {{"ReduceLogSum"}, {Tensor({2}, {kHuge, kHuge})}},
      // Infinity over infinity.
      {{"Softsign"}, {Tensor({1}, {kInf})}},
      // What has no inverse.
      {{"Inverse", 1, {}, 1, "com.microsoft"}, {Tensor({2, 2}, {0, 0, 0, 1})}},
      // The scale over the deviation.
      {{"BatchNormalization", 9},
       {Tensor({1, 1}, {0}), Tensor({1}, {kHuge}), Tensor({1}, {0}),
        Tensor({1}, {0}), Tensor({1}, {0.25F})}},
  };
}

TEST(OverflowBoundsTest, WhatMayOverflowOnTheWayMayBeAnything) {
  for (const Case& one : Overflowing()) {
    const auto made = EvaluateAll(one.operation, one.inputs, true);
    ASSERT_TRUE(made.ok()) << one.operation.name << ": " << made.status();
    EXPECT_EQ(made->bounds[0].proved[0], kInf) << one.operation.name;
  }
}

TEST(OverflowBoundsTest, InfinitiesThatAreGivenAreNotAnOverflow) {
  const auto made =
      EvaluateAll({"GlobalAveragePool"}, {Tensor({1, 1, 2}, {kInf, 1})}, true);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_NE(made->bounds[0].proved[0], kInf);
}

TEST(OverflowBoundsTest, ProductsThatOverflowOnTheirWayMayBecomeNan) {
  const auto made = EvaluateAll(
      {"CumProd"},
      {Tensor({4}, {2, kHuge, 0, 1}), MakeTensor<int64_t>({}, {0}, kInt64)},
      true);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_LT(made->bounds[0].proved[0], 1e-6);
  EXPECT_EQ(made->bounds[0].proved[2], kInf);
}

TEST(OverflowBoundsTest, PowersThatUnderflowAreLost) {
  for (const OpSetup& one :
       {OpSetup{"GlobalLpPool"},
        OpSetup{"LpPool", kNewestOpset, {{"kernel_shape", Ints{1}}}}}) {
    const auto made = EvaluateAll(one, {Tensor({1, 1, 1}, {16 * kTiny})}, true);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_GE(made->bounds[0].proved[0], 16 * kTiny) << one.name;
    EXPECT_LT(made->bounds[0].proved[0], 1e-20) << one.name;
  }
}

// Statistics of doubles are floats where `stash_type` says so.
TEST(OverflowBoundsTest, StatisticsAreRoundedToTheirOwnType) {
  const NDArray x = MakeTensor<double>({1, 2}, {0, -3});
  const NDArray scale = MakeTensor<double>({2}, {1, 1});
  for (const bool is_float : {true, false}) {
    const auto made = EvaluateAll({"LayerNormalization",
                                   kNewestOpset,
                                   {Attr("stash_type", is_float ? 1 : 11)}},
                                  {x, scale}, true);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->bounds[0].proved[1] > 1e-8, is_float);
  }
}

// By the formulas it is an infinity times 0.
TEST(OverflowBoundsTest, GatesMayMeetAnInfinity) {
  for (const char* name : {"Gelu", "HardSwish", "Mish", "Swish"}) {
    const auto made = EvaluateAll({name}, {Tensor({2}, {-kInf, 1})}, true);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->bounds[0].proved[0], kInf) << name;
    EXPECT_LT(made->bounds[0].proved[1], 1e-5) << name;
  }
}

// (-1.8e308 * 1e307) + (2e306 * 2e307): the second product is finite in a
// fused multiply-add alone.
TEST(OverflowBoundsTest, DoublesOverflowToo) {
  const auto made = EvaluateAll(
      {"MatMul"},
      {MakeTensor<double>({1, 2}, {-1.7976931348623157e+308, 2e306}),
       MakeTensor<double>({2, 1}, {1e307, 2e307})},
      true);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->bounds[0].proved[0], kInf);
}

TEST(OverflowBoundsTest, ProductsOfDoublesThatUnderflowAreNotExact) {
  const double tiny = std::numeric_limits<double>::denorm_min();
  const auto made = EvaluateAll({"MatMul"},
                                {MakeTensor<double>({1, 2}, {0.5, 0.5}),
                                 MakeTensor<double>({2, 1}, {tiny, tiny})},
                                true);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_GE(made->bounds[0].proved[0], tiny);
}

// The mean of 13 and 0 times the least number is 6 or 7 times it in float32.
TEST(OverflowBoundsTest, SubnormalMeansAreRounded) {
  const auto made =
      EvaluateAll({"LayerNormalization"},
                  {Tensor({1, 2}, {13 * kTiny, 0}), Tensor({2}, {0, 1})}, true);
  ASSERT_TRUE(made.ok()) << made.status();
  const double rounded = 0.5 * kTiny / std::sqrt(1e-5);
  EXPECT_GE(made->bounds[0].proved[1], rounded);
  EXPECT_LE(made->bounds[0].proved[1], 100 * rounded);
}

TEST(OverflowBoundsTest, GapsOfTransposedConvolutionsMayMeetInfiniteWeights) {
  const auto made = EvaluateAll(
      {"ConvTranspose"},
      {Tensor({1, 1, 2}, {0, 0}), Tensor({1, 1, 2}, {-kInf, 0})}, true);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->bounds[0].proved[2], kInf);
}

}  // namespace
}  // namespace nodewise
