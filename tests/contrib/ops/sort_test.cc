#include <limits>

#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

NDArray Bools(const std::vector<uint8_t>& values) {
  return MakeTensor<uint8_t>({static_cast<int64_t>(values.size())}, values,
                             kBool);
}

TEST(TopKTest, TheFirstOfEqualOnesComesFirst) {
  const auto y =
      EvaluateAll({"TopK", 11, {}, 2}, {Floats({1, 3, 3, 2}), Longs({3})});
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(ValuesOf(y->outputs[0]), ElementsAre(3, 3, 2));
  EXPECT_THAT(ValuesOf<int64_t>(y->outputs[1]), ElementsAre(1, 2, 3));
}

TEST(TopKTest, TheSmallestAlongAnotherAxis) {
  const auto x = MakeTensor<int64_t>({2, 2}, {4, 1, 2, 3});
  const auto y = EvaluateAll(
      {"TopK", 11, {Attr("axis", 0), Attr("largest", 0)}, 2}, {x, Longs({1})});
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(ValuesOf<int64_t>(y->outputs[0]), ElementsAre(2, 1));
  EXPECT_THAT(ValuesOf<int64_t>(y->outputs[1]), ElementsAre(1, 0));
}

// Before opset 10 k was an attribute; the input is a list, so that networks of
// both opsets run alike.
TEST(TopKTest, TheAttributeOfOldOpsetsIsAListOfOneNumber) {
  const OperatorDef* const def = AllOperators().Find("", "TopK", 9);
  ASSERT_EQ(def->moved.size(), 1);
  EXPECT_EQ(def->moved[0].attribute, "k");
  EXPECT_TRUE(def->moved[0].is_list);
}

TEST(TopKTest, NanIsAboveAllNumbers) {
  const auto y =
      EvaluateAll({"TopK", 11, {}, 2}, {Floats({1, kNan, 5}), Longs({2})});
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(ValuesOf<int64_t>(y->outputs[1]), ElementsAre(1, 2));
}

TEST(TopKTest, MoreThanThereAreIsRefused) {
  EXPECT_THAT(EvaluateAll({"TopK", 11, {}, 2}, {Floats({1}), Longs({2})}),
              FailsWith(kInvalid, HasSubstr("is 2 for a side of [1]")));
  EXPECT_FALSE(
      EvaluateAll({"TopK", 11, {}, 2}, {Floats({1}), Longs({-1})}).ok());
}

TEST(UniqueTest, GroupsAreSortedOrAsTheyCome) {
  const NDArray x = Floats({2, 1, 1, 3, 4, 3});
  const auto sorted = EvaluateAll({"Unique", 11, {}, 4}, {x});
  ASSERT_THAT(sorted, IsOk());
  EXPECT_THAT(ValuesOf(sorted->outputs[0]), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(ValuesOf<int64_t>(sorted->outputs[2]),
              ElementsAre(1, 0, 0, 2, 3, 2));
  const auto first = EvaluateAll({"Unique", 11, {Attr("sorted", 0)}, 4}, {x});
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT(ValuesOf(first->outputs[0]), ElementsAre(2, 1, 3, 4));
  EXPECT_THAT(ValuesOf<int64_t>(first->outputs[1]), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(ValuesOf<int64_t>(first->outputs[3]), ElementsAre(1, 2, 2, 1));
}

TEST(UniqueTest, SlicesAlongAnAxisAreCompared) {
  const auto x = MakeTensor<float>({3, 3}, {1, 0, 0, 1, 0, 0, 2, 3, 4});
  EXPECT_THAT(ElementsOf({"Unique", 11, {Attr("axis", 0)}}, {x}),
              ElementsAre(1, 0, 0, 2, 3, 4));
}

TEST(NonZeroTest, PlacesAreColumns) {
  const auto x = MakeTensor<float>({2, 2}, {1, 0, 2, 3});
  const auto y = EvaluateOne({"NonZero", 13}, {x});
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(y->shape(), ElementsAre(2, 3));
  EXPECT_THAT(ValuesOf<int64_t>(*y), ElementsAre(0, 1, 1, 0, 0, 1));
}

TEST(CompressTest, WithoutAnAxisTheTensorIsFlat) {
  const auto x = MakeTensor<float>({2, 2}, {1, 2, 3, 4});
  EXPECT_THAT(ElementsOf({"Compress", 11}, {x, Bools({0, 1, 0, 1})}),
              ElementsAre(2, 4));
  EXPECT_THAT(
      ElementsOf({"Compress", 11, {Attr("axis", 1)}}, {x, Bools({0, 1})}),
      ElementsAre(2, 4));
  EXPECT_FALSE(
      EvaluateOne({"Compress", 11, {Attr("axis", 1)}}, {x, Bools({0, 0, 1})})
          .ok());
}

TEST(CompressTest, AConstantConditionSaysHowManyStay) {
  const NDArray condition = Bools({1, 0, 1, 0});
  std::vector<InputInfo> infos(2);
  infos[0] = {.is_given = true, .type = TensorType(kFloat32, {4, 3})};
  infos[1] = {
      .is_given = true, .type = TensorType(kBool, {4}), .constant = &condition};
  for (const auto& [attributes, expected] :
       std::vector<std::pair<std::vector<NamedAttr>, const char*>>{
           {{}, "float32[2]"}, {{Attr("axis", 0)}, "float32[2, 3]"}}) {
    const OpAttrs attrs = *OpSetup{"Compress", 11, attributes}.Make();
    const auto made = attrs.def().infer(attrs.get(), Inputs(infos), 1);
    ASSERT_THAT(made, IsOk());
    EXPECT_EQ(ToString((*made)[0].type), expected);
  }
}

NDArray TwoBoxes() {
  return MakeTensor<float>({1, 3, 4},
                           {0, 0, 1, 1, 0, 0.1F, 1, 1.1F, 0, 10, 1, 11});
}

TEST(NonMaxSuppressionTest, BoxesUnderBetterOnesGo) {
  const auto scores = MakeTensor<float>({1, 1, 3}, {0.7F, 0.9F, 0.8F});
  EXPECT_THAT(
      ElementsOf<int64_t>({"NonMaxSuppression", 11},
                          {TwoBoxes(), scores, Longs({3}), Floats({0.5F})}),
      ElementsAre(0, 0, 1, 0, 0, 2));
  EXPECT_THAT(ElementsOf<int64_t>({"NonMaxSuppression", 11},
                                  {TwoBoxes(), scores, Longs({3}),
                                   Floats({0.95F}), Floats({0.75F})}),
              ElementsAre(0, 0, 1, 0, 0, 2));
}

TEST(NonMaxSuppressionTest, AScoreMustBeAboveTheThreshold) {
  const auto scores = MakeTensor<float>({1, 1, 3}, {0.5F, 0.9F, 0.75F});
  EXPECT_THAT(ElementsOf<int64_t>({"NonMaxSuppression", 11},
                                  {TwoBoxes(), scores, Longs({3}),
                                   Floats({0.95F}), Floats({0.75F})}),
              ElementsAre(0, 0, 1));
}

TEST(NonMaxSuppressionTest, NothingIsAskedForByDefault) {
  const auto scores = MakeTensor<float>({1, 1, 3}, {kNan, 0.9F, 0.8F});
  EXPECT_THAT(
      ElementsOf<int64_t>({"NonMaxSuppression", 11}, {TwoBoxes(), scores}),
      IsEmpty());
}

}  // namespace
}  // namespace nodewise
