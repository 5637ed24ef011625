#include <cmath>
#include <limits>

#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;
using testing::Pointwise;

// An operator at a few places; the expected results are from mpmath.
struct AtPlaces {
  OpSetup operation;
  std::vector<float> x;
  std::vector<float> y;
};

TEST(ActivationTest, ValuesAreThoseOfTheFormulas) {
  const std::vector<AtPlaces> all = {
      {{"Relu"}, {-2, -0.5f, 3}, {0, 0, 3}},
      {{"LeakyRelu", 16, {Real("alpha", 0.5f)}}, {-2, 3}, {-1, 3}},
      {{"ThresholdedRelu"}, {0.5f, 1, 1.5f}, {0, 0, 1.5f}},
      {{"Elu"}, {-1, 2}, {-0.63212056f, 2}},
      {{"Selu"}, {-1, 2}, {-1.1113307f, 2.101402f}},
      {{"Celu", 12, {Real("alpha", 2.0f)}}, {-1, 2}, {-0.78693868f, 2}},
      {{"Sigmoid"}, {-100, 0, 1}, {3.7835059e-44f, 0.5f, 0.73105858f}},
      {{"HardSigmoid"}, {-3, 0, 1, 9}, {0, 0.5f, 0.7f, 1}},
      {{"HardSwish"}, {-4, 1, 4}, {0, 0.6666667f, 4}},
      {{"Gelu"}, {-5, 1}, {-1.4332579e-6f, 0.84134475f}},
      {{"Gelu", 20, {Word("approximate", "tanh")}},
       {-1, 1},
       {-0.15880801f, 0.84119199f}},
      {{"Swish", 24, {Real("alpha", 2.0f)}}, {1}, {0.88079708f}},
      {{"Softplus"}, {-100, 0, 100}, {3.783506e-44f, 0.69314718f, 100}},
      {{"Mish"}, {1}, {0.86509839f}},
      {{"Softsign"}, {-3, 1}, {-0.75f, 0.5f}},
      {{"Shrink", 9, {Real("bias", 1.0f), Real("lambd", 1.5f)}},
       {-2, -1, 1, 2},
       {-1, 0, 0, 1}},
  };
  for (const AtPlaces& at : all) {
    EXPECT_THAT(ElementsOf(at.operation, {Floats(at.x)}),
                Pointwise(FloatEq(), at.y))
        << at.operation.name;
  }
}

TEST(ElementaryTest, ValuesAreThoseOfTheFunctions) {
  const std::vector<AtPlaces> all = {
      {{"Abs"}, {-2, 3}, {2, 3}},
      {{"Neg"}, {-2, 3}, {2, -3}},
      {{"Sign"}, {-2, 0, 3}, {-1, 0, 1}},
      {{"Sqrt"}, {4}, {2}},
      {{"Reciprocal"}, {4, 0}, {0.25f, kInf}},
      {{"Exp"}, {1, -kInf}, {2.7182818f, 0}},
      {{"Log"}, {10, 0}, {2.3025851f, -kInf}},
      {{"Erf"}, {1}, {0.84270079f}},
      {{"Floor"}, {-1.5f, 1.5f}, {-2, 1}},
      {{"Ceil"}, {-1.5f, 1.5f}, {-1, 2}},
      {{"Round"}, {0.5f, 1.5f, 2.5f, -2.5f}, {0, 2, 2, -2}},
      {{"Tan"}, {1}, {1.5574077f}},
      {{"Asinh"}, {1}, {0.88137359f}},
      {{"Acosh"}, {10}, {2.9932228f}},
      {{"Atanh"}, {0.5f}, {0.54930614f}},
  };
  for (const AtPlaces& at : all) {
    EXPECT_THAT(ElementsOf(at.operation, {Floats(at.x)}),
                Pointwise(FloatEq(), at.y))
        << at.operation.name;
  }
}

TEST(ActivationTest, NanGetsThroughAndInfinitiesAreLimits) {
  for (const char* name :
       {"Relu", "LeakyRelu", "Elu", "Selu", "Celu", "Sigmoid", "HardSigmoid",
        "HardSwish", "Gelu", "Swish", "Softplus", "Mish", "Softsign"}) {
    const auto y = ElementsOf({name}, {Floats({kNan, -kInf, kInf})});
    ASSERT_EQ(y.size(), 3u);
    EXPECT_TRUE(std::isnan(y[0])) << name;
    EXPECT_FALSE(std::isnan(y[1])) << name;
    EXPECT_FALSE(std::isnan(y[2])) << name;
  }
}

// The text has 0 for what is not above alpha, and for what is "otherwise".
TEST(ActivationTest, NanIsZeroWhereTheTextSaysSo) {
  for (const char* name : {"ThresholdedRelu", "Shrink"}) {
    EXPECT_THAT(ElementsOf({name}, {Floats({kNan})}), ElementsAre(0)) << name;
  }
}

TEST(ActivationTest, SwiGLUMultipliesByTheSwishOfItsGate) {
  const NDArray a = Floats({1, -1, 0, -kInf});
  const NDArray b = Floats({2, 3, 4, 5});
  const auto y = EvaluateAll({"SwiGLU", 28, {Real("alpha", 2)}}, {a, b}, true);
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(ValuesOf(y->outputs[0]),
              Pointwise(FloatEq(), Numbers{1.7615942F, -0.35760877F, 0, 0}));
  EXPECT_GT(y->bounds[0].proved[0], 1e-8);
  EXPECT_LT(y->bounds[0].proved[0], 1e-4);
  EXPECT_FALSE(EvaluateOne({"SwiGLU"}, {a, Floats({1})}).ok());
}

TEST(ActivationTest, IntegersAreTakenWhereTheStandardHasThem) {
  const auto x = MakeTensor<int8_t>({2}, {-128, 5});
  EXPECT_THAT(ElementsOf<int8_t>({"Relu"}, {x}), ElementsAre(0, 5));
  EXPECT_THAT(ElementsOf<int8_t>({"Abs"}, {x}), ElementsAre(-128, 5));
  EXPECT_THAT(EvaluateOne({"Elu"}, {x}),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("input 0: is of type int8")));
}

TEST(ActivationTest, WordThatIsNoneIsRefused) {
  const OpSetup gelu{"Gelu", 20, {Word("approximate", "sometimes")}};
  EXPECT_THAT(
      EvaluateOne(gelu, {Floats({1})}),
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("sometimes")));
}

TEST(ActivationTest, BoundsCountWhatCancels) {
  // 1 + erf(x / sqrt(2)) in float32 is off by some 1e-7 near x = -5, and is
  // multiplied by x.
  const auto evaluated = EvaluateAll({"Gelu"}, {Floats({-5})}, true);
  ASSERT_THAT(evaluated, IsOk());
  const double naive = 0.5f * -5 * (1 + std::erf(-5 / std::sqrt(2.0f)));
  const double error = std::fabs(naive - ValuesOf(evaluated->outputs[0])[0]);
  EXPECT_LE(error, evaluated->bounds[0].expected[0]);
  EXPECT_LT(evaluated->bounds[0].expected[0], 1e-5);
}

}  // namespace
}  // namespace nodewise
