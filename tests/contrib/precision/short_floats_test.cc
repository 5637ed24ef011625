// fp16 and bf16: where casts stand, and what comes out.

#include "tests/contrib/precision/precision_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;

constexpr Precision kBoth[] = {Precision::kFloat16, Precision::kBfloat16};

TEST(ShortFloatsTest, ARunOfOperationsHasOneCastAtEachEnd) {
  for (const Precision precision : kBoth) {
    Network net = SmallNet();
    const PrecisionReport report = LowerTo({.precision = precision}, net);
    EXPECT_EQ(report.changes.size(), 6);
    EXPECT_TRUE(report.left_alone.empty());
    EXPECT_THAT(KindsIn(net),
                ElementsAre("Cast", "Conv", "Relu", "MaxPool", "Flatten",
                            "MatMul", "Softmax", "Cast"));
  }
}

TEST(ShortFloatsTest, ResultsAreNearThoseOfFloats) {
  const Network net = SmallNet();
  const Sample sample = SampleOf(net);
  for (const Precision precision : kBoth) {
    Network lowered = net;
    LowerTo({.precision = precision}, lowered);
    const double error = ErrorOf(lowered, net, sample);
    EXPECT_LT(error, precision == Precision::kFloat16 ? 2e-3 : 2e-2);
    EXPECT_GT(error, 0);
    ExpectAsInterpreted(lowered, sample, kPlain);
  }
}

TEST(ShortFloatsTest, ConstantsAreConvertedAtOnce) {
  Network net = SmallNet();
  LowerTo({}, net);
  EXPECT_THAT(net.FindValue("w_float16"), IsOk());
  EXPECT_FALSE(net.FindValue("w").ok());
}

TEST(ShortFloatsTest, ACastThatStandsThereIsUsed) {
  NetBuilder b;
  const ValueId x = b.In("x", {3}, kFloat16);
  const ValueId full = b.Op("Cast", {x}, {{"to", int64_t{1}}}, {}, "widen")[0];
  const ValueId y = b.Op("Relu", {full}, {}, {"y"})[0];
  b.Out({b.Op("Cast", {y}, {{"to", int64_t{10}}}, {"z"}, "narrow")[0]});
  Network net = std::move(b.net);
  LowerTo({}, net);
  EXPECT_THAT(KindsIn(net), ElementsAre("Relu", "Cast"));
}

TEST(ShortFloatsTest, ConstantsBeyondTheRangeBecomeTheLargest) {
  NetBuilder b;
  const ValueId x = b.In("x", {2});
  const ValueId c = b.Const("c", Floats({-1e9F, -INFINITY}));
  b.Out({b.Op("Max", {x, c})[0]});
  Network net = std::move(b.net);
  const PrecisionReport report = LowerTo({}, net);
  ASSERT_EQ(report.notes.size(), 1);
  EXPECT_THAT(report.notes[0], testing::HasSubstr("constant c: 1 of"));
  const auto numbers = ToDoubles(net.value(*net.FindValue("c_float16")).data);
  EXPECT_EQ(numbers[0], -65504);
  EXPECT_EQ(numbers[1], -INFINITY);
}

TEST(ShortFloatsTest, InputsThatMustBeFloat32StayIt) {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 1, 2, 2});
  const ValueId scales = b.Const("s", Floats({1, 1, 2, 2}));
  b.Out({b.Op("Resize", {x, kNoValue, scales}, {}, {"y"}, "grow")[0]});
  Network net = std::move(b.net);
  const PrecisionReport report = LowerTo({}, net);
  EXPECT_EQ(report.changes.size(), 1) << report.ToString();
  EXPECT_THAT(net.FindValue("s"), IsOk());
}

}  // namespace
}  // namespace nodewise
