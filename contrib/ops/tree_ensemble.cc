#include "nodewise/ops/tree_ensemble.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/class_scores.h"
#include "contrib/ops/util/classic_rules.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/field_lists.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/sum_bounds.h"
#include "nodewise/support/status.h"

namespace nodewise {

using ops::TreeAggregate;
template <>
struct Words<TreeAggregate> {
  static constexpr std::pair<TreeAggregate, std::string_view> kAll[] = {
      {TreeAggregate::kMean, "AVERAGE"},
      {TreeAggregate::kSum, "SUM"},
      {TreeAggregate::kLeast, "MIN"},
      {TreeAggregate::kLargest, "MAX"}};
};

namespace {

// ONNX has had three ways of writing down decision trees: the lists of floats
// of TreeEnsembleRegressor and TreeEnsembleClassifier, the same with tensors in
// place of some of the lists, and TreeEnsemble with leaves apart from nodes.
// All of them become a Forest first, in which a node names the places of the
// next ones, and what follows knows nothing of the attributes. Nothing is kept
// from one call to the next: attributes are small next to what is computed.
using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;

// TreeEnsemble's numbers for the modes are cast to this type, so the order is
// theirs.
enum class BranchMode { kLeq, kLt, kGte, kGt, kEq, kNeq, kMember };

// Nodes and leaves lie in lists of all trees and name each other by index: a
// tree is where its root is.
struct Forest {
  struct Place {
    bool is_leaf = false;
    size_t index = 0;
  };
  struct Node {
    size_t feature = 0;
    BranchMode mode = BranchMode::kLeq;
    double split = 0;
    Place if_true;
    Place if_false;
    bool missing_goes_true = false;  // NaN goes where what holds goes.
  };
  // What a leaf adds to one target.
  struct Vote {
    size_t target = 0;
    double weight = 0;
  };

  std::vector<Place> roots;  // By tree.
  std::vector<Node> nodes;
  std::vector<std::vector<Vote>> leaves;
  std::vector<std::vector<double>> sets;  // By node, of those of kMember.

  // Returns the leaf that a row comes to, by its features. Fails with
  // kInvalidArgument for trees that lead in a circle. REQUIRES: there are
  // enough features.
  absl::StatusOr<size_t> LeafOf(const Place& root,
                                absl::Span<const double> x) const {
    // A path cannot be longer than there are nodes, which is what ends a
    // circle.
    Place place = root;
    for (size_t steps = 0; steps <= nodes.size(); ++steps) {
      if (place.is_leaf) return place.index;
      const Node& node = nodes[place.index];
      place =
          Holds(place.index, x[node.feature]) ? node.if_true : node.if_false;
    }
    return InvalidArgument(
        "the tree of root {} leads in a circle, expected a leaf", root.index);
  }
  size_t NeededFeatures() const {
    size_t needed = 0;
    for (const Node& node : nodes) needed = std::max(needed, node.feature + 1);
    return needed;
  }

 private:
  // A comparison with NaN does not hold, except for kNeq; an attribute of the
  // node may say that it does.
  bool Holds(size_t node, double x) const {
    const Node& at = nodes[node];
    if (std::isnan(x) && at.missing_goes_true) return true;
    switch (at.mode) {
      case BranchMode::kLeq:
        return x <= at.split;
      case BranchMode::kLt:
        return x < at.split;
      case BranchMode::kGte:
        return x >= at.split;
      case BranchMode::kGt:
        return x > at.split;
      case BranchMode::kEq:
        return x == at.split;
      case BranchMode::kNeq:
        return x != at.split;
      case BranchMode::kMember:
        break;
    }
    return std::ranges::find(sets[node], x) != sets[node].end();
  }
};

// What the trees together say of one target. All aggregates are kept at once:
// each costs little next to walking down a tree.
struct TargetScore {
  SumOfTerms sum;
  double least = 0;
  double largest = 0;

  void Add(double weight) {
    least = sum.terms == 0 ? weight : std::min(least, weight);
    largest = sum.terms == 0 ? weight : std::max(largest, weight);
    sum.terms += 1;
    sum.Add(weight);
  }
  bool has_votes() const { return sum.terms > 0; }
};

// Calls `f` with the scores of each row, one for each target. The checks have
// seen that features and targets are in range.
template <typename F>
absl::Status ForEachItem(const EvalArgs& args, const Forest& forest,
                         size_t targets, F f) {
  const FeatureRows size = RowsOf(args.shape(0));
  const Doubles x = ToDoubles(args.in(0));
  for (int64_t row = 0; row < size.rows; ++row) {
    const absl::Span<const double> features(x.data() + row * size.features,
                                            static_cast<size_t>(size.features));
    std::vector<TargetScore> scores(targets);
    for (const Forest::Place& root : forest.roots) {
      NODEWISE_ASSIGN_OR_RETURN(const size_t leaf,
                                forest.LeafOf(root, features));
      for (const Forest::Vote& vote : forest.leaves[leaf]) {
        scores[vote.target].Add(vote.weight);
      }
    }
    f(scores);
  }
  return absl::OkStatus();
}

Approximate Aggregated(const TargetScore& score, TreeAggregate aggregate,
                       size_t trees, DLDataType dtype) {
  if (aggregate == TreeAggregate::kLeast) return {score.least, 0, 0};
  if (aggregate == TreeAggregate::kLargest) return {score.largest, 0, 0};
  const double divisor =
      aggregate == TreeAggregate::kMean ? static_cast<double>(trees) : 1;
  const double value = score.sum.result / divisor;
  const SumBound bound = BoundSum(dtype, score.sum);
  // A mean is rounded once more.
  const double rounding = HalfUlp(dtype, value);
  return {value, bound.proved / divisor + rounding,
          bound.expected / divisor + rounding};
}

absl::Status CheckListCount(const char* attribute, size_t found,
                            size_t expected) {
  if (found == expected) return absl::OkStatus();
  return WrongAttribute(attribute, "has {} elements, expected {}", found,
                        expected);
}
absl::Status CheckIndex(const char* attribute, int64_t value, int64_t end) {
  if (value >= 0 && value < end) return absl::OkStatus();
  return WrongAttribute(attribute, "has {}, expected 0 to {}", value, end - 1);
}
absl::Status CheckIndices(const char* attribute, const Ints& values,
                          int64_t end) {
  for (const int64_t value : values) {
    NODEWISE_RETURN_IF_ERROR(CheckIndex(attribute, value, end));
  }
  return absl::OkStatus();
}
// ONNX has no default for n_targets, and without a target there is nothing to
// sum up for.
absl::Status CheckTargets(const std::optional<int64_t>& n_targets) {
  const int64_t targets = n_targets.value_or(0);
  if (targets >= 1) return absl::OkStatus();
  return WrongAttribute("n_targets", "is {}, expected 1 or more", targets);
}

// The mode of nodes that ask whether a feature is in a set.
constexpr double kMember = 6;

// Returns the sets of the nodes that ask for a member, by node. The values are
// one list, in which the sets follow in the order of their nodes, each with a
// NaN at its end.
std::vector<std::vector<double>> SetsOf(const ops::TreeEnsemble& op,
                                        absl::Span<const double> modes) {
  std::vector<std::vector<double>> sets(modes.size());
  if (!op.membership_values.has_value()) return sets;
  const std::vector<double> values = ToDoubles(*op.membership_values);
  size_t at = 0;
  for (size_t node = 0; node < modes.size(); ++node) {
    if (modes[node] != kMember) continue;
    for (; at < values.size() && !std::isnan(values[at]); ++at) {
      sets[node].push_back(values[at]);
    }
    ++at;
  }
  return sets;
}

// REQUIRES: the attributes have been checked. Here leaves and nodes have
// numbers of their own, and both already count through all trees.
Forest ForestOf(const ops::TreeEnsemble& op) {
  Forest forest;
  const std::vector<double> modes = ToDoubles(op.nodes_modes);
  const std::vector<double> splits = ToDoubles(op.nodes_splits);
  forest.sets = SetsOf(op, modes);
  for (size_t i = 0; i < modes.size(); ++i) {
    Forest::Node node;
    node.feature = static_cast<size_t>(op.nodes_featureids[i]);
    node.mode = static_cast<BranchMode>(modes[i]);
    node.split = splits[i];
    node.if_true = {op.nodes_trueleafs[i] != 0,
                    static_cast<size_t>(op.nodes_truenodeids[i])};
    node.if_false = {op.nodes_falseleafs[i] != 0,
                     static_cast<size_t>(op.nodes_falsenodeids[i])};
    const Ints& missing = op.nodes_missing_value_tracks_true;
    node.missing_goes_true = !missing.empty() && missing[i] != 0;
    forest.nodes.push_back(node);
  }
  const std::vector<double> weights = ToDoubles(op.leaf_weights);
  for (size_t i = 0; i < weights.size(); ++i) {
    forest.leaves.push_back(
        {{static_cast<size_t>(op.leaf_targetids[i]), weights[i]}});
  }
  for (const int64_t root : op.tree_roots) {
    forest.roots.push_back({false, static_cast<size_t>(root)});
  }
  return forest;
}

// Results have the type of the input.
struct TreeEnsemble : ops::TreeEnsemble {
  static constexpr auto Fields() {
    using Class = ops::TreeEnsemble;
    return FieldList(
        Field<&Class::aggregate_function>("aggregate_function"),
        RequiredField<&Class::leaf_targetids>("leaf_targetids"),
        RequiredField<&Class::leaf_weights>("leaf_weights"),
        Field<&Class::membership_values>("membership_values"),
        Field<&Class::n_targets>("n_targets"),
        RequiredField<&Class::nodes_falseleafs>("nodes_falseleafs"),
        RequiredField<&Class::nodes_falsenodeids>("nodes_falsenodeids"),
        RequiredField<&Class::nodes_featureids>("nodes_featureids"),
        Field<&Class::nodes_hitrates>("nodes_hitrates"),
        Field<&Class::nodes_missing_value_tracks_true>(
            "nodes_missing_value_tracks_true"),
        RequiredField<&Class::nodes_modes>("nodes_modes"),
        RequiredField<&Class::nodes_splits>("nodes_splits"),
        RequiredField<&Class::nodes_trueleafs>("nodes_trueleafs"),
        RequiredField<&Class::nodes_truenodeids>("nodes_truenodeids"),
        Field<&Class::post_transform>("post_transform"),
        RequiredField<&Class::tree_roots>("tree_roots"));
  }
  absl::Status Check(const Inputs& in) const {
    if (post_transform != 0) {
      return WrongAttribute("post_transform", "is {}, expected 0, none",
                            post_transform);
    }
    constexpr auto kLast = static_cast<int64_t>(TreeAggregate::kLargest);
    if (aggregate_function < 0 || aggregate_function > kLast) {
      return WrongAttribute("aggregate_function", "is {}, expected 0 to 3",
                            aggregate_function);
    }
    NODEWISE_RETURN_IF_ERROR(CheckTargets(n_targets));
    return All(RequireFloat(in, 0), RequireRank(in, 0, 2), CheckNodes());
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return Countable(OutputInfos{TensorType(
        in.type(0).dtype, Shape{SideOf(in, 0, 0), n_targets.value_or(0)})});
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_RETURN_IF_ERROR(
        CheckIndices("nodes_featureids", nodes_featureids, args.shape(0)[1]));
    std::vector<Scores> rows;
    const auto add = [&](const std::vector<TargetScore>& scores) {
      Scores& row = rows.emplace_back();
      for (const TargetScore& score : scores) {
        row.push_back(Aggregated(score,
                                 static_cast<TreeAggregate>(aggregate_function),
                                 tree_roots.size(), args.dtype(0)));
      }
    };
    NODEWISE_RETURN_IF_ERROR(ForEachItem(args, ForestOf(*this),
                                         static_cast<size_t>(*n_targets), add));
    return StoreScores(args, 0, rows);
  }

 private:
  // Hostile models are the rule here: every index is bounded before a tree is
  // walked. Features are bounded in Evaluate(), since the input may not be
  // known before.
  absl::Status CheckNodes() const {
    const size_t count = nodes_featureids.size();
    const auto check = [&](const char* attribute, const Ints& list) {
      return CheckListCount(attribute, list.size(), count);
    };
    const auto check_tensor = [](const char* attribute, const NDArray& tensor,
                                 size_t expected) {
      const int64_t found = tensor.defined() ? CountOf(tensor) : 0;
      return CheckListCount(attribute, static_cast<size_t>(found), expected);
    };
    NODEWISE_RETURN_IF_ERROR(
        All(check("nodes_falseleafs", nodes_falseleafs),
            check("nodes_falsenodeids", nodes_falsenodeids),
            check("nodes_trueleafs", nodes_trueleafs),
            check("nodes_truenodeids", nodes_truenodeids),
            check_tensor("nodes_modes", nodes_modes, count),
            check_tensor("nodes_splits", nodes_splits, count),
            check_tensor("leaf_weights", leaf_weights, leaf_targetids.size()),
            CheckIndices("tree_roots", tree_roots, static_cast<int64_t>(count)),
            CheckIndices("leaf_targetids", leaf_targetids, *n_targets)));
    if (!nodes_missing_value_tracks_true.empty()) {
      NODEWISE_RETURN_IF_ERROR(check("nodes_missing_value_tracks_true",
                                     nodes_missing_value_tracks_true));
    }
    for (const double mode : ToDoubles(nodes_modes)) {
      if (mode >= 0 && mode <= kMember) continue;
      return WrongAttribute("nodes_modes", "has {}, expected 0 to 6", mode);
    }
    return All(
        CheckNext("nodes_truenodeids", nodes_truenodeids, nodes_trueleafs),
        CheckNext("nodes_falsenodeids", nodes_falsenodeids, nodes_falseleafs));
  }
  // An id is the index of a leaf or of a node, as `are_leaves` says.
  absl::Status CheckNext(const char* attribute, const Ints& ids,
                         const Ints& are_leaves) const {
    for (size_t i = 0; i < ids.size(); ++i) {
      const size_t end =
          are_leaves[i] != 0 ? leaf_targetids.size() : nodes_featureids.size();
      NODEWISE_RETURN_IF_ERROR(
          CheckIndex(attribute, ids[i], static_cast<int64_t>(end)));
    }
    return absl::OkStatus();
  }
};

// The votes of leaves, and the names of the lists. Both operators say the same
// under other names.
struct VoteLists {
  const Ints& trees;
  const Ints& nodes;
  const Ints& targets;
  const std::vector<float>& weights;
  const char* names[4];
};
VoteLists VotesOf(const ops::TreeEnsembleRegressor1& op) {
  return {op.target_treeids,
          op.target_nodeids,
          op.target_ids,
          op.target_weights,
          {"target_treeids", "target_nodeids", "target_ids", "target_weights"}};
}
VoteLists VotesOf(const ops::TreeEnsembleClassifier1& op) {
  return {op.class_treeids,
          op.class_nodeids,
          op.class_ids,
          op.class_weights,
          {"class_treeids", "class_nodeids", "class_ids", "class_weights"}};
}

// Makes a forest of lists of nodes, whose nodes_values are `splits`. Nodes name
// each other by numbers that count within their trees and may come in any
// order, so that all of them get their places first, and are linked after that.
// Fails with kInvalidArgument, naming the attribute, for what fits together in
// no tree.
class ForestMaker {
 public:
  ForestMaker(const ops::TreeNodes& op, const Doubles& splits)
      : op_(op), splits_(splits) {}

  absl::StatusOr<Forest> Make(const VoteLists& votes, const Doubles& weights,
                              size_t targets) {
    NODEWISE_RETURN_IF_ERROR(CheckCounts(votes, weights.size()));
    NODEWISE_RETURN_IF_ERROR(NumberNodes());
    for (size_t i = 0; i < op_.nodes_modes.size(); ++i) {
      if (places_[i].is_leaf) continue;
      NODEWISE_RETURN_IF_ERROR(AddNode(i));
    }
    NODEWISE_RETURN_IF_ERROR(AddVotes(votes, weights, targets));
    return std::move(forest_);
  }

 private:
  using Key = std::pair<int64_t, int64_t>;  // Tree and node.

  absl::Status CheckCounts(const VoteLists& votes, size_t voices) const {
    const size_t count = op_.nodes_modes.size();
    if (count == 0) {
      return AttributeError("nodes_modes", "is missing, expected nodes");
    }
    const Ints& missing = op_.nodes_missing_value_tracks_true;
    const std::tuple<const char*, size_t, size_t> lists[] = {
        {"nodes_falsenodeids", op_.nodes_falsenodeids.size(), count},
        {"nodes_featureids", op_.nodes_featureids.size(), count},
        {"nodes_missing_value_tracks_true", missing.size(),
         missing.empty() ? 0 : count},
        {"nodes_nodeids", op_.nodes_nodeids.size(), count},
        {"nodes_treeids", op_.nodes_treeids.size(), count},
        {"nodes_truenodeids", op_.nodes_truenodeids.size(), count},
        {"nodes_values", splits_.size(), count},
        {votes.names[0], votes.trees.size(), voices},
        {votes.names[1], votes.nodes.size(), voices},
        {votes.names[2], votes.targets.size(), voices}};
    for (const auto& [name, found, expected] : lists) {
      NODEWISE_RETURN_IF_ERROR(CheckListCount(name, found, expected));
    }
    return absl::OkStatus();
  }
  // Gives each node its place, and each tree its root. A node with a number
  // that its tree has already is refused, as links to it would be ambiguous.
  absl::Status NumberNodes() {
    std::map<int64_t, bool> is_known_tree;
    size_t nodes = 0;
    for (size_t i = 0; i < op_.nodes_modes.size(); ++i) {
      const int64_t tree = op_.nodes_treeids[i];
      const bool is_leaf = op_.nodes_modes[i] == "LEAF";
      places_.push_back({is_leaf, is_leaf ? forest_.leaves.size() : nodes});
      if (is_leaf) {
        forest_.leaves.emplace_back();
      } else {
        ++nodes;
      }
      if (is_known_tree.emplace(tree, true).second) {
        forest_.roots.push_back(places_.back());
      }
      if (!numbers_.emplace(Key(tree, op_.nodes_nodeids[i]), i).second) {
        return WrongAttribute("nodes_nodeids", "has {} twice in tree {}",
                              op_.nodes_nodeids[i], tree);
      }
    }
    return absl::OkStatus();
  }
  // LEAF has been taken out before.
  absl::StatusOr<BranchMode> ModeOf(size_t i) const {
    constexpr std::pair<std::string_view, BranchMode> kModes[] = {
        {"BRANCH_LEQ", BranchMode::kLeq}, {"BRANCH_LT", BranchMode::kLt},
        {"BRANCH_GTE", BranchMode::kGte}, {"BRANCH_GT", BranchMode::kGt},
        {"BRANCH_EQ", BranchMode::kEq},   {"BRANCH_NEQ", BranchMode::kNeq}};
    for (const auto& [word, mode] : kModes) {
      if (op_.nodes_modes[i] == word) return mode;
    }
    return WrongAttribute("nodes_modes",
                          "has {}, expected LEAF, BRANCH_LEQ, BRANCH_LT, "
                          "BRANCH_GTE, BRANCH_GT, BRANCH_EQ or BRANCH_NEQ",
                          op_.nodes_modes[i]);
  }
  absl::Status AddNode(size_t i) {
    Forest::Node node;
    const int64_t tree = op_.nodes_treeids[i];
    NODEWISE_ASSIGN_OR_RETURN(node.mode, ModeOf(i));
    NODEWISE_ASSIGN_OR_RETURN(node.if_true, Find("nodes_truenodeids", tree,
                                                 op_.nodes_truenodeids[i]));
    NODEWISE_ASSIGN_OR_RETURN(node.if_false, Find("nodes_falsenodeids", tree,
                                                  op_.nodes_falsenodeids[i]));
    if (op_.nodes_featureids[i] < 0) {
      return WrongAttribute("nodes_featureids", "has {}, expected 0 or more",
                            op_.nodes_featureids[i]);
    }
    node.feature = static_cast<size_t>(op_.nodes_featureids[i]);
    node.split = splits_[i];
    const Ints& missing = op_.nodes_missing_value_tracks_true;
    node.missing_goes_true = !missing.empty() && missing[i] == 1;
    forest_.nodes.push_back(node);
    return absl::OkStatus();
  }
  // Numbers are looked up in a map, since they need not be dense.
  absl::StatusOr<Forest::Place> Find(const char* attribute, int64_t tree,
                                     int64_t node) const {
    const auto found = numbers_.find({tree, node});
    if (found != numbers_.end()) return places_[found->second];
    return WrongAttribute(attribute, "has {}, which tree {} has not", node,
                          tree);
  }
  // A leaf may have votes for several targets, and several for one.
  absl::Status AddVotes(const VoteLists& votes, const Doubles& weights,
                        size_t targets) {
    for (size_t i = 0; i < weights.size(); ++i) {
      NODEWISE_ASSIGN_OR_RETURN(
          const Forest::Place place,
          Find(votes.names[1], votes.trees[i], votes.nodes[i]));
      NODEWISE_RETURN_IF_ERROR(CheckIndex(votes.names[2], votes.targets[i],
                                          static_cast<int64_t>(targets)));
      // Votes of an inner node are never met.
      if (!place.is_leaf) continue;
      forest_.leaves[place.index].push_back(
          {static_cast<size_t>(votes.targets[i]), weights[i]});
    }
    return absl::OkStatus();
  }

  const ops::TreeNodes& op_;
  const Doubles& splits_;
  std::map<Key, size_t> numbers_;
  std::vector<Forest::Place> places_;
  Forest forest_;
};

// Returns a list of numbers, which may be a tensor instead. Opset 3 of
// ai.onnx.ml added tensors, which may be doubles. Lists are floats.
absl::StatusOr<Doubles> ListOrTensor(const char* attribute,
                                     const std::vector<float>& list,
                                     const std::optional<NDArray>& tensor) {
  if (!tensor.has_value()) return Doubles(list.begin(), list.end());
  if (!list.empty()) {
    return AttributeError(attribute, "is given as a tensor too");
  }
  return ToDoubles(*tensor);
}

// Tensors in place of lists, which newer versions have. The tensors of hit
// rates are ignored, like the lists.
struct TreeTensors {
  std::optional<NDArray> base = {};
  std::optional<NDArray> splits = {};
  std::optional<NDArray> weights = {};
};
TreeTensors TensorsOf(const ops::TreeNodes& /*unused*/) { return {}; }
TreeTensors TensorsOf(const ops::TreeEnsembleRegressor& op) {
  return {op.base_values_as_tensor, op.nodes_values_as_tensor,
          op.target_weights_as_tensor};
}
TreeTensors TensorsOf(const ops::TreeEnsembleClassifier& op) {
  return {op.base_values_as_tensor, op.nodes_values_as_tensor,
          op.class_weights_as_tensor};
}

struct Trees {
  Doubles base;
  Doubles weights;
  Forest forest;
};
// Check() builds the trees too, so that a model which is wrong is refused
// before it runs.
template <typename Class>
absl::StatusOr<Trees> TreesOf(const Class& op, size_t targets) {
  const TreeTensors tensors = TensorsOf(op);
  const VoteLists votes = VotesOf(op);
  Trees trees;
  NODEWISE_ASSIGN_OR_RETURN(
      trees.base, ListOrTensor("base_values", op.base_values, tensors.base));
  NODEWISE_ASSIGN_OR_RETURN(
      const Doubles splits,
      ListOrTensor("nodes_values", op.nodes_values, tensors.splits));
  NODEWISE_ASSIGN_OR_RETURN(
      trees.weights,
      ListOrTensor(votes.names[3], votes.weights, tensors.weights));
  NODEWISE_ASSIGN_OR_RETURN(
      trees.forest,
      ForestMaker(op, splits).Make(votes, trees.weights, targets));
  return trees;
}

// More features than the trees ask for are fine.
absl::Status CheckRows(const Inputs& in, const Forest& forest) {
  NODEWISE_RETURN_IF_ERROR(
      All(RequireClassic(in, 0), RequireRank(in, 0, 1, 2)));
  const TensorType& type = in.type(0);
  if (!type.has_rank()) return absl::OkStatus();
  const Dim& features = type.shape->back();
  const auto needed = static_cast<int64_t>(forest.NeededFeatures());
  if (!features.is_known() || features.size() >= needed) {
    return absl::OkStatus();
  }
  return WrongInput(0, "has {} features, but nodes_featureids asks for {}",
                    features.size(), needed);
}

// A base of 0 is not an addition and rounds nothing.
Approximate PlusBase(const Approximate& score, double base) {
  return base == 0 ? score : Plus(score, {base, 0, 0}).Rounded();
}

// Trees are built anew for each call; base values that are not given are 0.
template <typename Class>
struct Regressor : Class {
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(CheckTargets(this->n_targets));
    NODEWISE_ASSIGN_OR_RETURN(const Trees trees, OwnTrees());
    if (!trees.base.empty()) {
      NODEWISE_RETURN_IF_ERROR(
          CheckListCount("base_values", trees.base.size(), Targets()));
    }
    return CheckRows(in, trees.forest);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return Countable(OutputInfos{TensorType(
        kFloat32, Shape{CountRows(in, 0), this->n_targets.value_or(0)})});
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(Trees trees, OwnTrees());
    trees.base.resize(Targets(), 0);
    std::vector<Scores> rows;
    const auto add = [&](const std::vector<TargetScore>& scores) {
      Scores& row = rows.emplace_back();
      for (size_t i = 0; i < scores.size(); ++i) {
        row.push_back(PlusBase(Aggregated(scores[i], this->aggregate_function,
                                          trees.forest.roots.size(), kFloat32),
                               trees.base[i]));
      }
      Transform(this->post_transform, &row);
    };
    NODEWISE_RETURN_IF_ERROR(ForEachItem(args, trees.forest, Targets(), add));
    return StoreScores(args, 0, rows);
  }

 private:
  size_t Targets() const {
    return static_cast<size_t>(this->n_targets.value_or(0));
  }
  absl::StatusOr<Trees> OwnTrees() const {
    return TreesOf<Class>(*this, Targets());
  }
};

struct VoteRule {
  PostTransform transform = PostTransform::kNone;
  Doubles base;
  // Two classes, and all votes are for one of them.
  bool has_one_score = false;
  size_t voted = 0;  // That class.
  bool all_positive = true;

  // Follows onnxruntime, of which ONNX says little: with two classes and votes
  // for one of them only, a single score decides by a threshold. It is 0.5
  // where all weights are positive, since votes are probabilities then, else 0.
  Winner WinnerOf(const std::vector<TargetScore>& votes, Scores* scores) const {
    for (const TargetScore& vote : votes) {
      scores->push_back(Aggregated(vote, TreeAggregate::kSum, 1, kFloat32));
    }
    if (has_one_score && base.size() < 2) return WinnerOfOneScore(scores);
    for (size_t i = 0; i < base.size(); ++i) {
      (*scores)[i] = PlusBase((*scores)[i], base[i]);
    }
    // Classes without votes do not win, unless there are base values.
    Scores voted_for = *scores;
    for (size_t i = 0; i < votes.size() && base.empty(); ++i) {
      if (votes[i].has_votes()) continue;
      voted_for[i] = {-std::numeric_limits<double>::infinity(), 0, 0};
    }
    const Winner winner = Largest(voted_for);
    Transform(transform, scores);
    return winner;
  }

 private:
  // The single score is one of the second class. Where the votes are for the
  // second class, the first one has no score but 0, and the base does not
  // count.
  Winner WinnerOfOneScore(Scores* scores) const {
    const double threshold = all_positive ? 0.5 : 0;
    if (voted == 1) {
      const Winner winner = Above(threshold, (*scores)[1]);
      Transform(transform, scores);
      return winner;
    }
    scores->pop_back();
    if (!base.empty()) (*scores)[0] = PlusBase((*scores)[0], base[0]);
    const Winner winner = Above(threshold, (*scores)[0]);
    TransformToTwo(
        transform,
        all_positive ? OtherClass::kComplement : OtherClass::kNegative, scores);
    return winner;
  }
};

// The labels name the classes; the scores are those of the classes in that
// order.
template <typename Class>
struct Classifier : Class {
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(
        RefuseStrings("classlabels_strings", this->classlabels_strings));
    const size_t classes = this->classlabels_int64s.size();
    if (classes < 2) {
      return WrongAttribute("classlabels_int64s",
                            "has {} elements, expected 2 or more", classes);
    }
    NODEWISE_ASSIGN_OR_RETURN(const Trees trees,
                              TreesOf<Class>(*this, classes));
    const size_t base = trees.base.size();
    if (base != 0 && !(base == 1 && classes == 2)) {
      NODEWISE_RETURN_IF_ERROR(CheckListCount("base_values", base, classes));
    }
    return CheckRows(in, trees.forest);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const auto classes = static_cast<int64_t>(this->classlabels_int64s.size());
    return InferClasses(CountRows(in, 0), classes);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const size_t classes = this->classlabels_int64s.size();
    NODEWISE_ASSIGN_OR_RETURN(const Trees trees,
                              TreesOf<Class>(*this, classes));
    const VoteRule rule = RuleOf(trees);
    std::vector<Scores> rows;
    std::vector<Winner> winners;
    const auto add = [&](const std::vector<TargetScore>& votes) {
      winners.push_back(rule.WinnerOf(votes, &rows.emplace_back()));
    };
    NODEWISE_RETURN_IF_ERROR(ForEachItem(args, trees.forest, classes, add));
    NODEWISE_RETURN_IF_ERROR(
        StoreLabels(args, 0, winners, this->classlabels_int64s));
    return StoreScores(args, 1, rows);
  }

 private:
  VoteRule RuleOf(const Trees& trees) const {
    const Ints& ids = this->class_ids;
    return {this->post_transform, trees.base,
            this->classlabels_int64s.size() == 2 && !ids.empty() &&
                std::ranges::all_of(
                    ids, [&ids](int64_t id) { return id == ids[0]; }),
            ids.empty() ? 0 : static_cast<size_t>(ids[0]),
            std::ranges::all_of(trees.weights,
                                [](double weight) { return weight >= 0; })};
  }
};

// The attributes that both operators have, in ONNX's order, which is not that
// of the alphabet for the ones that follow.
constexpr auto NodeFields() {
  using Class = ops::TreeNodes;
  return FieldList(Field<&Class::base_values>("base_values"),
                   Field<&Class::nodes_falsenodeids>("nodes_falsenodeids"),
                   Field<&Class::nodes_featureids>("nodes_featureids"),
                   Field<&Class::nodes_hitrates>("nodes_hitrates"),
                   Field<&Class::nodes_missing_value_tracks_true>(
                       "nodes_missing_value_tracks_true"),
                   Field<&Class::nodes_modes>("nodes_modes"),
                   Field<&Class::nodes_nodeids>("nodes_nodeids"),
                   Field<&Class::nodes_treeids>("nodes_treeids"),
                   Field<&Class::nodes_truenodeids>("nodes_truenodeids"),
                   Field<&Class::nodes_values>("nodes_values"),
                   Field<&Class::post_transform>("post_transform"));
}

struct TreeEnsembleRegressor1 : Regressor<ops::TreeEnsembleRegressor1> {
  static constexpr auto Fields() {
    using Class = ops::TreeEnsembleRegressor1;
    return JoinedFields(
        NodeFields(),
        FieldList(Field<&Class::aggregate_function>("aggregate_function"),
                  Field<&Class::n_targets>("n_targets"),
                  Field<&Class::target_ids>("target_ids"),
                  Field<&Class::target_nodeids>("target_nodeids"),
                  Field<&Class::target_treeids>("target_treeids"),
                  Field<&Class::target_weights>("target_weights")));
  }
};

struct TreeEnsembleRegressor : Regressor<ops::TreeEnsembleRegressor> {
  static constexpr auto Fields() {
    using Class = ops::TreeEnsembleRegressor;
    return JoinedFields(
        nodewise::TreeEnsembleRegressor1::Fields(),
        FieldList(
            Field<&Class::base_values_as_tensor>("base_values_as_tensor"),
            Field<&Class::nodes_hitrates_as_tensor>("nodes_hitrates_as_tensor"),
            Field<&Class::nodes_values_as_tensor>("nodes_values_as_tensor"),
            Field<&Class::target_weights_as_tensor>(
                "target_weights_as_tensor")));
  }
};

struct TreeEnsembleClassifier1 : Classifier<ops::TreeEnsembleClassifier1> {
  static constexpr auto Fields() {
    using Class = ops::TreeEnsembleClassifier1;
    return JoinedFields(
        NodeFields(),
        FieldList(Field<&Class::class_ids>("class_ids"),
                  Field<&Class::class_nodeids>("class_nodeids"),
                  Field<&Class::class_treeids>("class_treeids"),
                  Field<&Class::class_weights>("class_weights"),
                  Field<&Class::classlabels_int64s>("classlabels_int64s"),
                  Field<&Class::classlabels_strings>("classlabels_strings")));
  }
};

// Newer versions only add attributes, so that their lists begin with those of
// the older ones.
struct TreeEnsembleClassifier : Classifier<ops::TreeEnsembleClassifier> {
  static constexpr auto Fields() {
    using Class = ops::TreeEnsembleClassifier;
    return JoinedFields(
        nodewise::TreeEnsembleClassifier1::Fields(),
        FieldList(
            Field<&Class::base_values_as_tensor>("base_values_as_tensor"),
            Field<&Class::class_weights_as_tensor>("class_weights_as_tensor"),
            Field<&Class::nodes_hitrates_as_tensor>("nodes_hitrates_as_tensor"),
            Field<&Class::nodes_values_as_tensor>("nodes_values_as_tensor")));
  }
};

template <typename Class, typename Rules>
constexpr OperatorDef RegressorRow(const char* name, int since) {
  return Row<Class, Rules>({.name = name,
                            .domain = "ai.onnx.ml",
                            .since = since,
                            .inputs = {"X"},
                            .outputs = {"Y"},
                            .bound = kSum});
}
template <typename Class, typename Rules>
constexpr OperatorDef ClassifierRow(int since) {
  return Row<Class, Rules>({.name = "TreeEnsembleClassifier",
                            .domain = "ai.onnx.ml",
                            .since = since,
                            .inputs = {"X"},
                            .outputs = {"Y", "Z"},
                            .bound = kSum});
}

constexpr OperatorDef kTrees[] = {
    RegressorRow<ops::TreeEnsemble, TreeEnsemble>("TreeEnsemble", 5),
    RegressorRow<ops::TreeEnsembleRegressor1, TreeEnsembleRegressor1>(
        "TreeEnsembleRegressor", 1),
    RegressorRow<ops::TreeEnsembleRegressor, TreeEnsembleRegressor>(
        "TreeEnsembleRegressor", 3),
    ClassifierRow<ops::TreeEnsembleClassifier1, TreeEnsembleClassifier1>(1),
    ClassifierRow<ops::TreeEnsembleClassifier, TreeEnsembleClassifier>(3),
};

}  // namespace

absl::Span<const OperatorDef> TreeEnsembleOperators() { return kTrees; }

}  // namespace nodewise
