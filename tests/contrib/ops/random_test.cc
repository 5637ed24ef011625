#include "nodewise/ops/random.h"

#include <cmath>
#include <numeric>

#include "contrib/ops/util/random_numbers.h"
#include "nodewise/op/op_def.h"
#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kMany = 1 << 18;

OpSetup RandomSetup(const char* name, float seed,
                    std::vector<NamedAttr> more = {}) {
  more.push_back(Real("seed", seed));
  return {name, kNewestOpset, std::move(more)};
}
NamedAttr ShapeOfMany() { return {"shape", Ints{kMany}}; }

struct Moments {
  double mean = 0;
  double deviation = 0;
};
Moments MomentsOf(const std::vector<float>& values) {
  Moments moments;
  double sum = 0;
  double squares = 0;
  for (const float x : values) {
    sum += double{x};
    squares += double{x} * double{x};
  }
  const auto count = static_cast<double>(values.size());
  moments.mean = sum / count;
  moments.deviation = std::sqrt(squares / count - moments.mean * moments.mean);
  return moments;
}

// Returns the largest distance between the shares of numbers below x and
// `share(x)` (Kolmogorov and Smirnov).
template <typename F>
double FarthestShare(std::vector<float> values, F share) {
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  double farthest = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double here = static_cast<double>(i) / count;
    farthest = std::max(farthest, std::fabs(share(values[i]) - here));
  }
  return farthest;
}
// Exceeded by chance once in 10^9 times.
const double kFarthest = 3.3 / std::sqrt(static_cast<double>(kMany));

TEST(RandomTest, UniformNumbersAreUniform) {
  const auto values =
      ElementsOf(RandomSetup("RandomUniform", 3,
                             {Real("low", -2), Real("high", 6), ShapeOfMany()}),
                 {});
  EXPECT_THAT(values, Each(testing::AllOf(testing::Ge(-2), testing::Le(6))));
  EXPECT_LT(FarthestShare(values, [](double x) { return (x + 2) / 8; }),
            kFarthest);
}

TEST(RandomTest, NormalNumbersAreNormal) {
  const auto values = ElementsOf(
      RandomSetup("RandomNormal", 3,
                  {Real("mean", 10), Real("scale", 2), ShapeOfMany()}),
      {});
  const auto share = [](double x) {
    return std::erfc(-(x - 10) / 2 / std::sqrt(2.0)) / 2;
  };
  EXPECT_LT(FarthestShare(values, share), kFarthest);
  const Moments moments = MomentsOf(values);
  EXPECT_NEAR(moments.mean, 10, 0.03);
  EXPECT_NEAR(moments.deviation, 2, 0.03);
}

// What Python makes of the same steps, with statistics.NormalDist.
TEST(RandomTest, ASeedGivesTheSameBitsEverywhere) {
  const NamedAttr shape{"shape", Ints{4}};
  const auto drawn = ElementsOf(RandomSetup("RandomNormal", 7, {shape}), {});
  EXPECT_THAT(drawn, ElementsAre(-0x1.943eeep-1F, -0x1.34a5f6p+0F,
                                 -0x1.90d4bcp+0F, -0x1.235c18p-3F));
  EXPECT_NE(drawn, ElementsOf(RandomSetup("RandomNormal", 8, {shape}), {}));
}

TEST(RandomTest, QuantilesAreThoseOfTheBellCurve) {
  EXPECT_EQ(NormalQuantile(0.5), 0);
  EXPECT_DOUBLE_EQ(NormalQuantile(0.975), 1.959963984540054);
  EXPECT_DOUBLE_EQ(NormalQuantile(1e-3), -3.090232306167813);
  EXPECT_DOUBLE_EQ(NormalQuantile(1e-15), -7.941345326170997);
  for (const double x : {-700.0, -1.5, 0.0, 0.3, 20.0, 700.0}) {
    EXPECT_NEAR(ReproducibleExp(x) / std::exp(x), 1, 1e-15) << x;
  }
}

TEST(RandomTest, LikeTakesShapeAndType) {
  const auto x = MakeTensor<double>({2, 3}, std::vector<double>(6));
  const auto y = EvaluateOne(RandomSetup("RandomUniformLike", 1), {x});
  ASSERT_THAT(y, IsOk());
  EXPECT_EQ(TypeToString(y->shape(), y->dtype()), "float64 (2, 3)");
  const auto short_y =
      EvaluateOne(RandomSetup("RandomNormalLike", 1, {Attr("dtype", 10)}), {x});
  ASSERT_THAT(short_y, IsOk());
  EXPECT_EQ(TypeToString(short_y->shape(), short_y->dtype()), "float16 (2, 3)");
  EXPECT_THAT(EvaluateOne(RandomSetup("RandomNormalLike", 1), {Longs({1})}),
              FailsWith(kInvalid, HasSubstr("dtype")));
}

TEST(RandomTest, ChancesAreThoseOfTheInput) {
  std::vector<float> chances(kMany, 0.25F);
  const auto values =
      ElementsOf(RandomSetup("Bernoulli", 5), {Floats(chances)});
  EXPECT_THAT(values, Each(testing::AnyOf(0, 1)));
  EXPECT_NEAR(MomentsOf(values).mean, 0.25, 0.006);
  EXPECT_THAT(ElementsOf(RandomSetup("Bernoulli", 5), {Floats({0, 1})}),
              ElementsAre(0, 1));
  EXPECT_THAT(
      ElementsOf<uint8_t>(RandomSetup("Bernoulli", 5, {Attr("dtype", 9)}),
                          {Floats({0, 1})}),
      ElementsAre(0, 1));
}

TEST(RandomTest, IndicesComeAsOftenAsTheirLogarithmsSay) {
  const auto x = MakeTensor<float>({2, 3}, {std::log(1.0F), std::log(2.0F),
                                            std::log(5.0F), -kInf, 3, -kInf});
  const auto drawn = ElementsOf<int64_t>(
      RandomSetup("Multinomial", 2,
                  {Attr("sample_size", kMany), Attr("dtype", 7)}),
      {x});
  ASSERT_EQ(drawn.size(), 2 * kMany);
  std::vector<double> counts(3);
  for (int64_t i = 0; i < kMany; ++i) ++counts[static_cast<size_t>(drawn[i])];
  EXPECT_NEAR(counts[0] / kMany, 0.125, 0.005);
  EXPECT_NEAR(counts[1] / kMany, 0.25, 0.006);
  EXPECT_NEAR(counts[2] / kMany, 0.625, 0.006);
  EXPECT_TRUE(std::all_of(drawn.begin() + kMany, drawn.end(),
                          [](int64_t index) { return index == 1; }));
}

TEST(DropoutTest, TrainingDropsAShareAndScalesUpTheRest) {
  const NDArray x = Floats(std::vector<float>(kMany, 3));
  const auto yes = MakeTensor<uint8_t>({}, {1}, kBool);
  const OpSetup dropout{"Dropout", 22, {Attr("seed", 9)}, 2};
  const auto y = EvaluateAll(dropout, {x, Float(0.25F), yes}, true);
  ASSERT_THAT(y, IsOk());
  const auto values = ValuesOf(y->outputs[0]);
  const auto mask = ValuesOf<uint8_t>(y->outputs[1]);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], mask[i] != 0 ? 4 : 0);
  }
  EXPECT_NEAR(MomentsOf(values).mean, 3, 0.02);
  EXPECT_TRUE(std::isnan(y->bounds[0].proved[0]));
  EXPECT_TRUE(std::isnan(y->bounds[1].expected[0]));
  const auto again = EvaluateAll(dropout, {x, Float(0.25F), yes});
  EXPECT_EQ(ValuesOf(again->outputs[0]), values);
}

TEST(DropoutTest, InferencePassesOn) {
  const auto no = MakeTensor<uint8_t>({}, {0}, kBool);
  const auto y =
      EvaluateAll({"Dropout", 22}, {Floats({1, 2}), Float(0.25F), no}, true);
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(ValuesOf(y->outputs[0]), ElementsAre(1, 2));
  EXPECT_THAT(y->bounds[0].proved, ElementsAre(0, 0));
}

TEST(RandomTest, NothingIsKnownOfHowFarAnotherKernelIsOff) {
  const auto y = EvaluateAll(
      RandomSetup("RandomUniform", 1, {{"shape", Ints{2}}}), {}, true);
  ASSERT_THAT(y, IsOk());
  EXPECT_TRUE(std::isnan(y->bounds[0].proved[0]));
}

TEST(RandomTest, NodesOfOneSeedDrawDifferentNumbers) {
  const OperatorDef* const def =
      AllOperators().Find("", "RandomNormal", kNewestOpset);
  ASSERT_NE(def, nullptr);
  EXPECT_TRUE(DrawsRandomNumbers(*def, 0));
  const auto seed_of = [&](uint64_t seed, const char* node) {
    const NamedAttr attr = SeedOfNode(*def, seed, node);
    EXPECT_EQ(attr.name, "seed");
    return std::get<float>(attr.value);
  };
  EXPECT_EQ(seed_of(1, "a"), seed_of(1, "a"));
  EXPECT_NE(seed_of(1, "a"), seed_of(1, "b"));
  EXPECT_NE(seed_of(1, "a"), seed_of(2, "a"));
  const OperatorDef* const dropout =
      AllOperators().Find("", "Dropout", kNewestOpset);
  EXPECT_FALSE(DrawsRandomNumbers(*dropout, 2));
  EXPECT_TRUE(DrawsRandomNumbers(*dropout, 3));
}

}  // namespace
}  // namespace nodewise
