#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "nodewise/interp/interpreter.h"
#include "nodewise/interp/network_bounds.h"
#include "nodewise/random/random.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

NDArray RandomFloats(const std::string& stream, std::vector<int64_t> shape) {
  RandomSource source(1, stream);
  return RandomTensor(source, shape, kFloat32).value();
}

NDArray Int64s(const std::vector<int64_t>& numbers) {
  return MakeTensor<int64_t>({static_cast<int64_t>(numbers.size())}, numbers);
}

// A product of matrices, of 16 terms each, and what `follow` adds behind it.
template <typename Follow>
NetBuilder AfterProduct(Follow follow) {
  NetBuilder b;
  const ValueId x = b.In("x", {4, 16});
  const ValueId w = b.In("w", {16, 8});
  const ValueId product = b.Op("MatMul", {x, w})[0];
  b.Out({follow(&b, product)});
  return b;
}

std::vector<BoundedTensor> Carry(const NetBuilder& b) {
  auto result = InterpretCarryingBounds(
      b.net, {RandomFloats("x", {4, 16}), RandomFloats("w", {16, 8})});
  EXPECT_THAT(result, IsOk());
  return *std::move(result);
}

// The bounds of the product alone.
Bounds BoundsOfProduct() {
  return Carry(AfterProduct([](NetBuilder*, ValueId y) { return y; }))[0]
      .bounds;
}

TEST(CarriedBoundsTest, OneOperationHasItsOwnBounds) {
  const NetBuilder b = AfterProduct([](NetBuilder*, ValueId y) { return y; });
  Bounds own;
  InterpretOptions options;
  options.with_bounds = true;
  options.observe = [&](const OperationRun& run) -> absl::StatusOr<bool> {
    own = run.result.bounds[0];
    return false;
  };
  ASSERT_THAT(
      Interpret(b.net, {RandomFloats("x", {4, 16}), RandomFloats("w", {16, 8})},
                options),
      IsOk());
  EXPECT_EQ(BoundsOfProduct().proved, own.proved);
  EXPECT_EQ(BoundsOfProduct().expected, own.expected);
}

// A fused multiply-add: the square of 1 + 2^-12 needs 25 bits.
TEST(CarriedBoundsTest, WhatIsBetweenFusedOperationsNeedNotBeRounded) {
  NetBuilder b;
  const ValueId x = b.In("x", {1});
  const ValueId square = b.Op("Mul", {x, x})[0];
  b.Out(b.Op("Add", {square, b.In("y", {1})}));
  const auto result = InterpretCarryingBounds(
      b.net, {Floats({1 + 0x1p-12F}), Floats({-1 - 0x1p-11F})});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(ValuesOf((*result)[0].tensor)[0], 0);
  EXPECT_GE((*result)[0].bounds.proved[0], 0x1p-24);
}

TEST(CarriedBoundsTest, FactorsEnlargeAndReluKeepsWhatComesBeforeThem) {
  const Bounds product = BoundsOfProduct();
  const auto tripled = Carry(AfterProduct([](NetBuilder* b, ValueId y) {
    return b->Op("Mul", {y, b->Const("three", Floats({3}))})[0];
  }));
  const auto rectified = Carry(AfterProduct(
      [](NetBuilder* b, ValueId y) { return b->Op("Relu", {y})[0]; }));
  const std::vector<float> values = ValuesOf(rectified[0].tensor);
  for (size_t i = 0; i < product.proved.size(); ++i) {
    EXPECT_GE(tripled[0].bounds.proved[i], 2.9 * product.proved[i]);
    EXPECT_LE(tripled[0].bounds.proved[i], 4.1 * product.proved[i]);
    if (values[i] > 0) {
      EXPECT_NEAR(rectified[0].bounds.proved[i], product.proved[i],
                  0.5 * product.proved[i]);
    } else {
      EXPECT_LE(rectified[0].bounds.proved[i], product.proved[i]);
    }
  }
}

TEST(CarriedBoundsTest, AProductInFloatsStaysInsideThroughASigmoid) {
  const NetBuilder b = AfterProduct(
      [](NetBuilder* b, ValueId y) { return b->Op("Sigmoid", {y})[0]; });
  const auto carried = Carry(b);
  const auto x = ValuesOf(RandomFloats("x", {4, 16}));
  const auto w = ValuesOf(RandomFloats("w", {16, 8}));
  const auto reference = ValuesOf(carried[0].tensor);
  for (size_t row = 0; row < 4; ++row) {
    for (size_t column = 0; column < 8; ++column) {
      float sum = 0;
      for (size_t k = 0; k < 16; ++k) {
        sum += x[row * 16 + k] * w[k * 8 + column];
      }
      const float found = 1 / (1 + std::exp(-sum));
      const size_t at = row * 8 + column;
      EXPECT_LE(std::fabs(double{found} - double{reference[at]}),
                carried[0].bounds.proved[at]);
    }
  }
}

TEST(CarriedBoundsTest, NoBoundIsKnownAtAPoleOrBehindAnotherSum) {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 2});
  const ValueId w = b.In("w", {2, 1});
  const ValueId sum = b.Op("MatMul", {x, w})[0];
  const ValueId whole = b.Op("Softmax", {sum})[0];
  const ValueId inverse = b.Op("Reciprocal", {sum})[0];
  b.Out({inverse, whole});
  // The sum is zero, so that rounding decides its sign.
  const auto carried =
      InterpretCarryingBounds(b.net, {MakeTensor<float>({1, 2}, {1.5F, 1.5F}),
                                      MakeTensor<float>({2, 1}, {1, -1})});
  ASSERT_THAT(carried, IsOk());
  EXPECT_TRUE(std::isnan((*carried)[0].bounds.proved[0]));
  EXPECT_TRUE(std::isnan((*carried)[1].bounds.proved[0]));
}

TEST(CarriedBoundsTest, OutputsThatNothingComputesAreExact) {
  NetBuilder b;
  const ValueId x = b.In("x", {2});
  b.Out({x});
  const auto carried = InterpretCarryingBounds(b.net, {Floats({1, 2})});
  ASSERT_THAT(carried, IsOk());
  EXPECT_EQ((*carried)[0].bounds.proved, std::vector<double>(2, 0.0));
}

// Rows of the product become columns.
TEST(CarriedBoundsTest, ATransposeMovesBounds) {
  const NetBuilder b = AfterProduct(
      [](NetBuilder* net, ValueId y) { return net->Op("Transpose", {y})[0]; });
  const Bounds own = BoundsOfProduct();
  const Bounds moved = Carry(b)[0].bounds;
  ASSERT_EQ(moved.proved.size(), own.proved.size());
  for (size_t row = 0; row < 4; ++row) {
    for (size_t column = 0; column < 8; ++column) {
      EXPECT_EQ(moved.proved[column * 4 + row], own.proved[row * 8 + column]);
      EXPECT_EQ(moved.expected[column * 4 + row],
                own.expected[row * 8 + column]);
    }
  }
}

// What is before a normalization need not have weights.
TEST(CarriedBoundsTest, ANormalizationMayFollowAnInputThatIsLeftOut) {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 1, 2});
  const ValueId most = b.Const("most", MakeTensor<float>({}, {1}));
  const ValueId cut = b.Op("Clip", {x, kNoValue, most})[0];
  const ValueId one = b.Const("one", Floats({1}));
  const ValueId zero = b.Const("zero", Floats({0}));
  b.Out(b.Op("BatchNormalization", {cut, one, zero, zero, one}));
  EXPECT_THAT(
      InterpretCarryingBounds(b.net, {MakeTensor<float>({1, 1, 2}, {0.5F, 3})}),
      IsOk());
}

// A flat product, of which a part is cut out: bounds go where the elements go.
TEST(CarriedBoundsTest, ReshapesAndSlicesMoveBounds) {
  const NetBuilder b = AfterProduct([](NetBuilder* net, ValueId y) {
    const ValueId flat =
        net->Op("Reshape", {y, net->Const("to", Int64s({32}))})[0];
    return net->Op("Slice", {flat, net->Const("begin", Int64s({8})),
                             net->Const("end", Int64s({16}))})[0];
  });
  const Bounds own = BoundsOfProduct();
  const Bounds moved = Carry(b)[0].bounds;
  ASSERT_EQ(moved.proved.size(), 8U);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_GE(moved.proved[i], own.proved[8 + i]);
    EXPECT_LE(moved.proved[i], 2 * own.proved[8 + i]);
  }
}

// Nothing is rounded before the product, so its own bounds are known.
TEST(CarriedBoundsTest, QuantizingRoundsWhatComesBeforeItToOtherSteps) {
  const auto quantized = Carry(AfterProduct([](NetBuilder* b, ValueId y) {
    const ValueId scale = b->Const("s", Floats({0.25F}));
    return b->Op("DequantizeLinear",
                 {b->Op("QuantizeLinear", {y, scale})[0], scale})[0];
  }));
  // By rounding before it and its own.
  for (const double bound : quantized[0].bounds.proved) {
    EXPECT_GE(bound, 0.25);
    EXPECT_LE(bound, 0.51);
  }
}

TEST(CarriedBoundsTest, WhatOnlyChoosesIsExact) {
  NetBuilder b;
  const ValueId x = b.Op("Relu", {b.In("x", {4, 16})})[0];
  b.Out(b.Op("MatMul", {x, b.In("w", {16, 8})}));
  const Bounds bounds = Carry(b)[0].bounds;
  for (const double bound : bounds.proved) EXPECT_TRUE(std::isfinite(bound));
}

// Whether the mean overflows depends on the order of its sum, and so does all
// that is made of it.
TEST(CarriedBoundsTest, WhatMayBeAnythingStaysSo) {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 1, 4});
  const ValueId mean = b.Op("GlobalAveragePool", {x})[0];
  const ValueId flat =
      b.Op("Reshape", {mean, b.Const("to", Int64s({1, 1}))})[0];
  b.Out({flat, b.Op("Softmax", {flat})[0]});
  const auto carried = InterpretCarryingBounds(
      b.net, {MakeTensor<float>({1, 1, 4}, {3e38F, 3e38F, -3e38F, -3e38F})});
  ASSERT_THAT(carried, IsOk());
  EXPECT_TRUE(std::isinf((*carried)[0].bounds.proved[0]));
  EXPECT_TRUE(std::isinf((*carried)[1].bounds.proved[0]));
}

// The factors are 1 and the means 0, so that only the weights' rounding and the
// normalization's own are added. The products have 16 terms.
TEST(CarriedBoundsTest, WeightsMayHaveANormalizationInThem) {
  const NetBuilder b = AfterProduct([](NetBuilder* net, ValueId y) {
    const NDArray ones = MakeTensor<float>({8}, std::vector<float>(8, 1));
    const NDArray zeros = MakeTensor<float>({8}, std::vector<float>(8, 0));
    const ValueId one = net->Const("", ones);
    const ValueId zero = net->Const("", zeros);
    return net->Op("BatchNormalization", {y, one, zero, zero, one},
                   {{"epsilon", AttrValue(0.0F)}})[0];
  });
  const Bounds own = BoundsOfProduct();
  const Bounds carried = Carry(b)[0].bounds;
  for (size_t i = 0; i < own.proved.size(); ++i) {
    EXPECT_GT(carried.proved[i], 17.0 / 16 * own.proved[i]);
    EXPECT_LT(carried.proved[i], 2 * own.proved[i]);
  }
}

}  // namespace
}  // namespace nodewise
