#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;
using Words = std::vector<std::string>;

// Two trees: x <= 1 leads to leaf 1, else to leaf 2; and a leaf alone.
std::vector<NamedAttr> Nodes() {
  return {{"nodes_treeids", Ints{0, 0, 0, 4}},
          {"nodes_nodeids", Ints{0, 1, 2, 0}},
          {"nodes_featureids", Ints{0, 0, 0, 0}},
          {"nodes_modes", Words{"BRANCH_LEQ", "LEAF", "LEAF", "LEAF"}},
          {"nodes_values", Numbers{1, 0, 0, 0}},
          {"nodes_truenodeids", Ints{1, 0, 0, 0}},
          {"nodes_falsenodeids", Ints{2, 0, 0, 0}}};
}
NDArray Column(const Numbers& x) {
  return MakeTensor<float>({static_cast<int64_t>(x.size()), 1}, x);
}

std::vector<NamedAttr> Votes(const char* kind, Ints targets, Numbers weights) {
  std::vector<NamedAttr> attrs = Nodes();
  const std::string name(kind);
  attrs.push_back({name + "_treeids", Ints{0, 0, 4}});
  attrs.push_back({name + "_nodeids", Ints{1, 2, 0}});
  attrs.push_back({name + "_ids", std::move(targets)});
  attrs.push_back({name + "_weights", std::move(weights)});
  return attrs;
}
OpSetup Regressor(std::vector<NamedAttr> more) {
  auto attrs = Votes("target", {0, 0, 0}, {10, 20, 5});
  attrs.push_back(Attr("n_targets", 1));
  for (NamedAttr& attr : more) attrs.push_back(std::move(attr));
  return {"TreeEnsembleRegressor", 3, attrs, 1, "ai.onnx.ml"};
}

TEST(TreeEnsembleRegressorTest, LeavesOfAllTreesAreAggregated) {
  const NDArray x = Column({1, 2});
  EXPECT_THAT(ElementsOf(Regressor({}), {x}), ElementsAre(15, 25));
  EXPECT_THAT(
      ElementsOf(Regressor({Word("aggregate_function", "AVERAGE")}), {x}),
      ElementsAre(7.5, 12.5));
  EXPECT_THAT(ElementsOf(Regressor({Word("aggregate_function", "MIN")}), {x}),
              ElementsAre(5, 5));
  EXPECT_THAT(ElementsOf(Regressor({{"base_values", Numbers{100}}}), {x}),
              ElementsAre(115, 125));
}

TEST(TreeEnsembleRegressorTest, TensorsOfDoublesStandForLists) {
  OpSetup op = Regressor({});
  std::erase_if(op.attrs, [](const NamedAttr& attr) {
    return attr.name == "nodes_values";
  });
  op.attrs.push_back({"nodes_values_as_tensor",
                      MakeTensor<double>({4}, {1 + 1e-12, 0, 0, 0})});
  EXPECT_THAT(ElementsOf(op, {MakeTensor<double>({1, 1}, {1 + 1e-13})}),
              ElementsAre(15));
  op.opset = 1;
  EXPECT_THAT(op.Make(), FailsWith(kInvalid, HasSubstr("as_tensor")));
}

TEST(TreeEnsembleRegressorTest, ANanGoesWhereItsNodeSays) {
  EXPECT_THAT(ElementsOf(Regressor({}), {Column({kNan})}), ElementsAre(25));
  EXPECT_THAT(
      ElementsOf(
          Regressor({{"nodes_missing_value_tracks_true", Ints{1, 0, 0, 0}}}),
          {Column({kNan})}),
      ElementsAre(15));
}

// Replaces an attribute.
void Set(OpSetup* op, const std::string& name, AttrValue value) {
  for (NamedAttr& attr : op->attrs) {
    if (attr.name == name) attr.value = std::move(value);
  }
}

TEST(TreeEnsembleRegressorTest, WhatFitsTogetherInNoTreeIsRefused) {
  const auto refused = [](const char* name, AttrValue value, const char* said) {
    OpSetup op = Regressor({});
    Set(&op, name, std::move(value));
    EXPECT_THAT(EvaluateOne(op, {Column({2})}),
                FailsWith(kInvalid, HasSubstr(said)));
  };
  refused("nodes_nodeids", Ints{0, 1, 1, 0}, "has 1 twice in tree 0");
  refused("nodes_truenodeids", Ints{9, 0, 0, 0}, "has 9, which tree 0 has not");
  refused("nodes_falsenodeids", Ints{0, 0, 0, 0}, "leads in a circle");
  refused("nodes_values", Numbers{1}, "nodes_values: has 1 elements");
  refused("nodes_modes", Words{"BRANCH", "LEAF", "LEAF", "LEAF"},
          "nodes_modes: has BRANCH, expected LEAF");
  refused("target_ids", Ints{0, 1, 0}, "target_ids: has 1, expected 0 to 0");
  refused("nodes_featureids", Ints{3, 0, 0, 0},
          "has 1 features, but nodes_featureids asks for 4");
  refused("n_targets", int64_t{0}, "n_targets: is 0");
}

OpSetup Classifier(std::vector<NamedAttr> votes, Ints labels,
                   const char* transform = "NONE") {
  votes.push_back({"classlabels_int64s", std::move(labels)});
  votes.push_back(Word("post_transform", transform));
  return {"TreeEnsembleClassifier", 3, std::move(votes), 2, "ai.onnx.ml"};
}
// The labels and the scores of two rows.
void ExpectClasses(const OpSetup& op, const Ints& labels,
                   const Numbers& scores) {
  const auto made = EvaluateAll(op, {Column({1, 2})});
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(ValuesOf<int64_t>(made->outputs[0]), labels);
  EXPECT_THAT(ValuesOf(made->outputs[1]), Pointwise(FloatNear(1e-6F), scores));
}

TEST(TreeEnsembleClassifierTest, TheClassOfTheLargestScoreWins) {
  ExpectClasses(Classifier(Votes("class", {0, 2, 1}, {4, 6, 5}), {7, 8, 9}),
                {8, 9}, {4, 5, 0, 0, 5, 6});
  auto based = Votes("class", {0, 2, 1}, {4, 6, 5});
  based.push_back({"base_values", Numbers{2, 0, 0}});
  ExpectClasses(Classifier(based, {7, 8, 9}), {7, 9}, {6, 5, 0, 2, 5, 6});
}

TEST(TreeEnsembleClassifierTest, AClassWithoutVotesDoesNotWin) {
  ExpectClasses(Classifier(Votes("class", {0, 2, 1}, {-1, -3, -2}), {7, 8, 9}),
                {7, 8}, {-1, -2, 0, 0, -2, -3});
}

TEST(TreeEnsembleClassifierTest, VotesForOneOfTwoClassesAreAScoreOfTheSecond) {
  ExpectClasses(
      Classifier(Votes("class", {0, 0, 0}, {0.25, 0.5, 0.125}), {7, 8}), {7, 8},
      {0.625, 0.375, 0.375, 0.625});
  ExpectClasses(Classifier(Votes("class", {0, 0, 0}, {-2, 3, 1}), {7, 8}),
                {7, 8}, {1, -1, -4, 4});
  ExpectClasses(
      Classifier(Votes("class", {0, 0, 0}, {-1, -1, 1}), {7, 8}, "LOGISTIC"),
      {7, 7}, {0.5, 0.5, 0.5, 0.5});
  ExpectClasses(
      Classifier(Votes("class", {1, 1, 1}, {0.25, 0.5, 0.125}), {7, 8}), {7, 8},
      {0, 0.375, 0, 0.625});
}

TEST(TreeEnsembleClassifierTest, ALabelIsOpenWhereScoresAreTooClose) {
  const OpSetup op =
      Classifier(Votes("class", {0, 2, 1}, {4, 6, 4}), {7, 8, 9});
  const auto made = EvaluateAll(op, {Column({1, 2})}, true);
  ASSERT_THAT(made, IsOk());
  EXPECT_THAT(made->bounds[0].proved, ElementsAre(kInf, 0));
  EXPECT_GT(made->bounds[1].proved[0], 0);
}

TEST(TreeEnsembleClassifierTest, StringsAreRefused) {
  auto votes = Votes("class", {0, 0, 0}, {1, 1, 1});
  votes.push_back({"classlabels_strings", Words{"a", "b"}});
  EXPECT_THAT(EvaluateOne(Classifier(votes, {}), {Column({1})}),
              FailsWith(absl::StatusCode::kUnimplemented,
                        HasSubstr("attribute classlabels_strings")));
}

}  // namespace
}  // namespace nodewise
