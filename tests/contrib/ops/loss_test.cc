#include <cmath>

#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;

// [2, 3, 2] and labels [2, 2].
NDArray Scores() {
  return MakeTensor<float>({2, 3, 2}, {1, 2, 2, 2, 3, 2, 0, 1, 2, 2, 1, 2});
}
NDArray Labels() { return MakeTensor<int64_t>({2, 2}, {2, 1, 0, 2}); }

TEST(NegativeLogLikelihoodTest, EachReductionHasItsShape) {
  constexpr const char* kName = "NegativeLogLikelihoodLoss";
  const auto none = EvaluateOne({kName, 13, {Word("reduction", "none")}},
                                {Scores(), Labels()});
  ASSERT_THAT(none, IsOk());
  EXPECT_THAT(none->shape(), ElementsAre(2, 2));
  EXPECT_THAT(ValuesOf(*none), ElementsAre(-3, -2, 0, -2));
  const auto weights = Floats({0.2f, 0.3f, 0.1f});
  EXPECT_THAT(ElementsOf({kName, 13, {Word("reduction", "sum")}},
                         {Scores(), Labels(), weights}),
              ElementsAre(FloatEq(-1.1f)));
  EXPECT_THAT(ElementsOf({kName}, {Scores(), Labels(), weights}),
              ElementsAre(FloatEq(-1.1f / 0.7f)));
}

TEST(NegativeLogLikelihoodTest, IgnoredLabelCountsForNothing) {
  const OpSetup loss{
      "NegativeLogLikelihoodLoss", 13, {{"ignore_index", int64_t{-7}}}};
  const auto labels = MakeTensor<int64_t>({2, 2}, {2, 1, -7, -7});
  EXPECT_THAT(ElementsOf(loss, {Scores(), labels}), ElementsAre(-2.5f));
}

TEST(NegativeLogLikelihoodTest, LabelThatIsNoneIsNamed) {
  const auto labels = MakeTensor<int64_t>({2, 2}, {2, 3, 0, 0});
  EXPECT_THAT(EvaluateOne({"NegativeLogLikelihoodLoss"}, {Scores(), labels}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("label 1 is 3, expected 0 to 2")));
}

TEST(SoftmaxCrossEntropyTest, LogarithmsAreASecondOutput) {
  const auto scores = MakeTensor<float>({1, 2}, {0, std::log(3.0f)});
  const auto labels = MakeTensor<int64_t>({1}, {0});
  const auto all =
      EvaluateAll({"SoftmaxCrossEntropyLoss", 13, {}, 2}, {scores, labels});
  ASSERT_THAT(all, IsOk());
  EXPECT_THAT(ValuesOf(all->outputs[0]), ElementsAre(FloatEq(std::log(4.0f))));
  EXPECT_THAT(ValuesOf(all->outputs[1]),
              ElementsAre(FloatEq(-std::log(4.0f)), FloatEq(std::log(0.75f))));
}

TEST(SoftmaxCrossEntropyTest, LabelsOfAnotherShapeAreRefused) {
  EXPECT_THAT(
      EvaluateOne({"SoftmaxCrossEntropyLoss"},
                  {Scores(), MakeTensor<int64_t>({2}, {0, 0})}),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("input 1")));
}

TEST(SoftmaxCrossEntropyTest, InferenceFollowsTheLabels) {
  const OpSetup loss{
      "SoftmaxCrossEntropyLoss", 13, {Word("reduction", "none")}};
  EXPECT_EQ(InferredType(loss, {{"float32[...]"}, {"int64[n, 2]"}}),
            "float32[n, 2]");
  EXPECT_EQ(InferredType(loss, {{"float32[n, 3, 2]"}, {"int64[...]"}}),
            "float32[n, 2]");
}

}  // namespace
}  // namespace nodewise
