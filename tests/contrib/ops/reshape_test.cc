#include <cmath>

#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ReshapeTest, MinusOneIsWhatIsLeftAndZeroIsKept) {
  const auto y = EvaluateOne({"Reshape"}, {Matrix(), Longs({0, -1, 1})});
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(y->shape(), ElementsAre(2, 3, 1));
}

TEST(ReshapeTest, AllowZeroMakesEmptySides) {
  const auto empty = MakeTensor<float>({0, 3}, {});
  const auto y = EvaluateOne({"Reshape", 14, {Attr("allowzero", 1)}},
                             {empty, Longs({3, 0})});
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(y->shape(), ElementsAre(3, 0));
}

TEST(ReshapeTest, AnotherNumberOfElementsIsRefused) {
  EXPECT_THAT(EvaluateOne({"Reshape"}, {Matrix(), Longs({4, 2})}),
              FailsWith(kInvalid, HasSubstr("[4, 2]")));
  EXPECT_THAT(EvaluateOne({"Reshape"}, {Matrix(), Longs({-1, 4})}),
              FailsWith(kInvalid, HasSubstr("6 elements")));
  EXPECT_THAT(EvaluateOne({"Reshape"}, {Matrix(), Longs({-1, -1})}),
              FailsWith(kInvalid, HasSubstr("-1")));
}

TEST(ReshapeTest, SidesThatMultiplyBeyondAllCountsAreRefused) {
  const int64_t large = int64_t{1} << 62;
  EXPECT_FALSE(
      EvaluateOne({"Reshape"}, {Matrix(), Longs({large, large, 4})}).ok());
}

TEST(ReshapeTest, NamedSidesCancelOut) {
  const Shape target{Dim::Named("batch"), -1};
  EXPECT_EQ(InferredType({"Reshape"},
                         {{"float32[batch, 3, 4]"}, {"int64[2]", target}}),
            "float32[batch, 12]");
  EXPECT_EQ(InferredType({"Reshape"},
                         {{"float32[?, 3, 4]"}, {"int64[2]", Dims({0, -1})}}),
            "float32[?, 12]");
  EXPECT_EQ(InferredType({"Reshape"}, {{"float32[batch, 4]"},
                                       {"int64[3]", Dims({-1, 2, 2})}}),
            "float32[batch, 2, 2]");
}

TEST(ReshapeTest, ShapesOfUnknownContentLeaveTheRank) {
  EXPECT_EQ(InferredType({"Reshape"}, {{"float32[2, 3]"}, {"int64[3]"}}),
            "float32[?, ?, ?]");
  EXPECT_EQ(InferredType({"Reshape"}, {{"float32[2, 3]"}, {"int64[n]"}}),
            "float32[...]");
}

TEST(FlattenTest, AxisMayCountFromTheEnd) {
  const auto x = MakeTensor<float>({2, 1, 2}, {1, 2, 3, 4});
  const auto y = EvaluateOne({"Flatten", 13, {Attr("axis", -1)}}, {x});
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(y->shape(), ElementsAre(2, 2));
  EXPECT_EQ(InferredType({"Flatten"}, {{"float32[n, 3, 4]"}}),
            "float32[n, 12]");
}

TEST(SqueezeTest, SidesOfOneGo) {
  const auto x = MakeTensor<float>({1, 2, 1}, {1, 2});
  const auto all = EvaluateOne({"Squeeze"}, {x});
  const auto last = EvaluateOne({"Squeeze"}, {x, Longs({-1})});
  ASSERT_THAT(all, IsOk());
  ASSERT_THAT(last, IsOk());
  EXPECT_THAT(all->shape(), ElementsAre(2));
  EXPECT_THAT(last->shape(), ElementsAre(1, 2));
}

TEST(SqueezeTest, LongerSidesAreRefused) {
  EXPECT_THAT(EvaluateOne({"Squeeze"}, {Matrix(), Longs({0})}),
              FailsWith(kInvalid, HasSubstr("expected 1")));
}

TEST(UnsqueezeTest, AxesCountInTheOutput) {
  const auto y = EvaluateOne({"Unsqueeze"}, {Floats({1, 2}), Longs({0, -1})});
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(y->shape(), ElementsAre(1, 2, 1));
}

TEST(UnsqueezeTest, AnAxisMayNotComeTwice) {
  EXPECT_THAT(EvaluateOne({"Unsqueeze"}, {Floats({1}), Longs({0, -3})}),
              FailsWith(kInvalid, HasSubstr("twice")));
}

TEST(ShapeTest, StartAndEndAreClamped) {
  const auto x = MakeTensor<float>({2, 3, 1}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(ElementsOf<int64_t>({"Shape"}, {x}), ElementsAre(2, 3, 1));
  EXPECT_THAT(ElementsOf<int64_t>(
                  {"Shape", 15, {Attr("start", -2), Attr("end", 99)}}, {x}),
              ElementsAre(3, 1));
  EXPECT_THAT(ElementsOf<int64_t>(
                  {"Shape", 15, {Attr("start", 2), Attr("end", 1)}}, {x}),
              ElementsAre());
}

TEST(ShapeTest, ElementsKeepTheNamesOfSides) {
  EXPECT_EQ(KnownElements({"Shape"}, {{"float32[batch, 3]"}}), "[batch, 3]");
  EXPECT_EQ(KnownElements({"Size"}, {{"float32[2, 3]"}}), "[6]");
}

TEST(ShapeTest, ElementsAreFollowedThroughReshapes) {
  const Known known{"int64[1]", Shape{Dim::Named("n")}};
  EXPECT_EQ(KnownElements({"Unsqueeze"}, {{"int64[]", Shape{Dim::Named("n")}},
                                          {"int64[1]", Dims({0})}}),
            "[n]");
  EXPECT_EQ(KnownElements({"Squeeze"}, {known}), "[n]");
  EXPECT_EQ(KnownElements({"Identity"}, {known}), "[n]");
}

TEST(ExpandTest, BothShapesMayGrow) {
  const auto column = MakeTensor<float>({2, 1}, {1, 2});
  const auto y = EvaluateOne({"Expand"}, {column, Longs({2, 1, 3})});
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(y->shape(), ElementsAre(2, 2, 3));
  EXPECT_THAT(ValuesOf(*y), ElementsAre(1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2));
}

TEST(DropoutTest, InferencePassesThroughWithAMaskOfOnes) {
  const auto y = EvaluateAll({"Dropout", 13, {}, 2}, {Floats({1, 2})});
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(ValuesOf(y->outputs[0]), ElementsAre(1, 2));
  EXPECT_TRUE(y->outputs[1].dtype() == kBool);
  EXPECT_THAT(ValuesOf<uint8_t>(y->outputs[1]), ElementsAre(1, 1));
}

TEST(DropoutTest, TheMaskMayBeLeftOutInEveryVersion) {
  for (const int opset : {7, 10, 12, 13}) {
    const auto infos = InferOf({"Dropout", opset}, {{"float32[2]"}});
    ASSERT_THAT(infos, IsOk()) << "opset " << opset;
    EXPECT_EQ(infos->size(), 1) << "opset " << opset;
  }
}

TEST(DropoutTest, TrainingWithoutASeedIsRefused) {
  EXPECT_THAT(
      EvaluateOne({"Dropout", 6}, {Floats({1})}),
      FailsWith(absl::StatusCode::kUnimplemented, HasSubstr("training")));
}

}  // namespace
}  // namespace nodewise
