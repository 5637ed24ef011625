#include <cmath>
#include <limits>

#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr DLDataType kHalf{kDLFloat, 16, 1};

TEST(ArithmeticTest, InputsAreBroadcastBothWays) {
  const auto column = MakeTensor<float>({2, 1}, {10, 20});
  const auto sum = EvaluateOne({"Add"}, {column, Floats({1, 2, 3})});
  ASSERT_THAT(sum, IsOk());
  EXPECT_THAT(sum->shape(), ElementsAre(2, 3));
  EXPECT_THAT(ValuesOf(*sum), ElementsAre(11, 12, 13, 21, 22, 23));
}

TEST(ArithmeticTest, ScalarMeetsAnEmptyTensor) {
  const auto empty = MakeTensor<float>({0, 2}, {});
  EXPECT_THAT(ElementsOf({"Mul"}, {empty, Floats({3})}), IsEmpty());
}

TEST(ArithmeticTest, ShapesThatDoNotFitAreRefused) {
  EXPECT_THAT(EvaluateOne({"Add"}, {Floats({1, 2}), Floats({1, 2, 3})}),
              FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("3")));
}

TEST(ArithmeticTest, TypesThatDifferAreRefused) {
  EXPECT_THAT(EvaluateOne({"Add"}, {Floats({1}), Longs({1})}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("input 1: is of type int64")));
}

TEST(ArithmeticTest, IntegersWrapAround) {
  const auto large = MakeTensor<int8_t>({1}, {127});
  const auto one = MakeTensor<int8_t>({1}, {1});
  EXPECT_THAT(ElementsOf<int8_t>({"Add"}, {large, one}), ElementsAre(-128));
  const auto word = MakeTensor<uint16_t>({1}, {65535});
  EXPECT_THAT(ElementsOf<uint16_t>({"Mul"}, {word, word}), ElementsAre(1));
}

TEST(ArithmeticTest, IntegersOf64BitsAreExact) {
  const int64_t large = (int64_t{1} << 53) + 1;
  EXPECT_THAT(ElementsOf<int64_t>({"Add"}, {Longs({large}), Longs({2})}),
              ElementsAre(large + 2));
}

TEST(ArithmeticTest, IntegerDivisionTruncatesAndNeverTraps) {
  const int64_t least = std::numeric_limits<int64_t>::min();
  EXPECT_THAT(ElementsOf<int64_t>(
                  {"Div"}, {Longs({-7, 7, 5, least}), Longs({2, -2, 0, -1})}),
              ElementsAre(-3, -3, 0, least));
}

TEST(ArithmeticTest, HalvesAreRoundedOnce) {
  // 1 + 2^-11 lies between two halves, and goes to the even one.
  const auto one = MakeTensor<uint16_t>({1}, {0x3C00}, kHalf);
  const auto tiny = MakeTensor<uint16_t>({1}, {0x1000}, kHalf);
  EXPECT_THAT(ElementsOf<uint16_t>({"Add"}, {one, tiny}), ElementsAre(0x3C00));
}

TEST(ArithmeticTest, BelowOpset7TheSecondInputIsAlignedByAxis) {
  const auto x = MakeTensor<float>({2, 3}, {0, 0, 0, 0, 0, 0});
  const OpSetup aligned{"Add", 6, {Attr("broadcast", 1), Attr("axis", 0)}};
  EXPECT_THAT(ElementsOf(aligned, {x, Floats({1, 2})}),
              ElementsAre(1, 1, 1, 2, 2, 2));
  const OpSetup suffix{"Add", 6, {Attr("broadcast", 1)}};
  EXPECT_THAT(ElementsOf(suffix, {x, Floats({1, 2, 3})}),
              ElementsAre(1, 2, 3, 1, 2, 3));
}

TEST(ArithmeticTest, BelowOpset7NothingIsBroadcastUnasked) {
  const auto x = MakeTensor<float>({2, 1}, {0, 0});
  EXPECT_THAT(EvaluateOne({"Add", 6}, {x, Floats({1})}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("attribute broadcast is not set")));
}

TEST(ArithmeticTest, AxisBeyondTheRankIsRefused) {
  const OpSetup add{"Add", 6, {Attr("broadcast", 1), Attr("axis", 9)}};
  EXPECT_THAT(
      EvaluateOne(add,
                  {MakeTensor<float>({2, 2}, {0, 0, 0, 0}), Floats({1, 2})}),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("axis 9")));
}

TEST(ModTest, SignIsThatOfTheDivisorOrOfTheDividend) {
  const auto x = Longs({-4, 7, 5, 4, -7, 8});
  const auto y = Longs({2, -3, 8, -2, 3, 5});
  EXPECT_THAT(ElementsOf<int64_t>({"Mod"}, {x, y}),
              ElementsAre(0, -2, 5, 0, 2, 3));
  EXPECT_THAT(ElementsOf<int64_t>({"Mod", 13, {Attr("fmod", 1)}}, {x, y}),
              ElementsAre(0, 1, 5, 0, -1, 3));
}

TEST(ModTest, BelowOpset28FloatsNeedFmod) {
  EXPECT_THAT(EvaluateOne({"Mod", 27}, {Floats({5}), Floats({3})}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("attribute fmod")));
  EXPECT_THAT(ElementsOf({"Mod", 13, {Attr("fmod", 1)}},
                         {Floats({-4.3f}), Floats({2.1f})}),
              ElementsAre(std::fmod(-4.3f, 2.1f)));
}

TEST(ModTest, FloatsHaveTheSignOfTheDivisor) {
  EXPECT_THAT(ElementsOf({"Mod"}, {Floats({-4.5F, 4.5F, -4.5F, 4.5F}),
                                   Floats({2, -2, -2, 2})}),
              ElementsAre(1.5F, -1.5F, -0.5F, 0.5F));
  // Zeros have it too, and infinities are as the text has them.
  const auto y =
      ElementsOf({"Mod"}, {Floats({-4, 4, 3, -3, 3, kInf, 3}),
                           Floats({2, -2, kInf, kInf, -kInf, 2, 0})});
  EXPECT_FALSE(std::signbit(y[0]));
  EXPECT_TRUE(std::signbit(y[1]));
  EXPECT_THAT(std::vector(y.begin(), y.begin() + 5),
              ElementsAre(0, 0, 3, kInf, -kInf));
  EXPECT_TRUE(std::isnan(y[5]) && std::isnan(y[6]));
}

TEST(PowTest, ResultIsOfTheTypeOfTheBase) {
  EXPECT_THAT(ElementsOf({"Pow"}, {Floats({2, 3, 4}), Longs({3, 2, -1})}),
              ElementsAre(8, 9, 0.25f));
  EXPECT_THAT(ElementsOf<int64_t>({"Pow"}, {Longs({9}), Floats({0.5f})}),
              ElementsAre(3));
}

TEST(PowTest, IntegersAreExact) {
  EXPECT_THAT(ElementsOf<int64_t>(
                  {"Pow"}, {Longs({3, -1, 2, 7}), Longs({39, 5, -1, 0})}),
              ElementsAre(4052555153018976267, -1, 0, 1));
}

TEST(ClipTest, CrossedLimitsGiveTheUpperOne) {
  const auto low = MakeTensor<float>({}, {2});
  const auto high = MakeTensor<float>({}, {1});
  EXPECT_THAT(ElementsOf({"Clip"}, {Floats({0, 3}), low, high}),
              ElementsAre(1, 1));
}

TEST(ClipTest, LimitsMayBeLeftOutAndNanStays) {
  const auto high = MakeTensor<float>({}, {1});
  const auto y = ElementsOf({"Clip"}, {Floats({-5, kNan, 3}), NDArray(), high});
  ASSERT_EQ(y.size(), 3u);
  EXPECT_EQ(y[0], -5);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(y[2], 1);
}

TEST(PReluTest, SlopeIsRepeatedOverTheInputOnly) {
  const auto x = MakeTensor<float>({2, 2}, {-1, 2, -3, -4});
  EXPECT_THAT(ElementsOf({"PRelu"}, {x, Floats({10, 100})}),
              ElementsAre(-10, 2, -30, -400));
  EXPECT_THAT(EvaluateOne({"PRelu"}, {Floats({1, 1}), x}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("larger than input 0")));
}

TEST(PReluTest, BelowOpset7ThereIsASlopeForEachChannel) {
  const auto x = MakeTensor<float>({1, 2, 2}, {-1, -2, -3, -4});
  EXPECT_THAT(ElementsOf({"PRelu", 6}, {x, Floats({10, 100})}),
              ElementsAre(-10, -20, -300, -400));
}

TEST(VariadicTest, NanIsBothLargestAndSmallest) {
  for (const char* name : {"Min", "Max"}) {
    const auto y = ElementsOf({name}, {Floats({1, kNan}), Floats({kNan, 2})});
    EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1])) << name;
  }
}

TEST(VariadicTest, AllInputsAreBroadcastTogether) {
  const auto column = MakeTensor<float>({2, 1}, {1, 5});
  const std::vector<NDArray> inputs = {column, Floats({2, 4}), Floats({3})};
  EXPECT_THAT(ElementsOf({"Max"}, inputs), ElementsAre(3, 4, 5, 5));
  EXPECT_THAT(ElementsOf({"Sum"}, inputs), ElementsAre(6, 8, 10, 12));
  EXPECT_THAT(ElementsOf({"Mean"}, inputs),
              ElementsAre(2, 8.0f / 3, 10.0f / 3, 4));
}

TEST(VariadicTest, BelowOpset8NothingIsBroadcast) {
  const std::vector<NDArray> inputs = {Floats({2, 4}), Floats({3})};
  for (const char* name : {"Min", "Max", "Sum", "Mean"}) {
    EXPECT_THAT(EvaluateOne({name, 8}, inputs), IsOk());
    EXPECT_THAT(EvaluateOne({name, 7}, {inputs[0], inputs[0]}), IsOk());
    EXPECT_THAT(EvaluateOne({name, 7}, inputs),
                FailsWith(absl::StatusCode::kInvalidArgument,
                          HasSubstr("input 1: is of shape [1], expected [2]")));
  }
}

TEST(VariadicTest, NoInputIsRefused) {
  EXPECT_THAT(
      EvaluateOne({"Sum"}, {}),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("no input")));
}

TEST(ArithmeticTest, InferenceKeepsNames) {
  EXPECT_EQ(InferredType({"Add"}, {{"float32[batch, 3]"}, {"float32[3]"}}),
            "float32[batch, 3]");
  EXPECT_EQ(InferredType({"Mul"}, {{"?[...]"}, {"int64[2]"}}), "int64[...]");
}

TEST(ArithmeticTest, ShapesAreCalculatedWith) {
  const Known batch{"int64[2]", Shape{Dim::Named("n"), 6}};
  const Known two{"int64[]", Shape{2}};
  EXPECT_EQ(KnownElements({"Mul"}, {batch, two}), "[?, 12]");
  EXPECT_EQ(KnownElements({"Div"}, {batch, two}), "[?, 3]");
  EXPECT_EQ(KnownElements({"Sub"}, {batch, batch}), "[0, 0]");
  const Known zero{"int64[]", Shape{0}};
  EXPECT_EQ(KnownElements({"Add"}, {batch, zero}), "[n, 6]");
  EXPECT_EQ(KnownElements({"Div"}, {batch, zero}), "[?, ?]");
}

TEST(ArithmeticTest, ElementsThatOverflowAreNotKnown) {
  const Known large{"int64[]", Shape{int64_t{1} << 62}};
  EXPECT_EQ(KnownElements({"Mul"}, {large, large}), "[?]");
  const Known most{"int32[]", Shape{int64_t{2147483647}}};
  EXPECT_EQ(KnownElements({"Add"}, {most, {"int32[]", Shape{1}}}), "[?]");
}

TEST(ArithmeticTest, ResultTooLargeToCountIsRefusedUnseen) {
  EXPECT_FALSE(
      InferOf({"Add"}, {{"float32[4294967296, 1]"}, {"float32[1, 4294967296]"}})
          .ok());
}

TEST(CastTest, FloatsAreTruncatedAndIntegersDropUpperBits) {
  EXPECT_THAT(ElementsOf<int32_t>({"Cast", 13, {Attr("to", 6)}},
                                  {Floats({-1.9f, 2.9f})}),
              ElementsAre(-1, 2));
  EXPECT_THAT(
      ElementsOf<int8_t>({"Cast", 13, {Attr("to", 3)}}, {Longs({200, -129})}),
      ElementsAre(-56, 127));
}

TEST(CastTest, OnlyZeroIsFalse) {
  EXPECT_THAT(ElementsOf<uint8_t>({"Cast", 13, {Attr("to", 9)}},
                                  {Floats({0, -0.0f, 0.1f, kNan, kInf})}),
              ElementsAre(0, 0, 1, 1, 1));
}

TEST(CastTest, LargeIntegersAreRoundedOnce) {
  // Halfway between two floats except for its last bit, which a double drops.
  const int64_t x = (int64_t{1} << 62) + (int64_t{1} << 38) + 1;
  const float above = std::ldexp(1 + std::ldexp(1.0f, -23), 62);
  EXPECT_THAT(ElementsOf({"Cast", 13, {Attr("to", 1)}}, {Longs({x})}),
              ElementsAre(above));
  // Almost halfway between two numbers of bfloat16.
  const int64_t y = (int64_t{1} << 62) + (int64_t{1} << 54) + 1;
  EXPECT_THAT(
      ElementsOf<uint16_t>({"Cast", 13, {Attr("to", 16)}}, {Longs({y})}),
      ElementsAre(0x5E81));
}

TEST(CastTest, ElementsPassBetweenIntegerTypes) {
  const Known shape{"int64[2]", Shape{Dim::Named("n"), int64_t{1} << 40}};
  EXPECT_EQ(KnownElements({"Cast", 13, {Attr("to", 7)}}, {shape}),
            "[n, 1099511627776]");
  EXPECT_EQ(KnownElements({"Cast", 13, {Attr("to", 6)}}, {shape}), "[n, ?]");
  EXPECT_EQ(KnownElements({"Cast", 13, {Attr("to", 1)}}, {shape}), "");
}

TEST(CastTest, BitsAreReadAsAnotherTypeOfTheirWidth) {
  EXPECT_THAT(
      ElementsOf<uint32_t>({"BitCast", 26, {Attr("to", 12)}}, {Floats({1})}),
      ElementsAre(0x3F800000u));
  EXPECT_THAT(EvaluateOne({"BitCast", 26, {Attr("to", 7)}}, {Floats({1})}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("input 0: is of type float32")));
}

}  // namespace
}  // namespace nodewise
