#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using List = std::vector<int64_t>;

// A tree of two nodes: x <= 1 gives leaf 0, else x in {5, 7} gives leaf 1, else
// leaf 2. All leaves are for the same target.
std::vector<NamedAttr> Tree(const List& next_if_true = {0, 1}) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  return {{"leaf_targetids", List{0, 0, 0}},
          {"leaf_weights", Floats({10, 20, 30})},
          {"membership_values", Floats({5, 7, nan})},
          Attr("n_targets", 1),
          {"nodes_falseleafs", List{0, 1}},
          {"nodes_falsenodeids", List{1, 2}},
          {"nodes_featureids", List{0, 0}},
          {"nodes_modes", MakeTensor<uint8_t>({2}, {0, 6})},
          {"nodes_splits", Floats({1, 0})},
          {"nodes_trueleafs", List{1, 1}},
          {"nodes_truenodeids", next_if_true},
          {"tree_roots", List{0}}};
}
OpSetup TreesOf(std::vector<NamedAttr> attrs) {
  return {"TreeEnsemble", 5, std::move(attrs), 1, "ai.onnx.ml"};
}
NDArray Rows(const std::vector<float>& x) {
  return MakeTensor<float>({static_cast<int64_t>(x.size()), 1}, x);
}

TEST(TreeEnsembleTest, RowsGoDownToALeaf) {
  EXPECT_THAT(ElementsOf(TreesOf(Tree()), {Rows({1, 5, 6, 7})}),
              ElementsAre(10, 20, 30, 20));
}

TEST(TreeEnsembleTest, TreesAreAddedUpOrTheirLeastIsTaken) {
  auto attrs = Tree();
  attrs.back().value = List{0, 1};
  EXPECT_THAT(ElementsOf(TreesOf(attrs), {Rows({1, 7})}), ElementsAre(40, 40));
  attrs.push_back(Attr("aggregate_function", 2));
  EXPECT_THAT(ElementsOf(TreesOf(attrs), {Rows({1, 7})}), ElementsAre(10, 20));
  attrs.back() = Attr("aggregate_function", 0);
  EXPECT_THAT(ElementsOf(TreesOf(attrs), {Rows({1, 7})}), ElementsAre(20, 20));
}

TEST(TreeEnsembleTest, ANanGoesWhereItsNodeSays) {
  const NDArray nan = Rows({std::numeric_limits<float>::quiet_NaN()});
  auto attrs = Tree();
  EXPECT_THAT(ElementsOf(TreesOf(attrs), {nan}), ElementsAre(30));
  attrs.push_back({"nodes_missing_value_tracks_true", List{1, 0}});
  EXPECT_THAT(ElementsOf(TreesOf(attrs), {nan}), ElementsAre(10));
}

TEST(TreeEnsembleTest, WhatLeadsNowhereIsRefused) {
  const auto refused = [](const std::vector<NamedAttr>& attrs,
                          const char* said) {
    EXPECT_THAT(EvaluateOne(TreesOf(attrs), {Rows({7})}),
                FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr(said)));
  };
  refused(Tree({0, 3}), "nodes_truenodeids: has 3, expected 0 to 2");
  auto circle = Tree({0, 0});
  circle[9].value = List{1, 0};
  refused(circle, "leads in a circle");
  auto feature = Tree();
  feature[6].value = List{0, 1};
  refused(feature, "nodes_featureids: has 1, expected 0 to 0");
  auto transformed = Tree();
  transformed.push_back(Attr("post_transform", 1));
  refused(transformed, "post_transform: is 1, expected 0");
}

}  // namespace
}  // namespace nodewise
