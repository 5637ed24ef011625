#include <cmath>

#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

NDArray Image() { return MakeTensor<float>({1, 1, 2, 2}, {1, 2, 3, 4}); }
NDArray Wide() {
  return MakeTensor<float>({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
}
NDArray Doubled() { return Floats({1, 1, 2, 2}); }
MATCHER(IsNear, "") {
  return std::fabs(std::get<0>(arg) - std::get<1>(arg)) < 1e-5F;
}

// Values of onnxruntime.
TEST(ResizeTest, EveryModeGrows) {
  const struct {
    std::vector<NamedAttr> attrs;
    std::vector<float> first_rows;
  } cases[] = {
      {{Word("mode", "linear")},
       {1, 1.25F, 1.75F, 2, 1.5F, 1.75F, 2.25F, 2.5F}},
      {{Word("mode", "linear"),
        Word("coordinate_transformation_mode", "align_corners")},
       {1, 1.333333F, 1.666667F, 2, 1.666667F, 2, 2.333333F, 2.666667F}},
      {{Word("mode", "cubic")},
       {0.6835938F, 1.015625F, 1.5625F, 1.8945312F, 1.3476562F, 1.6796875F,
        2.2265625F, 2.5585938F}},
      {{Word("mode", "nearest")}, {1, 1, 2, 2, 1, 1, 2, 2}},
  };
  for (const auto& c : cases) {
    auto y =
        ElementsOf({"Resize", 13, c.attrs}, {Image(), NDArray(), Doubled()});
    ASSERT_EQ(y.size(), 16U);
    y.resize(8);
    EXPECT_THAT(y, Pointwise(IsNear(), c.first_rows));
  }
}

// Element 3 of 7 lies at 3.5 / 0.7 - 0.5 of 10, which is 4.5 in float32 and a
// little more than that in double.
TEST(ResizeTest, WhereATypeDecidesATheNeighbourIsWithinTheBound) {
  const NDArray x = MakeTensor<float>({10}, {0, 1, 2, 3, 4, 6, 7, 8, 9, 10});
  const auto y = EvaluateAll({"Resize", 13, {Word("mode", "nearest")}},
                             {x, NDArray(), Floats({0.7F})}, true);
  ASSERT_THAT(y, IsOk());
  const std::vector<float> values = ValuesOf(y->outputs[0]);
  EXPECT_EQ(values[3], 6);
  EXPECT_EQ(y->bounds[0].proved[3], 2);
  EXPECT_EQ(y->bounds[0].proved[0], 0);
  // No type decides a tie of powers of two.
  const auto half = EvaluateAll({"Resize", 13, {Word("mode", "nearest")}},
                                {x, NDArray(), Floats({0.5F})}, true);
  ASSERT_THAT(half, IsOk());
  EXPECT_THAT(half->bounds[0].proved, testing::Each(0));
}

TEST(ResizeTest, AntialiasingTakesInAllOfTheInput) {
  const auto y =
      ElementsOf({"Resize", 18, {Word("mode", "linear"), Attr("antialias", 1)}},
                 {Wide(), NDArray(), NDArray(), Longs({1, 1, 1, 2})});
  EXPECT_THAT(y,
              ElementsAre(FloatNear(3.625F, 1e-6F), FloatNear(5.375F, 1e-6F)));
}

TEST(ResizeTest, Opset10TakesTheNextElementWhenItShrinks) {
  EXPECT_THAT(ElementsOf({"Resize", 10}, {Wide(), Floats({1, 1, 0.6F, 0.6F})}),
              ElementsAre(1, 3));
}

TEST(ResizeTest, TheRatioOfTheSidesIsKept) {
  const OpSetup not_larger{
      "Resize", 18, {Word("keep_aspect_ratio_policy", "not_larger")}};
  const auto y = EvaluateOne(
      not_larger, {Wide(), NDArray(), NDArray(), Longs({1, 1, 7, 8})});
  // The batch of one counts too: nothing may grow.
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(y->shape(), ElementsAre(1, 1, 2, 4));
}

TEST(ResizeTest, WhatIsOutsideTheRegionIsTheValueTold) {
  const OpSetup crop{
      "Resize",
      13,
      {Word("mode", "linear"),
       {"extrapolation_value", 10.0F},
       Word("coordinate_transformation_mode", "tf_crop_and_resize")}};
  EXPECT_THAT(ElementsOf(crop, {Image(), Floats({0, 0, 0, 0, 1, 1, 1, 2}),
                                NDArray(), Longs({1, 1, 1, 3})}),
              ElementsAre(2, 3, 10));
}

TEST(ResizeTest, ScalesAreMultipliedAsFloats) {
  // 10 * 0.7F is a bit below 7.
  EXPECT_EQ(EvaluateOne({"Resize", 13}, {Floats(std::vector<float>(10, 1)),
                                         NDArray(), Floats({0.7F})})
                ->shape()[0],
            7);
}

TEST(ResizeTest, BadScalesAndSizesAreRefused) {
  for (const float scale : {0.0F, -1.0F, NAN, INFINITY, 1e30F}) {
    EXPECT_FALSE(
        EvaluateOne({"Resize", 13}, {Floats({1}), NDArray(), Floats({scale})})
            .ok())
        << scale;
  }
  EXPECT_THAT(EvaluateOne({"Resize", 13}, {Floats({1})}),
              FailsWith(kInvalid, HasSubstr("either scales or sizes")));
  EXPECT_FALSE(EvaluateOne({"Resize", 13},
                           {Floats({1}), NDArray(), NDArray(), Longs({-1})})
                   .ok());
}

TEST(ResizeTest, InfinityDoesNotSpreadWhereItDoesNotCount) {
  const auto y =
      ElementsOf({"Resize",
                  13,
                  {Word("mode", "linear"),
                   Word("coordinate_transformation_mode", "asymmetric")}},
                 {Floats({1, INFINITY}), NDArray(), Floats({2})});
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[2], INFINITY);
}

TEST(UpsampleTest, LinearIsByTheLeftEnds) {
  EXPECT_THAT(ElementsOf({"Upsample", 9, {Word("mode", "linear")}},
                         {Wide(), Floats({1, 1, 1, 2})}),
              ElementsAre(1, 1.5F, 2, 2.5F, 3, 3.5F, 4, 4, 5, 5.5F, 6, 6.5F, 7,
                          7.5F, 8, 8));
}

// Values of onnxruntime.
TEST(GridSampleTest, ModesAndPaddings) {
  const auto x = MakeTensor<float>({1, 1, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  const auto grid =
      MakeTensor<float>({1, 1, 3, 2}, {-1, -1, 0, 0.2F, 1.3F, -0.4F});
  const struct {
    const char* mode;
    const char* padding;
    std::vector<float> expected;
  } cases[] = {
      {"bilinear", "zeros", {0, 4.9F, 0.16F}},
      {"bilinear", "border", {0, 4.9F, 3.2F}},
      {"bilinear", "reflection", {0, 4.9F, 3.2F}},
      {"nearest", "zeros", {0, 4, 0}},
      {"nearest", "border", {0, 4, 2}},
      {"bicubic", "zeros", {-0.1875F, 5.4985F, 0.126359F}},
      {"bicubic", "border", {-0.375F, 5.167746F, 2.949781F}},
      {"bicubic", "reflection", {-0.75F, 5.167746F, 2.983625F}},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(
        ElementsOf({"GridSample",
                    16,
                    {Word("mode", c.mode), Word("padding_mode", c.padding)}},
                   {x, grid}),
        Pointwise(IsNear(), c.expected))
        << c.mode << " " << c.padding;
  }
}

TEST(GridSampleTest, PlacesThatAreNotNumbersDoNotCrash) {
  const auto x = MakeTensor<float>({1, 1, 2}, {1, 2});
  const auto grid = MakeTensor<float>({1, 3, 1}, {NAN, INFINITY, -1e30F});
  for (const char* mode : {"linear", "nearest", "cubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      const OpSetup sample{"GridSample",
                           20,
                           {Word("mode", mode), Word("padding_mode", padding)}};
      EXPECT_THAT(EvaluateOne(sample, {x, grid}), IsOk());
    }
  }
}

TEST(AffineGridTest, PlacesAreTurnedByTheMatrix) {
  const auto theta = MakeTensor<float>({1, 2, 3}, {1, 0, 0.5F, 0, 2, 0});
  EXPECT_THAT(ElementsOf({"AffineGrid", 20}, {theta, Longs({1, 1, 2, 2})}),
              ElementsAre(0, -1, 1, -1, 0, 1, 1, 1));
  EXPECT_THAT(
      EvaluateOne({"AffineGrid", 20}, {theta, Longs({1, 1, -3, INT64_MIN})}),
      FailsWith(absl::StatusCode::kInvalidArgument,
                HasSubstr("input 1: shape (1, -3, ")));
}

TEST(Col2ImTest, OverlapsAreAdded) {
  const auto x = MakeTensor<float>({1, 2, 2}, {1, 2, 3, 4});
  EXPECT_THAT(ElementsOf({"Col2Im", 18}, {x, Longs({1, 3}), Longs({1, 2})}),
              ElementsAre(1, 5, 4));
  EXPECT_FALSE(
      EvaluateOne({"Col2Im", 18}, {x, Longs({1, 4}), Longs({1, 2})}).ok());
  EXPECT_FALSE(
      EvaluateOne({"Col2Im", 18}, {x, Longs({1, 3}), Longs({0, 2})}).ok());
}

}  // namespace
}  // namespace nodewise
