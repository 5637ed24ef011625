#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/ops/quantize.h"
#include "tests/contrib/passes/quantized_networks.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The inputs of a QLinearConv or QLinearMatMul of x, whose type is given.
struct MergedSetup {
  bool is_conv = true;
  int opset = 21;
  std::string x_type = "uint8[1, 1, 3]";
  NDArray x_scale = Float(0.5F);
  NDArray x_zero = Byte(3);
  NDArray w = MakeTensor<int8_t>({2, 1, 2}, {1, -2, 3, 4});
  NDArray w_scale = Float(0.25F);
  NDArray w_zero = SignedByte(0);
  NDArray y_scale = Float(1);
  NDArray y_zero = Byte(100);
  NDArray bias = NDArray();
  // If not empty, the type of the input "w_scale".
  std::string w_scale_type = {};

  Network Make() const {
    QuantizedBuilder net(opset);
    const auto add = [&](const NDArray& data) { return net.Constant(data); };
    std::vector<ValueId> in = {net.Input("x", x_type), add(x_scale),
                               add(x_zero), add(w)};
    in.push_back(w_scale_type.empty() ? add(w_scale)
                                      : net.Input("w_scale", w_scale_type));
    in.insert(in.end(), {add(w_zero), add(y_scale), add(y_zero)});
    if (bias.defined()) in.push_back(add(bias));
    ops::QLinearConv conv;
    conv.strides = {2};
    return net.Finish({is_conv ? net.Add(conv, in, "product")
                               : net.Add(ops::QLinearMatMul{}, in, "product")});
  }
};

std::string ReasonAgainstSplit(Network net) {
  const QuantizationReport report = Split(net);
  if (!report.changes.empty() || report.left_alone.size() != 1) {
    return report.ToString();
  }
  return report.left_alone[0].reason;
}

TEST(SplitQuantizedTest, QLinearConvBecomesAConvOfFloats) {
  MergedSetup setup;
  setup.w_scale = Floats({0.25F, 0.3F});
  setup.w_zero = MakeTensor<int8_t>({2}, {1, 2});
  setup.bias = MakeTensor<int32_t>({2}, {7, -9});
  Network net = setup.Make();
  EXPECT_EQ(Split(net).ToString(),
            "operation product: split into Conv (within one step)\n"
            "1 split, 0 not\n");
  ASSERT_THAT(KindsOf(net),
              ElementsAre("DequantizeLinear", "DequantizeLinear",
                          "DequantizeLinear", "Conv", "QuantizeLinear"));
  const Operation& conv = net.operation(net.order()[3]);
  EXPECT_EQ(conv.name, "product");
  EXPECT_THAT(conv.attrs.As<ops::Conv>()->strides, ElementsAre(2));
  EXPECT_EQ(net.value(net.outputs()[0]).name, "product");
  const Operation& bias = net.operation(net.order()[2]);
  EXPECT_EQ(bias.name, "product_dequantize_bias");
  EXPECT_THAT(ValuesOf(net.value(bias.inputs[1]).data),
              ElementsAre(0.125F, 0.5F * 0.3F));
}

TEST(SplitQuantizedTest, QLinearMatMulBecomesAMatMulOfFloats) {
  MergedSetup setup;
  setup.is_conv = false;
  setup.x_type = "uint8[2, 2]";
  setup.x_scale = Floats({1, 2});
  setup.x_zero = MakeTensor<uint8_t>({2}, {3, 4});
  setup.w = MakeTensor<int8_t>({2, 2}, {1, -2, 3, 4});
  setup.w_scale = Floats({0.5F, 2});
  Network net = setup.Make();
  const NDArray x = MakeTensor<uint8_t>({2, 2}, {1, 20, 30, 5});
  const auto expected = OutputOf<uint8_t>(net, {x});
  EXPECT_EQ(Split(net).CountOf("MatMul"), 1u);
  EXPECT_EQ(OutputOf<uint8_t>(net, {x}), expected);
  EXPECT_EQ(Merge(net).CountOf("QLinearMatMul"), 1u);
  EXPECT_EQ(OutputOf<uint8_t>(net, {x}), expected);
}

TEST(SplitQuantizedTest, FakeQuantizeBecomesBothOfItsParts) {
  for (const char* type : {"float32[2, 3]", "float16[...]"}) {
    QuantizedBuilder builder(23);
    ASSERT_THAT(builder.net.SetOpset("nodewise", 1), IsOk());
    const ValueId x = builder.Input("x", type);
    const Scaling scaling{Floats({1, 2, 3}), NDArray(), -1};
    ops::FakeQuantize op;
    op.output_dtype = DLDataType{kDLInt, 16, 1};
    Network net = builder.Finish({builder.AddScaled(op, x, scaling, "f")});
    const std::string merged = RenumberedText(net);
    EXPECT_EQ(Split(net).CountOf("QuantizeLinear"), 1u);
    EXPECT_THAT(KindsOf(net),
                ElementsAre("QuantizeLinear", "DequantizeLinear"));
    EXPECT_EQ(net.operation(net.order()[0]).name, "f");
    EXPECT_EQ(net.value(net.outputs()[0]).name, "f");
    Merge(net);
    EXPECT_EQ(RenumberedText(net), merged);
  }
}

TEST(SplitQuantizedTest, ScaleOfTheBiasIsMultipliedAtRunTimeIfNeeded) {
  MergedSetup setup;
  setup.bias = MakeTensor<int32_t>({2}, {7, -9});
  setup.w_scale_type = "float32[]";
  Network net = setup.Make();
  const std::vector<NDArray> inputs = {
      MakeTensor<uint8_t>({1, 1, 3}, {1, 20, 30}), Float(0.25F)};
  const auto expected = OutputOf<uint8_t>(net, inputs);
  const std::string merged = RenumberedText(net);
  EXPECT_EQ(Split(net).ToString(),
            "operation product: split into Conv (how near is not known)\n"
            "1 split, 0 not\n");
  EXPECT_EQ(KindsOf(net)[2], "Mul");
  EXPECT_EQ(OutputOf<uint8_t>(net, inputs), expected);
  EXPECT_EQ(Merge(net).CountOf("QLinearConv"), 1u);
  EXPECT_EQ(RenumberedText(net), merged);
}

TEST(SplitQuantizedTest, OneZeroPointIsRepeatedForTheChannels) {
  MergedSetup setup;
  setup.w_scale = Floats({0.25F, 0.3F});
  setup.w_zero = SignedByte(5);
  Network net = setup.Make();
  const NDArray x = MakeTensor<uint8_t>({1, 1, 3}, {1, 20, 30});
  const auto expected = OutputOf<uint8_t>(net, {x});
  EXPECT_EQ(Split(net).CountOf("Conv"), 1u);
  EXPECT_EQ(OutputOf<uint8_t>(net, {x}), expected);
  const Operation& w = net.operation(net.order()[1]);
  EXPECT_THAT(ValuesOf<int8_t>(net.value(w.inputs[2]).data), ElementsAre(5, 5));
}

TEST(SplitQuantizedTest, ChannelsNeedTheOpsetThatBroughtAxes) {
  MergedSetup setup;
  setup.opset = 12;
  setup.w_scale = Floats({0.25F, 0.3F});
  EXPECT_EQ(ReasonAgainstSplit(setup.Make()),
            "scales by axis need opset 13, and the network has 12");
  setup.w_scale = Float(1);
  setup.opset = 10;
  Network net = setup.Make();
  EXPECT_EQ(Split(net).CountOf("Conv"), 1u);
}

TEST(SplitQuantizedTest, FakeQuantizeNeedsTheOpsetOfItsParts) {
  const auto reason = [](int opset, const Scaling& scaling,
                         const ops::FakeQuantize& op = {}) {
    QuantizedBuilder builder(opset);
    EXPECT_THAT(builder.net.SetOpset("nodewise", 1), IsOk());
    const ValueId x = builder.Input("x", "float32[2, 2]");
    return ReasonAgainstSplit(
        builder.Finish({builder.AddScaled(op, x, scaling, "f")}));
  };
  EXPECT_EQ(reason(9, {}), "opset 9 of the network has no QuantizeLinear");
  EXPECT_THAT(reason(12, {Floats({1, 2})}), HasSubstr("by axis need opset 13"));
  ops::FakeQuantize by_block;
  by_block.block_size = 1;
  EXPECT_THAT(reason(13, {MakeTensor<float>({2, 2}, {1, 2, 3, 4})}, by_block),
              HasSubstr("scales by block need opset 21"));
  ops::FakeQuantize wide;
  wide.output_dtype = DLDataType{kDLInt, 16, 1};
  EXPECT_THAT(reason(20, {}, wide), HasSubstr("need opset 21"));
  EXPECT_THAT(reason(20, {Float(0), NDArray()}),
              HasSubstr("x_scale has 0, expected finite numbers above 0"));
  const NDArray half = MakeTensor<uint16_t>({}, {0x3c00}, {kDLFloat, 16, 1});
  EXPECT_THAT(reason(22, {half}),
              HasSubstr("results of another type than the scale's need"));
}

TEST(SplitQuantizedTest, WhatTheFloatOperatorsDoNotTakeIsLeftAlone) {
  MergedSetup setup;
  setup.x_scale = MakeTensor<uint16_t>({}, {0x3c00}, {kDLFloat, 16, 1});
  EXPECT_EQ(ReasonAgainstSplit(setup.Make()),
            "x_scale is of type float16[...], expected float32");
  setup = {};
  setup.bias = MakeTensor<int32_t>({1}, {7});
  EXPECT_THAT(ReasonAgainstSplit(setup.Make()), HasSubstr("product_float"));
  setup = {};
  setup.w_scale_type = "float32[...]";
  EXPECT_THAT(ReasonAgainstSplit(setup.Make()),
              HasSubstr("w_scale is of type float32[...], expected a known"));
}

TEST(SplitQuantizedTest, RefusedSplitLeavesTheNetworkAsItWas) {
  MergedSetup setup;
  setup.bias = MakeTensor<int32_t>({1}, {7});
  Network net = setup.Make();
  const std::string before = RenumberedText(net);
  EXPECT_TRUE(Split(net).changes.empty());
  EXPECT_EQ(RenumberedText(net), before);
  EXPECT_THAT(KindsOf(net), ElementsAre("QLinearConv"));
}

TEST(SplitQuantizedTest, SumsThatDoNotFitAreSplitAllTheSame) {
  MergedSetup setup;
  setup.is_conv = false;
  setup.x_type = "uint8[1, n]";
  setup.w = MakeTensor<int8_t>({40'000, 1}, std::vector<int8_t>(40'000, 127));
  setup.w_zero = SignedByte(-128);
  Network net = setup.Make();
  EXPECT_EQ(Split(net).changes[0].agreement, Agreement::kNotKnown);
}

}  // namespace
}  // namespace nodewise
