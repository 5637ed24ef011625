// Signals, sums of products that an equation names, squares, n-grams, trees.

#include <algorithm>
#include <limits>

#include "contrib/lab/autotest/spaces/spaces.h"

namespace nodewise {
namespace {

// Most lengths are not powers of two, and a fast transform takes another way
// for these.
constexpr int64_t kMostSignal = 33;

// The last side holds the parts of a number: one if it is real, two if not. One
// half of a spectrum is enough for real signals alone, so that a transform that
// is one-sided reads one part, and its inverse two.
void DrawDft(ConfigurationDraw& draw) {
  Ints shape = draw.Sides(1, 3, false);
  const auto rank = std::ssize(shape) + 1;
  const bool is_inverse = draw.Often(30);
  const bool is_onesided = draw.Often(30);
  draw.AttrUnless("inverse", is_inverse, 0, 20);
  draw.AttrUnless("onesided", is_onesided, 0, 20);
  int64_t parts = draw.Often() ? 2 : 1;
  if (is_onesided) parts = is_inverse ? 2 : 1;
  int64_t axis = draw.Between(0, rank - 2);
  for (int64_t& side : shape) side = std::min(side, kMostSignal);
  const int64_t side = shape[static_cast<size_t>(axis)];
  shape.push_back(parts);
  // The last side but one is the axis of an input that none is given for, the
  // second that of the attribute.
  const bool is_input = draw.def().since >= 20;
  const bool is_usual = axis == (is_input ? rank - 2 : 1) && draw.Often();
  if (draw.Often(20)) axis -= rank;
  if (!is_input && !is_usual) draw.Attr("axis", axis);
  // The results of infinities depend on the algorithm.
  draw.Input(draw.Float(), shape, InputDomain::Within(-4, 4));
  const DLDataType of_length = draw.One({kInt64, kInt32});
  if (draw.Often(40)) {
    // The signal is cut to the length, or filled up with zeros.
    draw.Scalar(of_length, std::max<int64_t>(side + draw.Between(0, 6) - 2, 1));
  } else {
    draw.NoInput();
  }
  if (is_input && !is_usual) draw.Scalar(kInt64, axis);
}

// The length of a frame is that of the window, or told; a signal has at least
// one frame.
void DrawStft(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Float();
  const int64_t frame = draw.Side(kMostSignal);
  const bool is_onesided = draw.Often(70);
  draw.AttrUnless("onesided", is_onesided, 1);
  const int64_t parts = !is_onesided && draw.Often() ? 2 : 1;
  draw.Input(dtype, {draw.Between(1, 2), frame + draw.Between(0, 40), parts},
             InputDomain::Within(-4, 4));
  draw.Numbers(draw.One({kInt64, kInt32}), {},
               {static_cast<double>(draw.Between(1, 9))});
  const bool has_window = draw.Often();
  draw.WeightIf(has_window, dtype, {frame}, InputDomain::Within(-1, 1));
  if (!has_window || draw.Often()) {
    draw.Scalar(draw.One({kInt64, kInt32}), frame);
  }
}

// Letters go with sides that all terms agree on. A letter may come twice in one
// term, which then reads a diagonal, and may be missing on the right, which
// sums it. Without an arrow the result has the letters that come once, in
// order.
void DrawEinsum(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Often(15) ? draw.Number() : draw.Float();
  const int64_t letters = draw.Between(1, 5);
  Ints sides;
  for (int64_t i = 0; i < letters; ++i) {
    sides.push_back(draw.Often(20) ? draw.Side(9) : draw.Between(1, 4));
  }
  const bool has_ellipsis = draw.Often(20);
  const Ints more = has_ellipsis ? draw.Sides(0, 2, false) : Ints{};
  std::string equation;
  std::vector<bool> is_used(sides.size());
  const int64_t count = draw.Between(1, 3);
  for (int64_t term = count; term > 0; --term) {
    const Choices::Group group(draw.choices());
    if (!equation.empty()) equation += draw.Often(20) ? ", " : ",";
    Ints shape;
    if (has_ellipsis) {
      equation += "...";
      for (const int64_t side : more)
        shape.push_back(std::min<int64_t>(side, 4));
    }
    for (int64_t i = draw.Between(1, 3); i > 0; --i) {
      const auto letter = static_cast<size_t>(draw.Between(0, letters - 1));
      equation += static_cast<char>('a' + letter);
      shape.push_back(sides[letter]);
      is_used[letter] = true;
    }
    // With three terms, any two may be multiplied first.
    draw.Input(dtype, shape,
               count > 2 ? InputDomain::Within(-4, 4) : InputDomain());
  }
  if (draw.Often(75)) {
    equation += "->";
    if (has_ellipsis) equation += "...";
    for (const int64_t letter : draw.Order(sides.size())) {
      const auto at = static_cast<size_t>(letter);
      if (is_used[at] && draw.Often(60)) {
        equation += static_cast<char>('a' + letter);
      }
    }
  }
  draw.Attr("equation", equation);
}

// Batches of small matrices: errors of a determinant grow with the size.
void DrawSquare(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Float();
  Ints shape = draw.Sides(0, 2);
  for (int64_t& side : shape) side = std::min<int64_t>(side, 4);
  const int64_t side = draw.Between(1, 6);
  shape.insert(shape.end(), {side, side});
  draw.Input(dtype, shape, InputDomain::Within(-4, 4));
}

// Pools of n-grams of lengths 1, 2 and 3, over few words, so that inputs
// contain many of them. An n-gram is drawn as a number with a digit for each
// word, since all have to be different.
void DrawNgrams(ConfigurationDraw& draw) {
  constexpr int64_t kWords = 4;
  Ints pool;
  Ints begins;
  int64_t ngrams = 0;
  for (int64_t length = 1; length <= 3; ++length) {
    begins.push_back(std::ssize(pool));
    const int64_t most = length == 1 ? kWords : 2 * kWords;
    const int64_t count = draw.Between(length == 1 ? 1 : 0, 3);
    ngrams += count;
    for (int64_t number : draw.Distinct(most, count)) {
      for (int64_t i = 0; i < length; ++i, number /= kWords) {
        pool.push_back(number % kWords);
      }
    }
  }
  const int64_t least = draw.Between(1, 3);
  draw.Attr("min_gram_length", least);
  draw.Attr("max_gram_length", draw.Between(least, 3));
  draw.Attr("max_skip_count", draw.Between(0, 3));
  draw.Attr("mode", draw.One<std::string>({"TF", "IDF", "TFIDF"}));
  draw.Attr("ngram_counts", begins);
  draw.Attr("ngram_indexes", draw.Order(static_cast<size_t>(ngrams)));
  draw.Attr("pool_int64s", pool);
  if (draw.Often()) {
    std::vector<float> weights;
    for (int64_t i = 0; i < ngrams; ++i) {
      weights.push_back(draw.One<float>({1, 0.5F, 2, 0.25F}));
    }
    draw.Attr("weights", weights);
  }
  const int64_t length = draw.Between(1, 12);
  draw.Input(draw.One({kInt64, kInt32}),
             draw.Often() ? Ints{draw.Between(1, 3), length} : Ints{length},
             InputDomain::Whole(0, kWords));
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
    if (depth > 1 && draw.Often()) {
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
  if (draw.Often(75)) draw.Attr("aggregate_function", draw.Between(0, 3));
  if (draw.Often(20)) draw.Attr("post_transform", 0);
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
  if (draw.Often()) draw.Attr("nodes_missing_value_tracks_true", trees.missing);
  if (draw.Often(20)) {
    draw.Attr("nodes_hitrates",
              ListOf(dtype, std::vector<double>(trees.modes.size(), 1)));
  }
  draw.Input(dtype, {draw.Between(1, 9), features});
}

constexpr OperatorSpace kMathSpaces[] = {{&DrawDft, "DFT"},
                                         {&DrawSquare, "Det Inverse"},
                                         {&DrawEinsum, "Einsum"},
                                         {&DrawStft, "STFT"},
                                         {&DrawNgrams, "TfIdfVectorizer"},
                                         {&DrawTrees, "TreeEnsemble"}};

}  // namespace

absl::Span<const OperatorSpace> MathSpaces() { return kMathSpaces; }

}  // namespace nodewise
