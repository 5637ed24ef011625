#include "nodewise/gradient/gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "nodewise/interp/interpreter.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/axis.h"
#include "nodewise/ops/cast.h"
#include "nodewise/ops/indexing.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/ops.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/ops/selection.h"
#include "nodewise/ops/unary.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using InputNumbers = std::vector<size_t>;

NDArray Numbers(const std::vector<int64_t>& shape,
                const std::vector<double>& numbers) {
  NDArray tensor = *NDArray::Empty(shape, kFloat64, kCpu);
  StoreDoubles(numbers.data(), 0, static_cast<int64_t>(numbers.size()), tensor);
  return tensor;
}

// A network under construction, in doubles.
struct Net {
  Network net{"net"};

  ValueId In(const std::string& name, const Shape& shape) {
    return *net.AddInput(name, TensorType(kFloat64, shape));
  }
  template <typename Class>
  ValueId Add(const Class& op, std::vector<ValueId> inputs) {
    return *net.Add(AllOperators(), op, std::move(inputs));
  }
  void Out(std::vector<ValueId> outputs) {
    EXPECT_THAT(net.SetOutputs(std::move(outputs)), IsOk());
  }
};

TEST(GradientTest, ItsInputsAreThoseOfTheNetworkAndACotangentEach) {
  Net b;
  const ValueId x = b.In("x", {2});
  const ValueId y = b.Add(ops::Relu{}, {x});
  ASSERT_THAT(b.net.Rename(y, "y"), IsOk());
  b.Out({y});
  const auto made = GradientOf(b.net, InputNumbers{0});
  ASSERT_THAT(made, IsOk());
  const Network& net = made->network;
  ASSERT_EQ(net.inputs().size(), 2U);
  EXPECT_EQ(net.value(net.inputs()[1]).name, "cotangent_y");
  EXPECT_EQ(net.value(net.outputs()[0]).name, "gradient_x");
  const auto run =
      Interpret(net, {Numbers({2}, {-1, 2}), Numbers({2}, {3, 5})});
  ASSERT_THAT(run, IsOk());
  EXPECT_THAT(ToDoubles((*run)[0]), ElementsAre(0, 5));
}

TEST(GradientTest, WhatReachesAValueOnSeveralWaysIsAddedUp) {
  Net b;
  const ValueId x = b.In("x", {2});
  const ValueId square = b.Add(ops::Mul{}, {x, x});
  b.Out({b.Add(ops::Add{}, {square, x}), square, x});
  const auto made = GradientOf(b.net, InputNumbers{0});
  ASSERT_THAT(made, IsOk());
  const auto run =
      Interpret(made->network, {Numbers({2}, {3, 4}), Numbers({2}, {1, 1}),
                                Numbers({2}, {10, 10}), Numbers({2}, {5, 7})});
  ASSERT_THAT(run, IsOk());
  // 2 x + 1 + 10 * 2 x + the last cotangent.
  EXPECT_THAT(ToDoubles((*run)[0]), ElementsAre(72, 96));
}

TEST(GradientTest, BroadcastingIsUndone) {
  Net b;
  const ValueId x = b.In("x", {3, 1});
  const ValueId y = b.In("y", {2});
  b.Out({b.Add(ops::Add{}, {x, y})});
  const auto made = GradientOf(b.net, InputNumbers{0, 1});
  ASSERT_THAT(made, IsOk());
  const auto run = Interpret(made->network,
                             {Numbers({3, 1}, {1, 2, 3}), Numbers({2}, {1, 2}),
                              Numbers({3, 2}, {1, 2, 3, 4, 5, 6})});
  ASSERT_THAT(run, IsOk());
  EXPECT_THAT(ToDoubles((*run)[0]), ElementsAre(3, 7, 11));
  EXPECT_THAT((*run)[0].shape(), ElementsAre(3, 1));
  EXPECT_THAT(ToDoubles((*run)[1]), ElementsAre(9, 12));
}

TEST(GradientTest, OfEqualElementsTheFirstIsTheLargest) {
  Net b;
  const ValueId x = b.In("x", {2});
  const ValueId y = b.In("y", {2});
  b.Out({b.Add(ops::Max{}, {x, y})});
  const auto made = GradientOf(b.net, InputNumbers{0, 1});
  ASSERT_THAT(made, IsOk());
  const auto run = Interpret(
      made->network,
      {Numbers({2}, {1, 2}), Numbers({2}, {1, 3}), Numbers({2}, {5, 7})});
  ASSERT_THAT(run, IsOk());
  EXPECT_THAT(ToDoubles((*run)[0]), ElementsAre(5, 0));
  EXPECT_THAT(ToDoubles((*run)[1]), ElementsAre(0, 7));
}

TEST(GradientTest, OfEqualElementsTheFirstGetsWhatReachesAll) {
  Net b;
  b.Out({b.Add(ops::Unique{}, {b.In("x", {3})})});
  const auto made = GradientOf(b.net, InputNumbers{0});
  ASSERT_THAT(made, IsOk());
  const auto run =
      Interpret(made->network, {Numbers({3}, {3, 1, 3}), Numbers({2}, {5, 7})});
  ASSERT_THAT(run, IsOk());
  EXPECT_THAT(ToDoubles((*run)[0]), ElementsAre(7, 5, 0));
}

TEST(GradientTest, AFactorOfZeroHasOne) {
  Net b;
  ASSERT_THAT(b.net.SetOpset("", 26), IsOk());
  const ValueId x = b.In("x", {3});
  NDArray zero = *NDArray::Empty({}, kInt64, kCpu);
  *zero.As<int64_t>() = 0;
  b.Out({b.Add(ops::CumProd{}, {x, *b.net.AddConstant("axis", zero)})});
  const auto made = GradientOf(b.net, InputNumbers{0});
  ASSERT_THAT(made, IsOk());
  const auto run = Interpret(
      made->network, {Numbers({3}, {2, 0, 3}), Numbers({3}, {1, 1, 1})});
  ASSERT_THAT(run, IsOk());
  EXPECT_THAT(ToDoubles((*run)[0]), ElementsAre(1, 8, 0));
}

TEST(GradientTest, SeveralUpdatesOfOneElementShareIt) {
  using ops::ScatterReduction;
  struct Case {
    ScatterReduction reduction;
    std::vector<double> updates;
    double of_data;
    std::vector<double> of_updates;
  };
  for (const Case& each : {
           Case{ScatterReduction::kMul, {0, 3}, 0, {6, 0}},
           Case{ScatterReduction::kMul, {5, 3}, 15, {6, 10}},
           Case{ScatterReduction::kMax, {5, 5}, 0, {1, 0}},
           Case{ScatterReduction::kMax, {1, 2}, 1, {0, 0}},
           Case{ScatterReduction::kMin, {3, 1}, 0, {0, 1}},
       }) {
    Net b;
    NDArray places = *NDArray::Empty({2}, kInt64, kCpu);
    std::fill_n(places.As<int64_t>(), 2, 0);
    ops::ScatterElements scatter;
    scatter.reduction = each.reduction;
    b.Out({b.Add(scatter,
                 {b.In("data", {1}), *b.net.AddConstant("places", places),
                  b.In("updates", {2})})});
    const auto made = GradientOf(b.net, InputNumbers{0, 1});
    ASSERT_THAT(made, IsOk());
    const auto run = Interpret(
        made->network,
        {Numbers({1}, {2}), Numbers({2}, each.updates), Numbers({1}, {1})});
    ASSERT_THAT(run, IsOk());
    EXPECT_THAT(ToDoubles((*run)[0]), ElementsAre(each.of_data));
    EXPECT_EQ(ToDoubles((*run)[1]), each.of_updates);
  }
}

TEST(GradientTest, BitsOfAnotherFloatHaveNone) {
  Net b;
  ASSERT_THAT(b.net.SetOpset("", 26), IsOk());
  const ValueId x = *b.net.AddInput("x", TensorType(kFloat16, {2}));
  b.Out({b.Add(ops::BitCast{kBfloat16}, {x})});
  EXPECT_THAT(GradientOf(b.net, InputNumbers{0}),
              FailsWith(absl::StatusCode::kUnimplemented,
                        HasSubstr("bits of one float")));
}

TEST(GradientTest, WhatNothingDifferentiableReadsHasZeros) {
  Net b;
  const ValueId x = b.In("x", {2});
  const ValueId y = b.In("y", {2});
  b.Out({b.Add(ops::Add{}, {x, b.Add(ops::Floor{}, {y})})});
  const auto made = GradientOf(b.net, InputNumbers{1});
  ASSERT_THAT(made, IsOk());
  const auto run = Interpret(
      made->network,
      {Numbers({2}, {1, 2}), Numbers({2}, {1, 3}), Numbers({2}, {5, 7})});
  ASSERT_THAT(run, IsOk());
  EXPECT_THAT(ToDoubles((*run)[0]), ElementsAre(0, 0));
}

TEST(GradientTest, OfSeveralLayersItIsThatOfTheWhole) {
  Net b;
  const ValueId x = b.In("x", {1, 2});
  const ValueId w = b.In("w", {2, 2});
  b.Out({b.Add(ops::Relu{}, {b.Add(ops::MatMul{}, {x, w})})});
  const auto made = GradientOf(b.net, InputNumbers{0, 1});
  ASSERT_THAT(made, IsOk());
  const auto run = Interpret(
      made->network, {Numbers({1, 2}, {1, 2}), Numbers({2, 2}, {1, -1, 1, -1}),
                      Numbers({1, 2}, {1, 1})});
  ASSERT_THAT(run, IsOk());
  EXPECT_THAT(ToDoubles((*run)[0]), ElementsAre(1, 1));
  EXPECT_THAT(ToDoubles((*run)[1]), ElementsAre(1, 0, 2, 0));
}

TEST(GradientTest, AnOperatorWithoutARuleIsNamed) {
  Net b;
  const ValueId x = *b.net.AddInput("x", TensorType(kFloat32, {2}));
  // Its scale is a float.
  const auto quantized = b.net.AddOperation(
      {OpAttrs::From(AllOperators().Find("", "DynamicQuantizeLinear", 21),
                     ops::DynamicQuantizeLinear{}),
       {x}});
  ASSERT_THAT(quantized, IsOk());
  b.Out({b.net.operation(*quantized).outputs[1]});
  EXPECT_THAT(
      GradientOf(b.net, InputNumbers{0}),
      FailsWith(absl::StatusCode::kUnimplemented,
                HasSubstr("DynamicQuantizeLinear has no gradient yet")));
}

TEST(GradientTest, OpenSizesAreAnErrorThatSaysWhatToDo) {
  Net b;
  const ValueId x = b.In("x", {Dim::Named("n")});
  b.Out({b.Add(ops::Tanh{}, {x})});
  EXPECT_THAT(GradientOf(b.net, InputNumbers{0}),
              FailsWith(absl::StatusCode::kFailedPrecondition,
                        HasSubstr("bind them first")));
}

TEST(GradientTest, OnlyFloatsHaveOne) {
  Net b;
  const ValueId x = *b.net.AddInput("x", TensorType(kInt64, {2}));
  b.Out({b.Add(ops::Cast{kFloat64}, {x})});
  EXPECT_THAT(FloatInputs(b.net), ElementsAre());
  EXPECT_THAT(
      GradientOf(b.net, InputNumbers{0}),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("float")));
  EXPECT_THAT(
      GradientOf(b.net, {}),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("at least one")));
}

}  // namespace
}  // namespace nodewise
