#include <cmath>

#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

NDArray Table(const std::vector<int64_t>& shape, const Numbers& x) {
  return MakeTensor<float>(shape, x);
}
void ExpectClasses(const OpSetup& op, const NDArray& x, const Ints& labels,
                   const Numbers& scores, float within = 1e-6F) {
  const auto made = EvaluateAll(op, {x});
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(ValuesOf<int64_t>(made->outputs[0]), labels);
  EXPECT_THAT(ValuesOf(made->outputs[1]), Pointwise(FloatNear(within), scores));
}

OpSetup Linear(std::vector<NamedAttr> attrs) {
  return {"LinearClassifier", 1, std::move(attrs), 2, "ai.onnx.ml"};
}

TEST(LinearClassifierTest, TheLabelOfTheLargestScoreWins) {
  const OpSetup op = Linear({{"coefficients", Numbers{1, 0, 0, 1}},
                             {"intercepts", Numbers{0, 0.5}},
                             {"classlabels_ints", Ints{3, 4}}});
  ExpectClasses(op, Table({2, 2}, {2, 1, 1, 2}), {3, 4}, {2, 1.5, 1, 2.5});
  ExpectClasses(op, Table({2}, {2, 1}), {3}, {2, 1.5});
  EXPECT_EQ(InferredType(op, {{"int32[n, 2]"}}), "int64[n]");
}

TEST(LinearClassifierTest, OneScoreIsThatOfTheSecondClass) {
  const NDArray x = Table({2, 1}, {0.25, -1});
  ExpectClasses(
      Linear({{"coefficients", Numbers{1}}, {"intercepts", Numbers{0}}}), x,
      {1, 0}, {0.25, -1});
  ExpectClasses(Linear({{"coefficients", Numbers{1}},
                        {"intercepts", Numbers{0}},
                        {"classlabels_ints", Ints{3, 4}}}),
                x, {4, 3}, {0.75, 0.25, 2, -1});
}

TEST(LinearClassifierTest, ScoresAreTransformed) {
  const auto with = [](const char* transform) {
    return Linear({{"coefficients", Numbers{1, 0}},
                   {"intercepts", Numbers{0, 0}},
                   {"classlabels_ints", Ints{3, 4}},
                   Word("post_transform", transform)});
  };
  const auto e = std::exp(1.0F);
  const NDArray x = Table({1, 1}, {1});
  ExpectClasses(with("SOFTMAX"), x, {3}, {e / (e + 1), 1 / (e + 1)});
  ExpectClasses(with("LOGISTIC"), x, {3}, {e / (e + 1), 0.5});
  // A score of 0 is not part of the sum, and stays 0.
  ExpectClasses(with("SOFTMAX_ZERO"), x, {3}, {1, 0});
  ExpectClasses(with("PROBIT"), Table({1, 1}, {0.8413447F}), {3}, {1, -kInf},
                0.01F);
}

TEST(LinearClassifierTest, WhatDoesNotFitIsRefused) {
  const auto refused = [](std::vector<NamedAttr> attrs, const char* said) {
    EXPECT_THAT(InferredType(Linear(std::move(attrs)), {{"float32[1, 2]"}}),
                HasSubstr(said));
  };
  refused({{"coefficients", Numbers{1, 2, 3}},
           {"intercepts", Numbers{0, 0}},
           {"classlabels_ints", Ints{3, 4}}},
          "coefficients: has 3 elements, expected a multiple of 2");
  refused(
      {{"coefficients", Numbers{1, 2, 3, 4}}, {"intercepts", Numbers{0, 0}}},
      "classlabels_ints: has 0 elements, expected 2");
  refused({{"coefficients", Numbers{1}}, {"intercepts", Numbers{0}}},
          "has 2 features, expected 1");
}

OpSetup Regression(const char* kernel, Ints supports = {2}) {
  return {"SVMRegressor",
          1,
          {{"kernel_type", std::string(kernel)},
           {"kernel_params", Numbers{0.5, 1, 2}},
           {"coefficients", Numbers{2, -1}},
           {"rho", Numbers{0.25}},
           {"support_vectors", Numbers{1, 3}},
           Attr("n_supports", supports[0])},
          1,
          "ai.onnx.ml"};
}

TEST(SVMRegressorTest, KernelsWithEachVectorAreAddedUp) {
  const NDArray x = Table({1, 1}, {2});
  const auto expect = [&](const char* kernel, float y) {
    EXPECT_THAT(ElementsOf(Regression(kernel), {x}),
                ElementsAre(FloatNear(y, 1e-6F)))
        << kernel;
  };
  expect("LINEAR", 2 * 2 - 6 + 0.25F);
  expect("POLY", 2 * 4 - 16 + 0.25F);
  expect("RBF", std::exp(-0.5F) + 0.25F);
  expect("SIGMOID", 2 * std::tanh(2.0F) - std::tanh(4.0F) + 0.25F);
}

TEST(SVMRegressorTest, WithoutVectorsItIsLinearAndOneClassIsASign) {
  OpSetup op = Regression("RBF", {0});
  const NDArray x = Table({2, 2}, {1, 1, 0, 3});
  EXPECT_THAT(ElementsOf(op, {x}), ElementsAre(1.25, -2.75));
  op.attrs.push_back(Attr("one_class", 1));
  EXPECT_THAT(ElementsOf(op, {x}), ElementsAre(1, -1));
}

// Three classes with one vector each: -1, 0, 1.
OpSetup Machine(std::vector<NamedAttr> more) {
  std::vector<NamedAttr> attrs = {{"coefficients", Numbers{1, 1, 1, 1, 1, 1}},
                                  {"support_vectors", Numbers{-1, 0, 1}},
                                  {"vectors_per_class", Ints{1, 1, 1}},
                                  {"rho", Numbers{0, 0, 0.5}},
                                  {"classlabels_ints", Ints{5, 6, 7}}};
  for (NamedAttr& attr : more) attrs.push_back(std::move(attr));
  return {"SVMClassifier", 1, std::move(attrs), 2, "ai.onnx.ml"};
}

TEST(SVMClassifierTest, PairsOfClassesVote) {
  // The pairs say -x, 0 and x + 0.5.
  ExpectClasses(Machine({}), Table({2, 1}, {-2, 2}), {7, 6},
                {2, 0, -1.5, -2, 0, 2.5});
}

TEST(SVMClassifierTest, ProbabilitiesOfClassesAddUpToOne) {
  const OpSetup op =
      Machine({{"prob_a", Numbers{-1, -1, -1}}, {"prob_b", Numbers{0, 0, 0}}});
  const auto made = EvaluateAll(op, {Table({1, 1}, {2})}, true);
  ASSERT_THAT(made, IsOk());
  const Numbers p = ValuesOf(made->outputs[1]);
  EXPECT_THAT(p[0] + p[1] + p[2], FloatNear(1, 1e-6F));
  EXPECT_GT(p[1], p[0]);
  // It cannot be known where another iteration stops.
  EXPECT_TRUE(std::isnan(made->bounds[1].expected[0]));
}

TEST(SVMClassifierTest, WithoutVectorsEachClassHasALinearScore) {
  const OpSetup op = {"SVMClassifier",
                      1,
                      {{"coefficients", Numbers{1, 2, 3}},
                       {"rho", Numbers{0.5}},
                       {"classlabels_ints", Ints{5, 6, 7}}},
                      2,
                      "ai.onnx.ml"};
  ExpectClasses(op, Table({2, 1}, {1, -1}), {7, 5},
                {1.5, 2.5, 3.5, -0.5, -1.5, -2.5});
}

TEST(SVMClassifierTest, OfTwoClassesTheSecondWinsWhereAScoreIsHigh) {
  const OpSetup op = {"SVMClassifier",
                      1,
                      {{"coefficients", Numbers{2, 1}},
                       {"rho", Numbers{0}},
                       {"classlabels_ints", Ints{5, 6}}},
                      2,
                      "ai.onnx.ml"};
  ExpectClasses(op, Table({2, 1}, {0.2, 1}), {5, 6}, {0.4, 0.2, 2, 1});
}

TEST(SVMClassifierTest, WhatDoesNotFitIsRefused) {
  const auto refused = [](NamedAttr changed, const char* said) {
    OpSetup op = Machine({});
    for (NamedAttr& attr : op.attrs) {
      if (attr.name == changed.name) attr = changed;
    }
    EXPECT_THAT(InferredType(op, {{"float32[1, 1]"}}), HasSubstr(said));
  };
  refused({"rho", Numbers{0}}, "rho: has 1 elements, expected 3");
  refused({"coefficients", Numbers{1, 2, 3}}, "expected 6 or more");
  refused({"coefficients", Numbers{1}}, "expected 3 or more, the vectors");
  refused({"vectors_per_class", Ints{3, 0}}, "expected 3, one for each class");
  refused({"vectors_per_class", Ints{2, -1, 2}}, "has -1, expected 0 or more");
  refused({"support_vectors", Numbers{1, 2}}, "a multiple of 3, the vectors");
}

}  // namespace
}  // namespace nodewise
