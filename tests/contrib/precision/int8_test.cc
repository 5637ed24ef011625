// int8: which operations are quantised, how, and what comes out.

#include "nodewise/passes/quantization.h"
#include "tests/contrib/precision/precision_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Lowers the network with one sample and merges what can be.
struct Merged {
  explicit Merged(const Network& network)
      : sample(SampleOf(network)), lowered(network) {
    report = LowerTo(Int8Of(network, {sample}), lowered);
    merged = lowered;
    merges = MergeQuantization(merged);
  }

  Sample sample;
  Network lowered;
  Network merged;
  PrecisionReport report;
  QuantizationReport merges;
};

// Returns the data of a constant by its name.
NDArray ConstantIn(const Network& network, const std::string& name) {
  const auto id = network.FindValue(name);
  EXPECT_THAT(id, IsOk());
  return id.ok() ? network.value(*id).data : NDArray();
}

TEST(Int8Test, ProductsAndWhatTakesIntegersAreQuantised) {
  Network net = SmallNet();
  const PrecisionReport report = LowerTo(Int8Of(net, {SampleOf(net)}), net);
  EXPECT_THAT(NamesOf(report.changes),
              ElementsAre("conv", "relu", "pool", "turn", "fc"));
  ASSERT_EQ(report.left_alone.size(), 1);
  EXPECT_EQ(report.left_alone[0].operation, "soft");
  EXPECT_THAT(report.left_alone[0].reason, HasSubstr("int8"));
}

TEST(Int8Test, ResultsAreNearThoseOfFloats) {
  const Network net = SmallNet();
  const Merged made(net);
  EXPECT_LT(ErrorOf(made.lowered, net, made.sample), 0.02);
  EXPECT_GT(ErrorOf(made.lowered, net, made.sample), 0);
}

// GL-05
TEST(Int8Test, ProductsMergeWithTheirBiasAndActivation) {
  const Merged made(SmallNet());
  EXPECT_EQ(made.merges.CountOf("QLinearConv"), 1) << made.merges.ToString();
  EXPECT_EQ(made.merges.CountOf("QLinearMatMul"), 1) << made.merges.ToString();
  EXPECT_THAT(KindsIn(made.merged), testing::Not(testing::Contains("Relu")));
}

TEST(Int8Test, MergingChangesNoResultByMoreThanAStep) {
  Network net = SmallNet();
  // What else comes behind would make more of a step.
  EXPECT_THAT(net.SetOutputs({*net.FindValue("r")}), IsOk());
  net.RemoveUnused();
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Merged made(net);
    const Sample sample = SampleOf(net, seed);
    const auto before = Interpret(made.lowered, sample);
    const auto after = Interpret(made.merged, sample);
    ASSERT_THAT(before, IsOk());
    ASSERT_THAT(after, IsOk());
    const float step = ValuesOf<float>(ConstantIn(made.lowered, "r_scale"))[0];
    const auto a = ValuesOf<float>((*before)[0]);
    const auto b = ValuesOf<float>((*after)[0]);
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_NEAR(a[i], b[i], 1.001F * step);
    }
  }
}

TEST(Int8Test, GraphsComputeWhatTheInterpreterDoes) {
  const Merged made(SmallNet());
  ExpectAsInterpreted(made.lowered, {made.sample}, kPlain);
  const auto merged = RunLowered(made.merged, {made.sample});
  EXPECT_THAT(merged, IsOk());
}

TEST(Int8Test, WeightsAreSymmetricByChannel) {
  const Merged made(SmallNet());
  const auto integers =
      ValuesOf<int8_t>(ConstantIn(made.lowered, "w_quantized"));
  const auto scales = ValuesOf<float>(ConstantIn(made.lowered, "w_scale"));
  const auto floats = ValuesOf<float>(RandomFloats("w", {4, 2, 3, 3}));
  ASSERT_EQ(scales.size(), 4);
  for (size_t i = 0; i < integers.size(); ++i) {
    const float scale = scales[i / 18];
    EXPECT_LE(std::abs(integers[i]), 127);
    EXPECT_NEAR(static_cast<float>(integers[i]) * scale, floats[i],
                0.501F * scale);
  }
}

TEST(Int8Test, WeightsOfProductsKeepTheirLimit) {
  Network net = SmallNet();
  PrecisionOptions options = Int8Of(net, {SampleOf(net)});
  options.most_weight = 63;
  const PrecisionReport report = LowerTo(options, net);
  EXPECT_THAT(report.notes, testing::Contains(HasSubstr("-63 to 63")));
  for (const char* const name : {"w_quantized", "v_quantized"}) {
    const auto integers = ValuesOf<int8_t>(ConstantIn(net, name));
    const auto [low, high] =
        std::minmax_element(integers.begin(), integers.end());
    EXPECT_EQ(std::max(-*low, int{*high}), 63) << name;
  }
}

TEST(Int8Test, ZeroHasAnIntegerOfItsOwn) {
  NetBuilder b;
  const ValueId x = b.In("x", {2});
  b.Out({b.Op("Add", {x, x}, {}, {"y"})[0]});
  PrecisionOptions options{.precision = Precision::kInt8};
  options.calibration = {{"x", {2, 5}}, {"y", {-1, 3}}};
  Network net = std::move(b.net);
  LowerTo(options, net);
  EXPECT_EQ(ValuesOf<uint8_t>(ConstantIn(net, "x_zero_point"))[0], 0);
  EXPECT_EQ(ValuesOf<uint8_t>(ConstantIn(net, "y_zero_point"))[0], 64);
  EXPECT_FLOAT_EQ(ValuesOf<float>(ConstantIn(net, "x_scale"))[0], 5 / 255.F);
}

TEST(Int8Test, NoCalibrationIsAnError) {
  Network net = SmallNet();
  const auto report = LowerPrecision({.precision = Precision::kInt8}, net);
  EXPECT_THAT(report, FailsWith(absl::StatusCode::kInvalidArgument,
                                HasSubstr("at least one sample input")));
}

TEST(Int8Test, AValueWithoutARangeLeavesItsOperationsAlone) {
  Network net = SmallNet();
  PrecisionOptions options = Int8Of(net, {SampleOf(net)});
  options.calibration.erase("m");
  const PrecisionReport report = LowerTo(options, net);
  ASSERT_EQ(report.left_alone.size(), 2);
  EXPECT_THAT(report.left_alone[0].reason, HasSubstr("no finite number of m"));
}

TEST(Int8Test, DivisorsThatMightBecomeZeroStayFloats) {
  NetBuilder b;
  const ValueId x = b.In("x", {2, 3});
  const ValueId c = b.Const("c", RandomFloats("c", {3}));
  const ValueId by_constant = b.Op("Div", {x, c}, {}, {"a"}, "good")[0];
  b.Out({b.Op("Div", {by_constant, x}, {}, {"y"}, "bad")[0]});
  Network net = std::move(b.net);
  const PrecisionReport report = LowerTo(Int8Of(net, {SampleOf(net)}), net);
  EXPECT_THAT(NamesOf(report.changes), ElementsAre("good"));
  EXPECT_THAT(net.FindValue("c"), IsOk());
}

TEST(Int8Test, AGemmIsQuantisedByItsColumns) {
  NetBuilder b;
  const ValueId x = b.In("x", {2, 3});
  const ValueId w = b.Const("w", RandomFloats("w", {4, 3}));
  const ValueId bias = b.Const("b", RandomFloats("b", {4}));
  b.Out({b.Op("Gemm", {x, w, bias}, {{"transB", int64_t{1}}}, {"y"})[0]});
  const Merged made(b.net);
  EXPECT_EQ(ConstantIn(made.lowered, "w_scale").shape()[0], 4);
  EXPECT_TRUE(ConstantIn(made.lowered, "b_quantized").dtype() == kInt32);
  EXPECT_LT(ErrorOf(made.lowered, b.net, made.sample), 0.02);
}

}  // namespace
}  // namespace nodewise
