#include <cmath>
#include <limits>

#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::FloatEq;
using testing::FloatNear;
using testing::HasSubstr;
using testing::IsNan;
using testing::Pointwise;

TEST(SoftmaxTest, Opset13NormalizesOneSide) {
  const auto x = MakeTensor<float>({1, 2, 2}, {0, 0, std::log(3.0f), 0});
  EXPECT_THAT(
      ElementsOf({"Softmax", 13, {Attr("axis", 1)}}, {x}),
      Pointwise(FloatEq(), std::vector<float>{0.25f, 0.5f, 0.75f, 0.5f}));
}

TEST(SoftmaxTest, BelowOpset13AllSidesFromTheAxisOnAreOne) {
  const auto x = MakeTensor<float>({1, 2, 2}, {0, 0, std::log(2.0f), 0});
  EXPECT_THAT(ElementsOf({"Softmax", 11}, {x}),
              Pointwise(FloatEq(), std::vector<float>{0.2f, 0.2f, 0.4f, 0.2f}));
  EXPECT_THAT(ElementsOf({"Hardmax", 11}, {x}), ElementsAre(0, 0, 1, 0));
}

TEST(SoftmaxTest, LargeNumbersDoNotOverflow) {
  EXPECT_THAT(ElementsOf({"LogSoftmax"}, {Floats({10000, 0})}),
              ElementsAre(0, -10000));
}

TEST(SoftmaxTest, NanMakesTheWholeDistributionNan) {
  // Side by side, and each in a column of its own.
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{1, 11}, std::vector<int64_t>{11, 1}}) {
    const NamedAttr axis = Attr("axis", shape[0] == 1 ? 1 : 0);
    for (size_t place = 0; place < 11; ++place) {
      std::vector<float> numbers(11, 2);
      numbers[5] = -std::numeric_limits<float>::infinity();
      numbers[place] = kNan;
      const auto x = MakeTensor<float>(shape, numbers);
      for (const char* op : {"Softmax", "LogSoftmax"}) {
        EXPECT_THAT(ElementsOf({op, 13, {axis}}, {x}), Each(IsNan()))
            << op << place;
      }
      std::vector<float> first(11, 0);
      first[place] = 1;
      EXPECT_EQ(ElementsOf({"Hardmax", 13, {axis}}, {x}), first) << place;
    }
  }
}

TEST(SoftmaxTest, HardmaxTakesTheFirstOfEquals) {
  EXPECT_THAT(ElementsOf({"Hardmax"}, {Floats({1, 3, 3, 2})}),
              ElementsAre(0, 1, 0, 0));
}

// OV-13.
TEST(SoftmaxTest, AxisBeyondTheRankIsRefused) {
  EXPECT_THAT(
      EvaluateOne({"Softmax", 13, {Attr("axis", 1)}}, {Floats({1})}),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("axis 1")));
}

std::vector<NDArray> BatchNormInputs() {
  return {MakeTensor<float>({1, 2, 2}, {1, 2, 3, 4}), Floats({2, 10}),
          Floats({0, 1}), Floats({1, 2}), Floats({4, 0.25f})};
}

TEST(BatchNormTest, EveryOpsetUsesTheStatisticsThatAreGiven) {
  for (const int opset : {6, 7, 9, 13, 14, 15}) {
    OpSetup norm{"BatchNormalization", opset, {Real("epsilon", 0)}};
    if (opset == 6) norm.attrs.push_back(Attr("is_test", 1));
    EXPECT_THAT(ElementsOf(norm, BatchNormInputs()), ElementsAre(0, 1, 21, 41))
        << opset;
  }
}

TEST(BatchNormTest, WithoutSpatialEachElementHasItsOwnStatistics) {
  const auto x = MakeTensor<float>({1, 2, 1}, {3, 5});
  const auto list = [](float a, float b) {
    return MakeTensor<float>({2, 1}, {a, b});
  };
  const OpSetup norm{
      "BatchNormalization", 7, {Real("epsilon", 0), Attr("spatial", 0)}};
  EXPECT_THAT(
      ElementsOf(norm, {x, list(1, 2), list(0, 1), list(1, 1), list(4, 16)}),
      ElementsAre(1, 3));
}

// Two items of two channels with two places.
OpSetup Training() {
  return {
      "BatchNormalization",
      15,
      {Real("epsilon", 0), Real("momentum", 0.75f), Attr("training_mode", 1)},
      3};
}
std::vector<NDArray> TrainingInputs() {
  return {MakeTensor<float>({2, 2, 2}, {1, 3, 10, 10, 1, 3, 30, 30}),
          Floats({2, 10}), Floats({0, 1}), Floats({4, 0}), Floats({1, 4})};
}

TEST(BatchNormTest, TrainingUsesTheBatchAndMovesTheStatistics) {
  const auto all = EvaluateAll(Training(), TrainingInputs());
  ASSERT_THAT(all, IsOk());
  EXPECT_THAT(ValuesOf(all->outputs[0]),
              ElementsAre(-2, 2, -9, -9, -2, 2, 11, 11));
  // The means are 2 and 20, the variances 1 and 100.
  EXPECT_THAT(ValuesOf(all->outputs[1]), ElementsAre(3.5f, 5));
  EXPECT_THAT(ValuesOf(all->outputs[2]), ElementsAre(1, 28));
}

TEST(BatchNormTest, StatisticsKeepTheirOwnType) {
  const auto infos = InferOf(Training(), {{"float16[n, ?, 5]"},
                                          {"float16[?]"},
                                          {"float16[?]"},
                                          {"float32[?]"},
                                          {"float32[?]"}});
  ASSERT_THAT(infos, IsOk());
  EXPECT_EQ(ToString((*infos)[0].type), "float16[n, ?, 5]");
  EXPECT_EQ(ToString((*infos)[2].type), "float32[?]");
}

TEST(BatchNormTest, BoundsOfTrainingGrowWithWhatIsSummed) {
  const auto all = EvaluateAll(Training(), TrainingInputs(), true);
  ASSERT_THAT(all, IsOk());
  for (const Bounds& bounds : all->bounds) {
    for (size_t i = 0; i < bounds.proved.size(); ++i) {
      EXPECT_GT(bounds.expected[i], 0);
      EXPECT_LE(bounds.expected[i], 2 * bounds.proved[i]);
      EXPECT_LT(bounds.proved[i], 1e-3);
    }
  }
}

TEST(BatchNormTest, MoreOutputsMeanTrainingOnly) {
  OpSetup infers = Training();
  infers.attrs.pop_back();
  EXPECT_THAT(EvaluateAll(infers, TrainingInputs()),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("has 3 outputs, expected 1")));
}

TEST(BatchNormTest, TrainingOfOldOpsetsIsRefused) {
  EXPECT_THAT(
      EvaluateOne({"BatchNormalization", 6}, BatchNormInputs()),
      FailsWith(absl::StatusCode::kUnimplemented,
                HasSubstr("attribute is_test: is 0, which means training")));
  for (const int opset : {7, 9, 13}) {
    EXPECT_THAT(
        EvaluateAll({"BatchNormalization", opset, {}, 5}, BatchNormInputs()),
        FailsWith(absl::StatusCode::kUnimplemented,
                  HasSubstr("has 5 outputs, which means training")));
  }
}

TEST(BatchNormTest, ListOfAnotherLengthIsRefused) {
  auto inputs = BatchNormInputs();
  inputs[4] = Floats({1});
  EXPECT_THAT(EvaluateOne({"BatchNormalization"}, inputs),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("input 4: has 1 numbers, expected 2")));
}

TEST(LayerNormTest, RowsGetMeanAndDeviation) {
  const auto x = MakeTensor<float>({2, 2}, {1, 3, 10, 20});
  OpSetup norm{"LayerNormalization", 17, {Real("epsilon", 0)}, 3};
  const auto all = EvaluateAll(norm, {x, Floats({1, 2}), Floats({0, 0.5f})});
  ASSERT_THAT(all, IsOk());
  EXPECT_THAT(ValuesOf(all->outputs[0]), ElementsAre(-1, 2.5f, -1, 2.5f));
  EXPECT_THAT(ValuesOf(all->outputs[1]), ElementsAre(2, 15));
  EXPECT_THAT(ValuesOf(all->outputs[2]), ElementsAre(1, 0.2f));
}

TEST(LayerNormTest, ScaleMayDependOnTheRow) {
  const auto x = MakeTensor<float>({2, 2}, {1, 3, 10, 20});
  const auto scale = MakeTensor<float>({2, 1}, {1, 10});
  EXPECT_THAT(
      ElementsOf({"LayerNormalization", 17, {Real("epsilon", 0)}}, {x, scale}),
      ElementsAre(-1, 1, -10, 10));
}

TEST(LayerNormTest, ScaleThatIsLargerIsRefused) {
  EXPECT_THAT(
      EvaluateOne({"LayerNormalization"},
                  {Floats({1, 2}), MakeTensor<float>({2, 2}, {1, 1, 1, 1})}),
      FailsWith(absl::StatusCode::kInvalidArgument,
                HasSubstr("input 1: has shape [2, 2]")));
}

TEST(RmsNormTest, MeanIsLeftAsItIs) {
  EXPECT_THAT(ElementsOf({"RMSNormalization", 23, {Real("epsilon", 0)}},
                         {Floats({1, 7}), Floats({10, 5})}),
              ElementsAre(FloatEq(2), FloatEq(7)));
}

TEST(InstanceNormTest, ChannelsAreNormalizedApart) {
  const auto x = MakeTensor<float>({1, 2, 2}, {1, 3, 10, 20});
  EXPECT_THAT(ElementsOf({"InstanceNormalization", 6, {Real("epsilon", 0)}},
                         {x, Floats({1, 2}), Floats({0, 1})}),
              ElementsAre(-1, 1, -1, 3));
}

TEST(GroupNormTest, ScaleIsByGroupBelowOpset21) {
  const auto x = MakeTensor<float>({1, 4, 1}, {1, 3, 10, 20});
  const std::vector<NamedAttr> attrs = {Attr("num_groups", 2),
                                        Real("epsilon", 0)};
  EXPECT_THAT(ElementsOf({"GroupNormalization", 18, attrs},
                         {x, Floats({1, 2}), Floats({0, 0})}),
              ElementsAre(-1, 1, -2, 2));
  EXPECT_THAT(ElementsOf({"GroupNormalization", 21, attrs},
                         {x, Floats({1, 2, 3, 4}), Floats({0, 0, 0, 1})}),
              ElementsAre(-1, 2, -3, 5));
}

TEST(GroupNormTest, GroupsThatDoNotFitAreRefused) {
  const auto x = MakeTensor<float>({1, 3, 1}, {1, 2, 3});
  for (const int64_t groups : {int64_t{0}, int64_t{2}, INT64_MIN}) {
    const OpSetup norm{"GroupNormalization", 21, {Attr("num_groups", groups)}};
    EXPECT_THAT(
        EvaluateOne(norm, {x, Floats({1, 1, 1}), Floats({1, 1, 1})}),
        FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("groups")));
  }
}

TEST(LrnTest, NeighboursAreChannels) {
  // Two instances and three channels, so that mixing them up is noticed.
  const auto x = MakeTensor<float>({2, 3, 1}, {1, 2, 3, 4, 5, 6});
  const OpSetup lrn{
      "LRN",
      13,
      {Attr("size", 2), Real("alpha", 2), Real("beta", 1), Real("bias", 1)}};
  // In a window of 2, the second channel is the next one.
  EXPECT_THAT(ElementsOf(lrn, {x}),
              Pointwise(FloatEq(),
                        std::vector<float>{1 / 6.0f, 2 / 14.0f, 3 / 10.0f,
                                           4 / 42.0f, 5 / 62.0f, 6 / 37.0f}));
}

TEST(LrnTest, HugeWindowIsAllChannels) {
  const auto x = MakeTensor<float>({1, 2, 1}, {1, 2});
  const OpSetup lrn{"LRN", 13, {Attr("size", INT64_MAX)}};
  EXPECT_THAT(ElementsOf(lrn, {x}), ElementsAre(1, 2));
  EXPECT_THAT(EvaluateOne({"LRN", 13, {Attr("size", 0)}}, {x}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("attribute size")));
}

TEST(LpNormTest, ZerosStayZeros) {
  const auto x = MakeTensor<float>({2, 2}, {3, 4, 0, 0});
  EXPECT_THAT(ElementsOf({"LpNormalization"}, {x}),
              ElementsAre(FloatEq(0.6f), FloatEq(0.8f), 0, 0));
  EXPECT_THAT(
      EvaluateOne({"LpNormalization", 22, {Attr("p", 3)}}, {x}),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("attribute p")));
}

TEST(MeanVarianceNormTest, ChannelsAreNormalizedOverTheBatch) {
  const auto x = MakeTensor<float>({2, 2, 1, 1}, {1, 10, 3, 20});
  EXPECT_THAT(ElementsOf({"MeanVarianceNormalization"}, {x}),
              Pointwise(FloatNear(1e-6f), std::vector<float>{-1, -1, 1, 1}));
}

}  // namespace
}  // namespace nodewise
