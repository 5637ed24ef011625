#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/ops/unary.h"
#include "tests/contrib/passes/quantized_networks.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(MergeProductTest, ConvBetweenIntegersBecomesQLinearConv) {
  ProductSetup setup;
  setup.conv.pads = {1, 0};
  setup.conv.strides = {2};
  Network net = setup.Make();
  const QuantizationReport report = Merge(net);
  EXPECT_EQ(report.ToString(),
            "operation product: merged into QLinearConv (bit for bit)\n"
            "1 merged, 0 not\n");
  ASSERT_THAT(KindsOf(net), ElementsAre("QLinearConv"));
  const Operation& merged = net.operation(net.order()[0]);
  EXPECT_EQ(merged.name, "product");
  EXPECT_EQ(net.value(merged.outputs[0]).name, "q");
  EXPECT_EQ(net.value(merged.inputs[2]).name, "product_x_zero_point");
  const auto* const conv = merged.attrs.As<ops::QLinearConv>();
  EXPECT_THAT(conv->pads, ElementsAre(1, 0));
  EXPECT_THAT(conv->strides, ElementsAre(2));
}

TEST(MergeProductTest, MatMulBetweenIntegersBecomesQLinearMatMul) {
  Network net = MatMulSetup().Make();
  EXPECT_EQ(Merge(net).CountOf("QLinearMatMul"), 1u);
  EXPECT_THAT(KindsOf(net), ElementsAre("QLinearMatMul"));
}

TEST(MergeProductTest, MergedOperationTakesThePlaceInTheOrder) {
  ProductSetup setup;
  QuantizedBuilder builder;
  Network net = setup.Finish(builder);
  const ValueId scale = net.AddConstant("scale", Float(1)).value();
  const ValueId last = net.Add(AllOperators(), ops::DequantizeLinear{},
                               {net.outputs()[0], scale}, "last")
                           .value();
  ASSERT_THAT(net.SetOutputs({last}), IsOk());
  EXPECT_EQ(Merge(net).CountOf("QLinearConv"), 1u);
  EXPECT_THAT(KindsOf(net), ElementsAre("QLinearConv", "DequantizeLinear"));
}

TEST(MergeProductTest, DequantizeThatOthersReadStaysForThem) {
  QuantizedBuilder builder;
  Network net = ProductSetup().Finish(builder);
  const ValueId floats = net.FindValue("x_floats").value();
  const ValueId relu =
      net.Add(AllOperators(), ops::Relu{}, {floats}, "relu").value();
  ASSERT_THAT(net.SetOutputs({net.outputs()[0], relu}), IsOk());
  EXPECT_EQ(Merge(net).CountOf("QLinearConv"), 1u);
  EXPECT_THAT(KindsOf(net),
              ElementsAre("DequantizeLinear", "QLinearConv", "Relu"));
}

TEST(MergeProductTest, DequantizeWhoseResultIsAnOutputStays) {
  QuantizedBuilder builder;
  Network net = ProductSetup().Finish(builder);
  const ValueId floats = net.FindValue("x_floats").value();
  ASSERT_THAT(net.SetOutputs({net.outputs()[0], floats}), IsOk());
  EXPECT_EQ(Merge(net).CountOf("QLinearConv"), 1u);
  EXPECT_THAT(KindsOf(net), ElementsAre("DequantizeLinear", "QLinearConv"));
}

TEST(MergeProductTest, OneDequantizeMayMakeBothFactors) {
  QuantizedBuilder builder;
  const ValueId x = builder.Input("x", "int8[2, 2]");
  const ValueId floats = builder.Dequantize(x, {}, "floats");
  const ValueId product =
      builder.Add(ops::MatMul{}, {floats, floats}, "product");
  Network net = builder.Finish({builder.Quantize(product, {}, "q")});
  EXPECT_EQ(Merge(net).CountOf("QLinearMatMul"), 1u);
  EXPECT_THAT(KindsOf(net), ElementsAre("QLinearMatMul"));
}

TEST(MergeProductTest, ChainOfConvolutionsStaysInIntegers) {
  QuantizedBuilder builder;
  ValueId x = builder.Input("x", "int8[1, 1, 8]");
  const Scaling signed_zero{Float(0.5F), SignedByte(3)};
  const NDArray weights = MakeTensor<int8_t>({1, 1, 3}, {1, -2, 3});
  for (const char* name : {"a", "b", "c"}) {
    const std::string q = std::string(name) + "_q";
    const ValueId floats = builder.Dequantize(x, signed_zero, "");
    const ValueId w = builder.Dequantize(builder.Constant(weights), {}, "");
    const ValueId y = builder.Add(ops::Conv{}, {floats, w}, name);
    x = builder.Quantize(y, signed_zero, q.c_str());
  }
  Network net = builder.Finish({x});
  EXPECT_EQ(Merge(net).ToString(),
            "operation a: merged into QLinearConv (bit for bit)\n"
            "operation b: merged into QLinearConv (bit for bit)\n"
            "operation c: merged into QLinearConv (bit for bit)\n"
            "3 merged, 0 not\n");
  EXPECT_THAT(KindsOf(net),
              ElementsAre("QLinearConv", "QLinearConv", "QLinearConv"));
}

// --- Biases.

ValueId BiasInput(const Network& net) {
  return net.operation(net.order()[0]).inputs[8];
}

TEST(MergeProductTest, BiasOfTheRightScaleIsTakenAsItIs) {
  ProductSetup setup;
  setup.w.scale = Floats({0.3F, 0.1F});
  setup.w.axis = 0;
  setup.x.scale = Float(0.7F);
  setup.y.scale = Float(100);
  setup.bias = [](QuantizedBuilder& net) {
    const ValueId bias =
        net.Constant(MakeTensor<int32_t>({2}, {70'000'001, -7}));
    EXPECT_THAT(net.net.Rename(bias, "integers"), IsOk());
    return net.Dequantize(
        bias, {Floats({0.7F * 0.3F, 0.7F * 0.1F}), NDArray(), 0}, "b_floats");
  };
  Network net = setup.Make();
  ASSERT_EQ(Merge(net).CountOf("QLinearConv"), 1u);
  EXPECT_EQ(net.value(BiasInput(net)).name, "integers");
}

TEST(MergeProductTest, BiasOfFloatsIsMadeIntegers) {
  ProductSetup setup;
  setup.bias = [](QuantizedBuilder& net) {
    return net.Constant(Floats({0.75F, -25}));
  };
  Network net = setup.Make();
  ASSERT_EQ(Merge(net).CountOf("QLinearConv"), 1u);
  EXPECT_THAT(ValuesOf<int32_t>(net.value(BiasInput(net)).data),
              ElementsAre(3, -100));
}

TEST(MergeProductTest, BiasOfAnotherScaleIsMadeIntegers) {
  ProductSetup setup;
  setup.bias = [](QuantizedBuilder& net) {
    const ValueId bias = net.Constant(MakeTensor<int8_t>({2}, {5, 6}));
    return net.Dequantize(bias, {Float(1), SignedByte(1), 0}, "b_floats");
  };
  Network net = setup.Make();
  ASSERT_EQ(Merge(net).CountOf("QLinearConv"), 1u);
  EXPECT_THAT(ValuesOf<int32_t>(net.value(BiasInput(net)).data),
              ElementsAre(16, 20));
}

TEST(MergeProductTest, BiasThatIsNotAWholeNumberOfStepsIsLeftAlone) {
  ProductSetup setup;
  setup.bias = [](QuantizedBuilder& net) {
    return net.Constant(Floats({0.5F, 0.3F}));
  };
  EXPECT_THAT(ReasonOf(setup.Make()),
              HasSubstr("element 1 of the bias is 0.3"));
  for (const float bad : {NAN, INFINITY, 1e30F}) {
    setup.bias = [&](QuantizedBuilder& net) {
      return net.Constant(Floats({0.5F, bad}));
    };
    EXPECT_THAT(ReasonOf(setup.Make()), HasSubstr("element 1 of the bias"));
  }
  setup.bias = [](QuantizedBuilder& net) {
    return net.Input("bias", "float32[2]");
  };
  EXPECT_THAT(ReasonOf(setup.Make()), HasSubstr("the bias is made in"));
}

// --- Activations.

Network WithActivation(const Scaling& y, std::vector<NDArray> bounds) {
  ProductSetup setup;
  setup.y = y;
  setup.after = [&](QuantizedBuilder& net, ValueId x) {
    if (bounds.empty()) return net.Add(ops::Relu{}, {x}, "activation");
    std::vector<ValueId> inputs = {x};
    for (const NDArray& bound : bounds) {
      inputs.push_back(bound.defined() ? net.Constant(bound) : kNoValue);
    }
    return net.Add(ops::Clip{}, inputs, "activation");
  };
  return setup.Make();
}

TEST(MergeProductTest, ReluThatTheRangeCutsOffGoesAway) {
  for (const Scaling& y : {Scaling{}, Scaling{Float(1), Byte(0)},
                           Scaling{Float(1), SignedByte(-128)}}) {
    Network net = WithActivation(y, {});
    EXPECT_EQ(Merge(net).CountOf("QLinearConv"), 1u);
    EXPECT_THAT(KindsOf(net), ElementsAre("QLinearConv"));
  }
  EXPECT_EQ(ReasonOf(WithActivation({Float(1), Byte(3)}, {})),
            "Relu cuts off at 3 of the output's type, expected 0, the end of "
            "its range");
}

TEST(MergeProductTest, ClipThatTheRangeCutsOffGoesAway) {
  const Scaling y{Float(6.0F / 255), NDArray()};
  const std::vector<std::vector<NDArray>> merged = {
      {Float(0), Float(6)}, {Float(-1), NDArray()}, {NDArray(), Float(7)}};
  for (const auto& bounds : merged) {
    Network net = WithActivation(y, bounds);
    EXPECT_EQ(Merge(net).CountOf("QLinearConv"), 1u);
  }
  EXPECT_EQ(ReasonOf(WithActivation(y, {Float(0), Float(5.98F)})),
            "Clip cuts off at 254 of the output's type, expected 255, the end "
            "of its range");
  EXPECT_THAT(ReasonOf(WithActivation(y, {Float(1), Float(-1)})),
              HasSubstr("Clip cuts off"));
  EXPECT_THAT(ReasonOf(WithActivation(y, {Float(NAN)})),
              HasSubstr("a bound of Clip is not a constant number"));
}

// --- What is left alone.

TEST(MergeProductTest, ScalesThatTheOperatorDoesNotTakeAreLeftAlone) {
  ProductSetup setup;
  setup.w.scale = MakeTensor<float>({2}, {1, 2});
  setup.w_data = MakeTensor<int8_t>({2, 2, 1}, {1, -2, 3, 4});
  setup.x_type = "uint8[1, 2, 3]";
  EXPECT_EQ(ReasonOf(setup.Make()),
            "w_scale is by axis 1, expected one number or one for each channel "
            "(axis 0)");
  setup.w = {};
  setup.x.scale = MakeTensor<float>({2}, {1, 2});
  EXPECT_EQ(ReasonOf(setup.Make()),
            "x_scale is by axis 1, expected one number");
  setup.x = {};
  setup.y.scale = MakeTensor<float>({2}, {1, 2});
  EXPECT_EQ(ReasonOf(setup.Make()),
            "y_scale is by axis 1, expected one number");
}

TEST(MergeProductTest, BlocksAreLeftAlone) {
  ProductSetup setup;
  setup.dequantize.block_size = 2;
  setup.x.scale = MakeTensor<float>({1, 1, 2}, {1, 2});
  setup.x.axis = 2;
  EXPECT_EQ(ReasonOf(setup.Make()),
            "x_scale is by block, of rank 3, expected rank 0 or 1");
}

TEST(MergeProductTest, UnusableScalesAreLeftAlone) {
  for (const float bad : {0.0F, -1.0F, NAN, INFINITY, 1e-40F, 1e30F}) {
    ProductSetup setup;
    setup.x.scale = Float(bad);
    EXPECT_THAT(ReasonOf(setup.Make()),
                HasSubstr("expected numbers from 2^-60 to 2^60"))
        << bad;
  }
}

TEST(MergeProductTest, OtherTypesAreLeftAlone) {
  ProductSetup setup;
  setup.quantize.output_dtype = DLDataType{kDLInt, 16, 1};
  EXPECT_EQ(ReasonOf(setup.Make()),
            "y is of type int16[1, 2, 2], expected int8 or uint8");
  setup = {};
  setup.x_type = "int32[1, 1, 3]";
  EXPECT_EQ(ReasonOf(setup.Make()),
            "x is of type int32[1, 1, 3], expected int8 or uint8");
  setup = {};
  setup.x_type = "?[1, 1, 3]";
  EXPECT_THAT(ReasonOf(setup.Make()), HasSubstr("x is of type ?"));
  setup = {};
  setup.quantize.precision = DLDataType{kDLFloat, 16, 1};
  EXPECT_EQ(ReasonOf(setup.Make()),
            "QuantizeLinear divides in float16, expected float32");
}

TEST(MergeProductTest, ProductOfOtherFloatsIsLeftAlone) {
  QuantizedBuilder builder;
  ops::DequantizeLinear op;
  op.output_dtype = DLDataType{kDLFloat, 16, 1};
  const ValueId x = builder.Input("x", "uint8[2, 2]");
  const ValueId floats = builder.AddScaled(op, x, {}, "floats");
  const ValueId y = builder.Add(ops::MatMul{}, {floats, floats}, "y");
  EXPECT_EQ(ReasonOf(builder.Finish({builder.Quantize(y, {}, "q")})),
            "a is dequantised to float16, expected float32");
}

TEST(MergeProductTest, AttributesThatChangeNothingAreNotAReason) {
  ProductSetup setup;
  setup.quantize.precision = kFloat32;
  setup.quantize.output_dtype = DLDataType{kDLInt, 8, 1};
  setup.quantize.saturate = false;
  setup.quantize.block_size = 2;
  setup.dequantize.output_dtype = kFloat32;
  Network net = setup.Make();
  EXPECT_EQ(Merge(net).CountOf("QLinearConv"), 1u);
  EXPECT_EQ(ToString(net.value(net.outputs()[0]).type), "int8[1, 2, 2]");
}

TEST(MergeProductTest, ResultThatOthersReadIsLeftAlone) {
  QuantizedBuilder builder;
  Network net = ProductSetup().Finish(builder);
  const ValueId product = net.FindValue("product").value();
  ASSERT_THAT(net.SetOutputs({net.outputs()[0], product}), IsOk());
  EXPECT_EQ(ReasonOf(net), "its result is an output of the network");
  ASSERT_THAT(net.SetOutputs({net.outputs()[0]}), IsOk());
  const ValueId relu =
      net.Add(AllOperators(), ops::Relu{}, {product}, "relu").value();
  ASSERT_THAT(net.SetOutputs({net.outputs()[0], relu}), IsOk());
  EXPECT_EQ(ReasonOf(net), "its result is read in 2 places, expected one");
}

TEST(MergeProductTest, ResultThatIsAScaleIsLeftAlone) {
  QuantizedBuilder builder;
  const ValueId floats =
      builder.Dequantize(builder.Input("x", "uint8[2]"), {}, "floats");
  const ValueId dot = builder.Add(ops::MatMul{}, {floats, floats}, "dot");
  const ValueId y = builder.Input("y", "float32[2]");
  const ValueId q = builder.Add(ops::QuantizeLinear{}, {y, dot}, "q");
  EXPECT_EQ(ReasonOf(builder.Finish({q})),
            "its result is input 1 of operation q, expected input 0");
}

TEST(MergeProductTest, FactorOrResultInFloatsIsLeftAlone) {
  QuantizedBuilder builder;
  const ValueId x = builder.Input("x", "float32[2, 2]");
  const ValueId w = builder.Input("w", "int8[2, 2]");
  const ValueId floats = builder.Dequantize(w, {}, "floats");
  const ValueId product = builder.Add(ops::MatMul{}, {x, floats}, "product");
  EXPECT_EQ(ReasonOf(builder.Finish({product})),
            "a is not made by DequantizeLinear");
}

TEST(MergeProductTest, OperationsThatWaitAreLeftAlone) {
  QuantizedBuilder builder;
  Network net = ProductSetup().Finish(builder);
  const auto find = [&](const char* name) {
    return net.FindOperation(name).value();
  };
  Network waiting = net;
  ASSERT_THAT(waiting.RunAfter(find("x_floats"), find("product")), IsOk());
  EXPECT_EQ(ReasonOf(waiting),
            "operation product waits for others, or others for it");
  ASSERT_THAT(net.RunAfter(find("x_floats"), find("w_floats")), IsOk());
  EXPECT_EQ(ReasonOf(net), "operation w_floats waits for others");
}

TEST(MergeProductTest, SumsThatDoNotFitAreLeftAlone) {
  ProductSetup setup = MatMulSetup();
  setup.x_type = "uint8[1, 33026]";
  setup.w_type = "uint8[33026, 1]";
  setup.y.scale = Float(0x1p20F);
  EXPECT_EQ(ReasonOf(setup.Make()),
            "the terms of a sum may add up to 2147515650, expected less than "
            "2^31 (sums of integers have 32 bits)");
  setup.x_type = "uint8[1, 33025]";
  setup.w_type = "uint8[33025, 1]";
  Network net = setup.Make();
  EXPECT_EQ(Merge(net).CountOf("QLinearMatMul"), 1u);
  setup.x.scale = Float(0.3F);
  setup.y.scale = Float(0x1p-40F);
  EXPECT_THAT(ReasonOf(setup.Make()), HasSubstr("steps of the output"));
}

TEST(MergeProductTest, DepthThatIsNotKnownIsLeftAlone) {
  ProductSetup setup = MatMulSetup();
  setup.x_type = "uint8[1, n]";
  setup.w_type = "uint8[n, 1]";
  EXPECT_THAT(ReasonOf(setup.Make()),
              HasSubstr("it is not known how many terms a sum has"));
  setup.x_type = "uint8[...]";
  EXPECT_THAT(ReasonOf(setup.Make()),
              HasSubstr("it is not known how many terms a sum has"));
  setup.w_type = "";
  Network net = setup.Make();
  EXPECT_EQ(Merge(net).CountOf("QLinearMatMul"), 1u);
}

TEST(MergeProductTest, UnknownRankOfXIsNotAReason) {
  ProductSetup setup;
  setup.x_type = "uint8[...]";
  Network net = setup.Make();
  EXPECT_EQ(Merge(net).CountOf("QLinearConv"), 1u);
}

TEST(MergeProductTest, ScalesMayBeGivenAtRunTime) {
  QuantizedBuilder builder;
  const ValueId x = builder.Input("x", "uint8[2, 3]");
  const ValueId w = builder.Input("w", "int8[3, 2]");
  const ValueId scale = builder.Input("scale", "float32[]");
  const auto floats = [&](ValueId integers, const char* name) {
    return builder.Add(ops::DequantizeLinear{}, {integers, scale}, name);
  };
  const ValueId product =
      builder.Add(ops::MatMul{}, {floats(x, "a"), floats(w, "b")}, "product");
  const ValueId q = builder.Add(ops::QuantizeLinear{}, {product, scale}, "q");
  Network net = builder.Finish({q});
  EXPECT_EQ(Merge(net).ToString(),
            "operation product: merged into QLinearMatMul (how near is not "
            "known)\n1 merged, 0 not\n");
}

TEST(MergeProductTest, NetworkWithoutOutputsIsNotChanged) {
  QuantizedBuilder builder;
  Network net = ProductSetup().Finish(builder);
  ASSERT_THAT(net.SetOutputs({}), IsOk());
  EXPECT_THAT(MergeQuantization(net).changes, IsEmpty());
  EXPECT_EQ(net.order().size(), 4u);
}

TEST(MergeProductTest, NamesThatAreTakenAreNotUsed) {
  QuantizedBuilder builder;
  builder.Input("product_x_zero_point", "float32[]");
  Network net = ProductSetup().Finish(builder);
  EXPECT_EQ(Merge(net).CountOf("QLinearConv"), 1u);
  const Operation& merged = net.operation(net.order()[0]);
  EXPECT_EQ(net.value(merged.inputs[2]).name, "product_x_zero_point_2");
}

TEST(MergeProductTest, OldOpsetsMergeToo) {
  ProductSetup setup;
  setup.opset = 10;
  Network net = setup.Make();
  EXPECT_EQ(Merge(net).CountOf("QLinearConv"), 1u);
}

}  // namespace
}  // namespace nodewise
