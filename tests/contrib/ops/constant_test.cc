#include <cmath>

#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ConstantTest, EveryNumericFormIsATensor) {
  const std::vector<int64_t> ints{3, 4};
  EXPECT_THAT(ElementsOf<int64_t>({"Constant", 13, {{"value_ints", ints}}}, {}),
              ElementsAre(3, 4));
  EXPECT_THAT(ElementsOf({"Constant", 13, {{"value_float", 2.5F}}}, {}),
              ElementsAre(2.5F));
  EXPECT_EQ(KnownElements({"Constant", 13, {{"value_ints", ints}}}, {}),
            "[3, 4]");
}

TEST(ConstantTest, NoneAndTwoAreRefused) {
  EXPECT_THAT(EvaluateOne({"Constant", 13}, {}),
              FailsWith(kInvalid, HasSubstr("exactly one")));
  EXPECT_THAT(
      EvaluateOne(
          {"Constant", 13, {{"value_float", 2.5F}, Attr("value_int", 1)}}, {}),
      FailsWith(kInvalid, HasSubstr("exactly one")));
}

TEST(ConstantOfShapeTest, TheTypeIsTheValues) {
  const auto seven = MakeTensor<int8_t>({1}, {7});
  EXPECT_THAT(ElementsOf<int8_t>({"ConstantOfShape", 9, {{"value", seven}}},
                                 {Longs({2, 1})}),
              ElementsAre(7, 7));
  EXPECT_THAT(ElementsOf({"ConstantOfShape", 9}, {Longs({})}), ElementsAre(0));
}

TEST(ConstantOfShapeTest, ImpossibleSizesAreRefused) {
  EXPECT_FALSE(EvaluateOne({"ConstantOfShape", 9}, {Longs({-1})}).ok());
  const int64_t large = int64_t{1} << 40;
  EXPECT_FALSE(
      EvaluateOne({"ConstantOfShape", 9}, {Longs({large, large})}).ok());
}

TEST(RangeTest, ItEndsBeforeTheLimit) {
  EXPECT_THAT(ElementsOf<int64_t>({"Range", 11}, {Long(10), Long(4), Long(-3)}),
              ElementsAre(10, 7));
  EXPECT_THAT(ElementsOf({"Range", 11}, {Float(0), Float(1), Float(0.4F)}),
              ElementsAre(0, 0.4F, 0.8F));
  EXPECT_THAT(ElementsOf<int64_t>({"Range", 11}, {Long(3), Long(0), Long(1)}),
              IsEmpty());
}

TEST(RangeTest, TheEndsOf64BitsDoNotOverflow) {
  EXPECT_THAT(
      ElementsOf<int64_t>({"Range", 11},
                          {Long(INT64_MIN), Long(INT64_MAX), Long(INT64_MAX)}),
      ElementsAre(INT64_MIN, -1, INT64_MAX - 1));
}

TEST(RangeTest, WhatHasNoEndIsRefused) {
  EXPECT_THAT(EvaluateOne({"Range", 11}, {Long(0), Long(4), Long(0)}),
              FailsWith(kInvalid, HasSubstr("no end")));
  EXPECT_FALSE(
      EvaluateOne({"Range", 11}, {Float(0), Float(INFINITY), Float(1)}).ok());
  EXPECT_FALSE(
      EvaluateOne({"Range", 11}, {Float(0), Float(NAN), Float(1)}).ok());
}

TEST(RangeTest, ElementsAreKnown) {
  EXPECT_EQ(KnownElements({"Range", 11}, {{"int64[]", Shape{0}},
                                          {"int64[]", Shape{3}},
                                          {"int64[]", Shape{1}}}),
            "[0, 1, 2]");
}

TEST(OneHotTest, IndicesOutsideAreOffEverywhere) {
  EXPECT_THAT(
      ElementsOf({"OneHot", 11}, {Longs({1, -1, 5}), Long(3), Floats({2, 9})}),
      ElementsAre(2, 9, 2, 2, 2, 9, 2, 2, 2));
  EXPECT_THAT(ElementsOf({"OneHot", 11, {Attr("axis", 0)}},
                         {Longs({1, 0}), Long(2), Floats({0, 1})}),
              ElementsAre(0, 1, 1, 0));
}

TEST(EyeLikeTest, TheDiagonalMayLieAnywhere) {
  const auto x = MakeTensor<float>({2, 3}, {0, 0, 0, 0, 0, 0});
  EXPECT_THAT(ElementsOf({"EyeLike", 9, {Attr("k", 1)}}, {x}),
              ElementsAre(0, 1, 0, 0, 0, 1));
  EXPECT_THAT(ElementsOf({"EyeLike", 9, {Attr("k", INT64_MIN)}}, {x}),
              ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST(TriluTest, EitherTriangleIsKept) {
  const auto x = MakeTensor<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(ElementsOf({"Trilu", 14}, {x}), ElementsAre(1, 2, 3, 0, 5, 6));
  EXPECT_THAT(ElementsOf({"Trilu", 14, {Attr("upper", 0)}}, {x, Long(-1)}),
              ElementsAre(0, 0, 0, 4, 0, 0));
  EXPECT_THAT(ElementsOf({"Trilu", 14}, {x, Long(INT64_MAX)}),
              ElementsAre(0, 0, 0, 0, 0, 0));
}

}  // namespace
}  // namespace nodewise
