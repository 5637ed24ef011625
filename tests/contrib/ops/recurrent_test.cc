#include <cmath>

#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Strings = std::vector<std::string>;

// One element in each step, one hidden element: h = f(x + h).
OpSetup SumOf(std::vector<NamedAttr> attrs, Strings functions = {"Affine"}) {
  attrs.push_back({"activations", std::move(functions)});
  return {"RNN", 14, std::move(attrs), 2};
}
std::vector<NDArray> StepsOf(const std::vector<float>& x, int64_t directions) {
  const std::vector<float> ones(static_cast<size_t>(directions), 1);
  return {MakeTensor<float>({static_cast<int64_t>(x.size()), 1, 1}, x),
          MakeTensor<float>({directions, 1, 1}, ones),
          MakeTensor<float>({directions, 1, 1}, ones)};
}

TEST(RnnTest, DirectionsRunTheirWay) {
  EXPECT_THAT(ElementsOf(SumOf({}), StepsOf({1, 2, 3}, 1)),
              ElementsAre(1, 3, 6));
  EXPECT_THAT(ElementsOf(SumOf({{"direction", std::string("reverse")}}),
                         StepsOf({1, 2, 3}, 1)),
              ElementsAre(6, 5, 3));
  EXPECT_THAT(ElementsOf(SumOf({{"direction", std::string("bidirectional")}},
                               {"Affine", "Affine"}),
                         StepsOf({1, 2, 3}, 2)),
              ElementsAre(1, 6, 3, 5, 6, 3));
}

TEST(RnnTest, ShorterSequencesEndEarlier) {
  std::vector<NDArray> inputs = StepsOf({1, 2, 3}, 1);
  inputs.push_back(NDArray());
  inputs.push_back(MakeTensor<int32_t>({1}, {2}));
  const auto both =
      EvaluateAll(SumOf({{"direction", std::string("reverse")}}), inputs);
  ASSERT_THAT(both, IsOk());
  EXPECT_THAT(ValuesOf(both->outputs[0]), ElementsAre(3, 2, 0));
  EXPECT_THAT(ValuesOf(both->outputs[1]), ElementsAre(3));
}

TEST(RnnTest, ParametersGoToThoseThatTakeThem) {
  EXPECT_THAT(ElementsOf(SumOf({{"activation_alpha", std::vector<float>{2}},
                                {"activation_beta", std::vector<float>{1}},
                                {"clip", 2.0f}}),
                         StepsOf({1, 2}, 1)),
              ElementsAre(3, 5));
}

TEST(LstmTest, GatesAndPeepholesFollowTheStandard) {
  const float x = 0.5f, h = 0.25f, c = -0.5f;
  const std::vector<float> w = {1, 2, 3, 4}, r = {4, 3, 2, 1};
  const auto all = EvaluateAll(
      {"LSTM", 7, {}, 3},
      {MakeTensor<float>({1, 1, 1}, {x}), MakeTensor<float>({1, 4, 1}, w),
       MakeTensor<float>({1, 4, 1}, r), NDArray(), NDArray(),
       MakeTensor<float>({1, 1, 1}, {h}), MakeTensor<float>({1, 1, 1}, {c}),
       MakeTensor<float>({1, 3}, {1, 2, 3})});
  ASSERT_THAT(all, IsOk());
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  const double i = sigmoid(x * 1 + h * 4 + 1 * c);
  const double f = sigmoid(x * 3 + h * 2 + 3 * c);
  const double cell = f * c + i * std::tanh(x * 4 + h * 1);
  const double o = sigmoid(x * 2 + h * 3 + 2 * cell);
  EXPECT_FLOAT_EQ(ValuesOf(all->outputs[2])[0], static_cast<float>(cell));
  EXPECT_FLOAT_EQ(ValuesOf(all->outputs[1])[0],
                  static_cast<float>(o * std::tanh(cell)));
}

// One cell of onnxruntime's, for two sequences of one step each whose states
// are given. All weights stand for 1, and c becomes h of the standard.
std::vector<NDArray> RoundedCell(const std::vector<float>& h) {
  const std::vector<int8_t> weights = {4, 4, 4, 4};
  const NDArray scale = MakeTensor<float>({1}, {0.5F});
  const NDArray zero = MakeTensor<int8_t>({1}, {2});
  return {MakeTensor<float>({1, 2, 1}, {0, 0}),
          MakeTensor<int8_t>({1, 1, 4}, weights),
          MakeTensor<int8_t>({1, 1, 4}, weights),
          NDArray(),
          NDArray(),
          MakeTensor<float>({1, 2, 1}, h),
          NDArray(),
          NDArray(),
          scale,
          zero,
          scale,
          zero};
}
OpSetup RoundedLstm() {
  return {"DynamicQuantizeLSTM",
          1,
          {{"activations", Strings{"Affine", "Affine", "Affine"}}},
          3,
          "com.microsoft"};
}

TEST(DynamicQuantizeLstmTest, StatesOfAllSequencesAreRoundedTogether) {
  // Steps of 1: 100.3 becomes 100 beside 255, and stays alone.
  const auto both = EvaluateAll(RoundedLstm(), RoundedCell({255, 100.3F}));
  ASSERT_THAT(both, IsOk());
  EXPECT_THAT(ValuesOf(both->outputs[2]),
              ElementsAre(255.0F * 255, 100.0F * 100));
  const auto other = EvaluateAll(RoundedLstm(), RoundedCell({0, 100.3F}));
  ASSERT_THAT(other, IsOk());
  EXPECT_NEAR(ValuesOf(other->outputs[2])[1], 100.3F * 100.3F, 1e-2);
}

TEST(DynamicQuantizeLstmTest, BoundsAllowPartsThatAreRoundedByThemselves) {
  const auto both =
      EvaluateAll(RoundedLstm(), RoundedCell({255, 100.3F}), true);
  ASSERT_THAT(both, IsOk());
  const double alone = 100.3 * 100.3;
  EXPECT_GT(both->bounds[2].expected[1], alone - 100.0 * 100);
  EXPECT_LE(both->bounds[2].expected[1], both->bounds[2].proved[1]);
  EXPECT_LT(both->bounds[2].proved[1], 0.1 * alone);
}

TEST(GruTest, ResetComesBeforeOrBehindTheProduct) {
  const auto with = [](int64_t linear) {
    return ElementsOf({"GRU", 14, {{"linear_before_reset", linear}}},
                      {MakeTensor<float>({1, 1, 1}, {1}),
                       MakeTensor<float>({1, 3, 1}, {0, 0, 0}),
                       MakeTensor<float>({1, 3, 1}, {0, 0, 1}),
                       MakeTensor<float>({1, 6}, {0, 0, 0, 0, 0, 1}), NDArray(),
                       MakeTensor<float>({1, 1, 1}, {1})})[0];
  };
  EXPECT_FLOAT_EQ(with(0), static_cast<float>(0.5 * std::tanh(1.5) + 0.5));
  EXPECT_FLOAT_EQ(with(1), static_cast<float>(0.5 * std::tanh(1.0) + 0.5));
}

TEST(RecurrentTest, UnknownSidesStayUnknown) {
  EXPECT_EQ(InferredType({"LSTM", 14, {{"hidden_size", int64_t{5}}}},
                         {{"float32[steps, n, 3]"},
                          {"float32[1, 20, 3]"},
                          {"float32[1, 20, 5]"}}),
            "float32[steps, 1, n, 5]");
}

TEST(RecurrentTest, WrongShapesAndNamesAreRefused) {
  EXPECT_THAT(InferOf({"GRU", 14}, {{"float32[4, 2, 3]"},
                                    {"float32[1, 15, 3]"},
                                    {"float32[1, 12, 4]"}}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("input 1: is of shape")));
  EXPECT_THAT(
      EvaluateOne(SumOf({}, {"Sine"}), StepsOf({1}, 1)),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("has \"Sine\"")));
}

TEST(DynamicQuantizeLstmTest, ScalesOfOtherShapesAreRefused) {
  std::vector<NDArray> inputs = RoundedCell({0, 0});
  inputs[10] = MakeTensor<float>({1, 3}, {1, 1, 1});
  EXPECT_THAT(
      EvaluateAll(RoundedLstm(), inputs),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("input 10")));
}

TEST(RecurrentTest, LengthsBeyondTheEndAreRefused) {
  std::vector<NDArray> inputs = StepsOf({1, 2}, 1);
  inputs.push_back(NDArray());
  inputs.push_back(MakeTensor<int32_t>({1}, {3}));
  EXPECT_THAT(EvaluateOne(SumOf({}), inputs),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("has 3, expected 0 to 2")));
}

}  // namespace
}  // namespace nodewise
