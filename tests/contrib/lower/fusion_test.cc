#include "contrib/lower/fusion.h"

#include <gtest/gtest.h>

#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;

// The functions of the graph's nodes, without what they all begin with.
std::vector<std::string> FunctionsOf(const Network& network) {
  const auto lowered = Lower(network, "net");
  EXPECT_THAT(lowered, IsOk());
  std::vector<std::string> functions;
  for (const GraphNode& node : lowered->graph.nodes) {
    if (node.kind == GraphNode::Kind::kInput) continue;
    functions.push_back(node.function.substr(sizeof("nodewise_") - 1));
  }
  return functions;
}

ValueId Image(NetBuilder* b) { return b->In("x", {1, 2, 4, 4}); }

NDArray Filled(const std::vector<int64_t>& shape) {
  std::vector<float> values(
      static_cast<size_t>(NumElements(shape).value_or(0)));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.3f * static_cast<float>(i % 7) + 0.1f;
  }
  return MakeTensor<float>(shape, values);
}

ValueId Convolved(NetBuilder* b, ValueId x) {
  const ValueId w = b->Const("", Filled({2, 2, 1, 1}));
  return b->Op("Conv", {x, w})[0];
}

TEST(FusionTest, AConvolutionTakesInNormalisationSumAndActivation) {
  NetBuilder b;
  const ValueId x = Image(&b);
  const ValueId c = b.Const("c", Filled({2}));
  const ValueId y =
      b.Op("BatchNormalization", {Convolved(&b, x), c, c, c, c})[0];
  b.Out(b.Op("Relu", {b.Op("Add", {y, x})[0]}));
  EXPECT_THAT(FunctionsOf(b.net),
              ElementsAre("conv_batchnormalization_add_relu"));
  ExpectAsInterpreted(b.net, {Filled({1, 2, 4, 4})});
}

TEST(FusionTest, AMatrixProductTakesInAGeluThatReadsItsInputTwice) {
  NetBuilder b;
  const ValueId x = b.In("x", {2, 3});
  const ValueId w = b.Const("w", Filled({3, 3}));
  const ValueId two = b.Const("two", Floats({1.5f}));
  const ValueId h = b.Op("MatMul", {x, w})[0];
  const ValueId e = b.Op("Erf", {b.Op("Div", {h, two})[0]})[0];
  const ValueId a = b.Op("Add", {e, two})[0];
  b.Out(b.Op("Mul", {b.Op("Mul", {h, a})[0], two}));
  EXPECT_THAT(FunctionsOf(b.net), ElementsAre("matmul_div_erf_add_mul_mul"));
  ExpectAsInterpreted(b.net, {Filled({2, 3})});
}

TEST(FusionTest, ElementwiseChainsAreOneNode) {
  NetBuilder b;
  const ValueId x = b.In("x", {2});
  b.Out(b.Op("Exp", {b.Op("Neg", {b.Op("Abs", {x})[0]})[0]}));
  EXPECT_THAT(FunctionsOf(b.net), ElementsAre("abs_neg_exp"));
}

TEST(FusionTest, WhatIsReadElsewhereEndsARegion) {
  NetBuilder b;
  const ValueId x = b.In("x", {2, 2});
  const ValueId m = b.Op("Neg", {x})[0];
  b.Out({b.Op("Abs", {m})[0], b.Op("Transpose", {m})[0]});
  EXPECT_THAT(FunctionsOf(b.net), ElementsAre("neg", "abs", "transpose"));
}

TEST(FusionTest, AnOutputEndsARegion) {
  NetBuilder b;
  const ValueId m = b.Op("Neg", {b.In("x", {2})})[0];
  b.Out({b.Op("Abs", {m})[0], m});
  EXPECT_THAT(FunctionsOf(b.net), ElementsAre("neg", "abs"));
}

TEST(FusionTest, ABarrierEndsARegion) {
  NetBuilder b;
  const ValueId x = b.In("x", {2});
  const OperationId first = b.TryOp("Neg", {x}).value();
  const ValueId m = b.net.operation(first).outputs[0];
  const OperationId second = b.TryOp("Abs", {m}).value();
  const OperationId third = b.TryOp("Exp", {x}).value();
  ASSERT_THAT(b.net.RunAfter(second, third), IsOk());
  b.Out(
      {b.net.operation(second).outputs[0], b.net.operation(third).outputs[0]});
  EXPECT_THAT(FunctionsOf(b.net), ElementsAre("neg", "abs", "exp"));
}

TEST(FusionTest, AResultThatGrowsEndsARegion) {
  NetBuilder b;
  const ValueId x = b.In("x", {2});
  const ValueId big = b.In("big", {3, 2});
  b.Out(b.Op("Add", {b.Op("Neg", {x})[0], big}));
  EXPECT_THAT(FunctionsOf(b.net), ElementsAre("neg", "add"));
}

// The sum reads a value that is made after the first convolution.
TEST(FusionTest, ARegionRunsWhereItsLastOperationDid) {
  NetBuilder b;
  const ValueId x = Image(&b);
  const ValueId first = Convolved(&b, x);
  const ValueId second = Convolved(&b, x);
  const ValueId turned =
      b.Op("Transpose", {second},
           {{"perm", AttrValue(std::vector<int64_t>{0, 1, 3, 2})}})[0];
  b.Out(b.Op("Add", {first, turned}));
  EXPECT_THAT(FunctionsOf(b.net), ElementsAre("conv", "transpose", "conv_add"));
  ExpectAsInterpreted(b.net, {Filled({1, 2, 4, 4})});
}

TEST(FusionTest, LongChainsAreCut) {
  NetBuilder b;
  ValueId x = b.In("x", {2});
  for (int i = 0; i < 20; ++i) x = b.Op("Neg", {x})[0];
  b.Out({x});
  EXPECT_THAT(FunctionsOf(b.net),
              ElementsAre("neg_neg_neg_neg_neg_neg_and_10", "neg_neg_neg_neg"));
}

TEST(FusionTest, TrainingComputesFromTheWholeTensor) {
  NetBuilder b;
  const ValueId c = b.Const("c", Filled({2}));
  const ValueId y = Convolved(&b, Image(&b));
  b.Out(b.Op("BatchNormalization", {y, c, c, c, c},
             {{"training_mode", AttrValue(int64_t{1})}}, {"n"}));
  EXPECT_THAT(FunctionsOf(b.net), ElementsAre("conv", "batchnormalization"));
}

}  // namespace
}  // namespace nodewise
