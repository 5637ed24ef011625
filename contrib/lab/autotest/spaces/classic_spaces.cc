#include <algorithm>
#include <limits>
#include <numeric>

#include "contrib/lab/autotest/spaces/spaces.h"

namespace nodewise {

// Operators of classical models, of domain ai.onnx.ml.

namespace {

// Quarters, so that sums of a few are exact.
Floats DrawQuarters(ConfigurationDraw& draw, int64_t count, int64_t least = -8,
                    int64_t most = 8) {
  const Choices::Group group(draw.choices());
  Floats numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(
        static_cast<float>(draw.Between(0, most - least) + least) / 4);
  }
  return numbers;
}

NDArray TensorLike(DLDataType dtype, const Floats& numbers) {
  return AttrTensor(dtype, {std::ssize(numbers)},
                    {numbers.begin(), numbers.end()});
}

// The types of features that all these operators take.
DLDataType DrawClassic(ConfigurationDraw& draw) {
  return draw.One({kFloat32, kFloat64, kInt32, kInt64});
}

Ints DrawRows(ConfigurationDraw& draw, int64_t features) {
  const int64_t rows = draw.Side(9);
  return draw.Chance(20) ? Ints{features} : Ints{rows, features};
}

// Scores are turned into something else in the end. PROBIT wants numbers
// between 0 and 1, and gives NaN for most others.
void DrawTransform(ConfigurationDraw& draw) {
  draw.MaybeWord("post_transform",
                 {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"});
}

Ints DrawLabels(ConfigurationDraw& draw, int64_t count) {
  Ints labels = draw.Distinct(50, count);
  for (int64_t& label : labels) label -= 9;
  return labels;
}

// A list in one of the forms that this version has: int64 and float32 have an
// attribute of their own, and from version 4 on all types go as a tensor.
void DrawLabelList(ConfigurationDraw& draw, const std::string& name,
                   DLDataType dtype, const Floats& numbers) {
  const bool is_list = dtype == kInt64 || dtype == kFloat32;
  if (!is_list || (draw.def().since >= 4 && draw.Chance(30))) {
    draw.Attr(name + "_tensor", TensorLike(dtype, numbers));
  } else if (dtype == kFloat32) {
    draw.Attr(name + "_floats", numbers);
  } else {
    draw.Attr(name + "_int64s", Ints(numbers.begin(), numbers.end()));
  }
}

// Keys are different, and the input has some that are not among them: these get
// the default, of which there is one for each type.
void DrawLabelEncoder(ConfigurationDraw& draw) {
  const auto draw_type = [&draw] {
    return draw.def().since < 4 || draw.Chance()
               ? draw.One({kInt64, kFloat32})
               : draw.One({kFloat64, kInt32, kInt16});
  };
  const DLDataType key = draw_type();
  const DLDataType value = draw_type();
  const int64_t count = draw.Between(1, 6);
  Floats keys;
  for (const int64_t number : draw.Distinct(8, count)) {
    keys.push_back(static_cast<float>(number - 3));
  }
  DrawLabelList(draw, "keys", key, keys);
  // As integers, quarters would be cut to the same few numbers.
  Floats values = DrawQuarters(draw, count);
  if (!IsFloat(value)) {
    for (float& each : values) each *= 4;
  }
  DrawLabelList(draw, "values", value, values);
  draw.MaybeAttr<int64_t>("default_int64", {-1, 7});
  draw.MaybeAttr<float>("default_float", {0.5F, -3});
  draw.MaybeWord("default_string", {"_Unused", "none"});
  if (draw.def().since >= 4 && draw.Chance(30)) {
    draw.Attr("default_tensor", TensorLike(value, {draw.One<float>({3, 4})}));
  }
  draw.Input(key, draw.Sides(0, 3), InputDomain::Whole(-3, 5));
}

// With zeros, a category that is not listed is a row of zeros; without, it is
// an error, and must not come.
void DrawOneHotEncoder(ConfigurationDraw& draw) {
  const int64_t count = draw.Between(1, 6);
  const bool may_miss = draw.Chance(70);
  draw.Attr("cats_int64s", draw.Distinct(may_miss ? 8 : count, count));
  draw.AttrUnless("zeros", may_miss, 1);
  draw.Input(DrawClassic(draw), draw.Sides(0, 2),
             may_miss ? InputDomain() : InputDomain::Whole(0, count - 1));
}

// Each input is cut to its width, or filled up with zeros.
void DrawFeatureVectorizer(ConfigurationDraw& draw) {
  const DLDataType dtype = DrawClassic(draw);
  const bool is_one_row = draw.Chance(20);
  const int64_t rows = draw.Side(9);
  const int64_t count = draw.Between(1, 4);
  Ints widths;
  for (int64_t i = 0; i < count; ++i) {
    const Choices::Group group(draw.choices());
    const int64_t side = draw.Side(9);
    widths.push_back(side + (draw.Chance(40) ? draw.Between(0, 3) - 1 : 0));
    draw.Input(dtype, is_one_row ? Ints{side} : Ints{rows, side});
  }
  if (draw.Chance(70)) draw.Attr("inputdimensions", widths);
}

// One score alone decides between two classes; then there are two labels.
void DrawLinearClassifier(ConfigurationDraw& draw) {
  const int64_t features = draw.Side(9);
  const int64_t scores = draw.Between(1, 4);
  const bool has_intercepts = scores == 1 || draw.Chance(70);
  draw.Attr("coefficients", DrawQuarters(draw, scores * features));
  if (has_intercepts) draw.Attr("intercepts", DrawQuarters(draw, scores));
  if (scores > 1 || draw.Chance()) {
    draw.Attr("classlabels_ints",
              DrawLabels(draw, std::max<int64_t>(scores, 2)));
  }
  draw.Flag("multi_class");
  DrawTransform(draw);
  draw.Input(DrawClassic(draw), DrawRows(draw, features),
             InputDomain::WithoutNan());
  draw.Outputs(2);
}

// The numbers are gamma, the constant and the degree.
void DrawKernel(ConfigurationDraw& draw) {
  draw.MaybeWord("kernel_type", {"LINEAR", "POLY", "RBF", "SIGMOID"});
  if (draw.Chance(70)) {
    draw.Attr("kernel_params", Floats{draw.One<float>({0.25F, 0.125F}),
                                      draw.One<float>({0, 0.5F, -1}),
                                      draw.One<float>({1, 2, 3})});
  }
}

// Without support vectors the coefficients are those of the features.
void DrawSvmRegressor(ConfigurationDraw& draw) {
  const int64_t features = draw.Side(9);
  const int64_t vectors = draw.Between(0, 4);
  DrawKernel(draw);
  DrawTransform(draw);
  draw.Attr("coefficients",
            DrawQuarters(draw, vectors == 0 ? features : vectors));
  draw.Attr("rho", DrawQuarters(draw, 1));
  if (vectors > 0) {
    draw.Attr("n_supports", vectors);
    draw.Attr("support_vectors", DrawQuarters(draw, vectors * features));
  }
  draw.Flag("one_class");
  draw.Input(DrawClassic(draw), DrawRows(draw, features),
             InputDomain::Within(-4, 4));
}

// Linear, with coefficients by class and feature, or of vectors that belong to
// classes, and vote between each two of these. Probabilities take two numbers
// for each pair.
void DrawSvmClassifier(ConfigurationDraw& draw) {
  const int64_t features = draw.Side(9);
  const int64_t classes = draw.Between(2, 4);
  const int64_t pairs = classes * (classes - 1) / 2;
  DrawKernel(draw);
  DrawTransform(draw);
  draw.Attr("classlabels_ints", DrawLabels(draw, classes));
  draw.Attr("rho", DrawQuarters(draw, pairs));
  if (draw.Chance(30)) {
    draw.Attr("coefficients",
              DrawQuarters(draw, classes * features, draw.Chance() ? 0 : -8));
  } else {
    Ints counts(static_cast<size_t>(classes));
    for (int64_t& each : counts) each = draw.Between(1, 3);
    const int64_t vectors =
        std::accumulate(counts.begin(), counts.end(), int64_t{0});
    draw.Attr("vectors_per_class", counts);
    draw.Attr("support_vectors", DrawQuarters(draw, vectors * features));
    draw.Attr("coefficients", DrawQuarters(draw, (classes - 1) * vectors));
    if (draw.Chance(30)) {
      draw.Attr("prob_a", DrawQuarters(draw, pairs));
      draw.Attr("prob_b", DrawQuarters(draw, pairs));
    }
  }
  draw.Input(DrawClassic(draw), DrawRows(draw, features),
             InputDomain::Within(-4, 4));
  draw.Outputs(2);
}

// Trees as lists of nodes, each with a vote at every leaf for each target of
// some. A list has one element for each node or vote of all trees, in the order
// in which they are drawn: a node, then all below its true branch.
class TreeListDraw {
 public:
  TreeListDraw(ConfigurationDraw& draw, int64_t features, int64_t targets)
      : draw_(draw), features_(features), targets_(targets) {}

  void Add(const std::string& votes) {
    for (int64_t trees = draw_.Between(1, 3); tree_ < trees; ++tree_) {
      next_ = 0;
      AddNode(draw_.Between(0, 3));
    }
    draw_.Attr("nodes_treeids", trees_);
    draw_.Attr("nodes_nodeids", ids_);
    draw_.Attr("nodes_featureids", feature_ids_);
    draw_.Attr("nodes_modes", modes_);
    draw_.Attr("nodes_truenodeids", true_ids_);
    draw_.Attr("nodes_falsenodeids", false_ids_);
    if (draw_.Chance()) draw_.Attr("nodes_missing_value_tracks_true", missing_);
    if (draw_.Chance(20)) AddNumbers("nodes_hitrates", Floats(ids_.size(), 1));
    AddNumbers("nodes_values", splits_);
    draw_.Attr(votes + "_treeids", vote_trees_);
    draw_.Attr(votes + "_nodeids", vote_nodes_);
    draw_.Attr(votes + "_ids", vote_targets_);
    AddNumbers(votes + "_weights", weights_);
  }
  // As a list, or as a tensor in versions that have them. The types of tensors
  // may differ from each other and from that of the input.
  void AddNumbers(const std::string& name, const Floats& numbers) {
    if (draw_.def().since < 3 || draw_.Chance(70)) {
      draw_.Attr(name, numbers);
    } else {
      draw_.Attr(name + "_as_tensor",
                 TensorLike(draw_.One({kFloat64, kFloat32}), numbers));
    }
  }

 private:
  // Returns the number of the node within its tree. What it leads to is known
  // only when the nodes below have been drawn, and is filled in then.
  int64_t AddNode(int64_t depth) {
    const Choices::Group group(draw_.choices());
    const size_t at = ids_.size();
    const int64_t id = next_++;
    trees_.push_back(tree_);
    ids_.push_back(id);
    feature_ids_.push_back(draw_.Between(0, features_ - 1));
    splits_.push_back(DrawQuarters(draw_, 1)[0]);
    missing_.push_back(draw_.Between(0, 1));
    true_ids_.push_back(0);
    false_ids_.push_back(0);
    // Leaves have a feature and a split, too, which are not looked at.
    if (depth == 0 || draw_.Chance(20)) {
      modes_.emplace_back("LEAF");
      AddVotes(id);
      return id;
    }
    modes_.push_back(
        draw_.One<std::string>({"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"}));
    const int64_t if_true = AddNode(depth - 1);
    const int64_t if_false = AddNode(depth - 1);
    true_ids_[at] = if_true;
    false_ids_[at] = if_false;
    return id;
  }
  void AddVotes(int64_t id) {
    for (int64_t i = draw_.Between(1, 2); i > 0; --i) {
      vote_trees_.push_back(tree_);
      vote_nodes_.push_back(id);
      vote_targets_.push_back(draw_.Between(0, targets_ - 1));
      weights_.push_back(DrawQuarters(draw_, 1)[0]);
    }
  }

  ConfigurationDraw& draw_;
  const int64_t features_;
  const int64_t targets_;
  int64_t tree_ = 0;
  int64_t next_ = 0;
  Ints trees_, ids_, feature_ids_, true_ids_, false_ids_, missing_;
  Ints vote_trees_, vote_nodes_, vote_targets_;
  std::vector<std::string> modes_;
  Floats splits_, weights_;
};

// The votes of all trees are put together, and added to a base value, by
// target.
void DrawTreeRegressor(ConfigurationDraw& draw) {
  const int64_t features = draw.Between(1, 4);
  const int64_t targets = draw.Between(1, 3);
  TreeListDraw trees(draw, features, targets);
  trees.Add("target");
  draw.Attr("n_targets", targets);
  draw.MaybeWord("aggregate_function", {"SUM", "AVERAGE", "MIN", "MAX"});
  DrawTransform(draw);
  if (draw.Chance()) {
    trees.AddNumbers("base_values", DrawQuarters(draw, targets));
  }
  draw.Input(DrawClassic(draw), DrawRows(draw, features));
}

void DrawTreeClassifier(ConfigurationDraw& draw) {
  const int64_t features = draw.Between(1, 4);
  const int64_t classes = draw.Between(2, 4);
  // All votes may be for one of two classes.
  TreeListDraw trees(draw, features,
                     classes == 2 && draw.Chance(70) ? 1 : classes);
  trees.Add("class");
  draw.Attr("classlabels_int64s", DrawLabels(draw, classes));
  DrawTransform(draw);
  if (draw.Chance()) {
    trees.AddNumbers("base_values", DrawQuarters(draw, classes));
  }
  draw.Input(DrawClassic(draw), DrawRows(draw, features));
  draw.Outputs(2);
}

NDArray ListOf(DLDataType dtype, const std::vector<double>& numbers) {
  return AttrTensor(dtype, {std::ssize(numbers)}, numbers);
}

// The nodes and leaves of full trees, by their attributes.
struct Trees {
  Ints features, true_ids, false_ids, true_leaves, false_leaves, missing;
  Ints roots, targets;
  std::vector<double> modes, splits, weights, members;
};

// A branch of a node: where it leads to, and whether that is a leaf.
struct TreeBranch {
  Ints Trees::*ids;
  Ints Trees::*leaves;
};
constexpr TreeBranch kBranches[] = {{&Trees::true_ids, &Trees::true_leaves},
                                    {&Trees::false_ids, &Trees::false_leaves}};

// Adds a tree of this depth, 1 or more, and returns its root. A node has its
// place in all lists before its branches are drawn, since these may be nodes.
int64_t AddTree(ConfigurationDraw& draw, int64_t depth, int64_t features,
                int64_t targets, Trees* trees) {
  const Choices::Group group(draw.choices());
  constexpr int64_t kMember = 6;
  const size_t node = trees->features.size();
  const int64_t mode = draw.Between(0, kMember);
  trees->features.push_back(draw.Between(0, features - 1));
  trees->modes.push_back(static_cast<double>(mode));
  trees->splits.push_back(static_cast<double>(draw.Between(0, 8) - 4) / 2);
  trees->missing.push_back(draw.Between(0, 1));
  // A list of members ends with NaN.
  if (mode == kMember) {
    trees->members.insert(trees->members.end(), {1, -2});
    trees->members.push_back(std::numeric_limits<double>::quiet_NaN());
  }
  for (const TreeBranch& branch : kBranches) {
    (trees->*branch.ids).push_back(0);
    (trees->*branch.leaves).push_back(1);
  }
  for (const TreeBranch& branch : kBranches) {
    if (depth > 1 && draw.Chance()) {
      (trees->*branch.leaves)[node] = 0;
      const int64_t next = AddTree(draw, depth - 1, features, targets, trees);
      (trees->*branch.ids)[node] = next;
      continue;
    }
    (trees->*branch.ids)[node] = std::ssize(trees->targets);
    trees->targets.push_back(draw.Between(0, targets - 1));
    trees->weights.push_back(static_cast<double>(draw.Between(0, 16) - 8) / 4);
  }
  return static_cast<int64_t>(node);
}

// Splits are halves and weights quarters, so that rows hit splits exactly now
// and then, and that sums of votes are exact.
void DrawTrees(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.One({kFloat32, kFloat64});
  const int64_t features = draw.Between(1, 4);
  const int64_t targets = draw.Between(1, 3);
  Trees trees;
  for (int64_t i = draw.Between(1, 3); i > 0; --i) {
    trees.roots.push_back(
        AddTree(draw, draw.Between(1, 3), features, targets, &trees));
  }
  if (draw.Chance(75)) draw.Attr("aggregate_function", draw.Between(0, 3));
  if (draw.Chance(20)) draw.Attr("post_transform", 0);
  draw.Attr("n_targets", targets);
  draw.Attr("tree_roots", trees.roots);
  draw.Attr("nodes_featureids", trees.features);
  draw.Attr("nodes_truenodeids", trees.true_ids);
  draw.Attr("nodes_falsenodeids", trees.false_ids);
  draw.Attr("nodes_trueleafs", trees.true_leaves);
  draw.Attr("nodes_falseleafs", trees.false_leaves);
  draw.Attr("leaf_targetids", trees.targets);
  draw.Attr("leaf_weights", ListOf(dtype, trees.weights));
  draw.Attr("nodes_splits", ListOf(dtype, trees.splits));
  draw.Attr("nodes_modes", ListOf(kUint8, trees.modes));
  if (!trees.members.empty()) {
    draw.Attr("membership_values", ListOf(dtype, trees.members));
  }
  if (draw.Chance())
    draw.Attr("nodes_missing_value_tracks_true", trees.missing);
  if (draw.Chance(20)) {
    draw.Attr("nodes_hitrates",
              ListOf(dtype, std::vector<double>(trees.modes.size(), 1)));
  }
  draw.Input(dtype, {draw.Between(1, 9), features});
}

constexpr OperatorSpace kClassicSpaces[] = {
    {&DrawFeatureVectorizer, "FeatureVectorizer"},
    {&DrawLabelEncoder, "LabelEncoder"},
    {&DrawLinearClassifier, "LinearClassifier"},
    {&DrawOneHotEncoder, "OneHotEncoder"},
    {&DrawSvmClassifier, "SVMClassifier"},
    {&DrawSvmRegressor, "SVMRegressor"},
    {&DrawTrees, "TreeEnsemble"},
    {&DrawTreeClassifier, "TreeEnsembleClassifier"},
    {&DrawTreeRegressor, "TreeEnsembleRegressor"}};

}  // namespace

absl::Span<const OperatorSpace> ClassicSpaces() { return kClassicSpaces; }

}  // namespace nodewise
