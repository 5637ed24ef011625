#include "nodewise/ops/tree_lists.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/class_scores.h"
#include "contrib/ops/util/classic_rules.h"
#include "contrib/ops/util/forest_maker.h"
#include "fmt/format.h"
#include "nodewise/op/op_row.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

template <>
struct Words<TreeAggregate> {
  static constexpr std::pair<TreeAggregate, std::string_view> kAll[] = {
      {TreeAggregate::kMean, "AVERAGE"},
      {TreeAggregate::kSum, "SUM"},
      {TreeAggregate::kLeast, "MIN"},
      {TreeAggregate::kLargest, "MAX"}};
};

namespace {

using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;

// Returns a list of numbers, which may be a tensor instead.
absl::StatusOr<Doubles> ListOrTensor(const char* attribute,
                                     const std::vector<float>& list,
                                     const std::optional<NDArray>& tensor) {
  if (!tensor.has_value()) return Doubles(list.begin(), list.end());
  if (!list.empty()) {
    return AttributeError(attribute, "is given as a tensor too");
  }
  return ToDoubles(*tensor);
}

// Tensors in place of lists, which newer versions have.
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

// The numbers of the trees, wherever they stand.
struct TreeNumbers {
  Doubles base;
  Doubles splits;
  Doubles weights;
};
template <typename Class>
absl::StatusOr<TreeNumbers> TreeNumbersOf(const Class& op,
                                          const char* weights_name,
                                          const std::vector<float>& weights) {
  const TreeTensors tensors = TensorsOf(op);
  TreeNumbers numbers;
  NODEWISE_ASSIGN_OR_RETURN(
      numbers.base, ListOrTensor("base_values", op.base_values, tensors.base));
  NODEWISE_ASSIGN_OR_RETURN(
      numbers.splits,
      ListOrTensor("nodes_values", op.nodes_values, tensors.splits));
  NODEWISE_ASSIGN_OR_RETURN(
      numbers.weights, ListOrTensor(weights_name, weights, tensors.weights));
  return numbers;
}

// What both kinds do with rows of features.
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
  return InputError(0, fmt::format("has {} features, but nodes_featureids asks "
                                   "for {}",
                                   features.size(), needed));
}

// Calls `f` with the scores of each row.
template <typename F>
absl::Status ForEachItem(const EvalArgs& args, const Forest& forest,
                         size_t targets, F f) {
  const FeatureRows size = RowsOf(args.shape(0));
  const Doubles x = ToDoubles(args.in(0));
  for (int64_t row = 0; row < size.rows; ++row) {
    const absl::Span<const double> features(x.data() + row * size.features,
                                            static_cast<size_t>(size.features));
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<TargetScore> scores,
                              ScoresOf(forest, features, targets));
    f(scores);
  }
  return absl::OkStatus();
}

Approximate ScoreOf(const TreeResult& result) {
  return {result.value, result.bound.proved, result.bound.expected};
}
Approximate PlusBase(const Approximate& score, double base) {
  return base == 0 ? score : Plus(score, {base, 0, 0}).Rounded();
}

template <typename Class>
struct Regressor : Class {
  absl::Status Check(const Inputs& in) const {
    if (this->n_targets.value_or(0) < 1) {
      return AttributeError("n_targets",
                            fmt::format("is {}, expected 1 or more",
                                        this->n_targets.value_or(0)));
    }
    NODEWISE_ASSIGN_OR_RETURN(const TreeNumbers numbers, Numbers());
    NODEWISE_ASSIGN_OR_RETURN(const Forest forest, Trees(numbers));
    if (!numbers.base.empty()) {
      NODEWISE_RETURN_IF_ERROR(
          CheckListCount("base_values", numbers.base.size(), Targets()));
    }
    return CheckRows(in, forest);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    TensorType type(kFloat32,
                    Shape{CountRows(in, 0), this->n_targets.value_or(0)});
    if (const auto sizes = type.sizes()) {
      NODEWISE_RETURN_IF_ERROR(NumElements(*sizes).status());
    }
    return OutputInfos{std::move(type)};
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(TreeNumbers numbers, Numbers());
    NODEWISE_ASSIGN_OR_RETURN(const Forest forest, Trees(numbers));
    numbers.base.resize(Targets(), 0);
    std::vector<Scores> rows;
    const auto add = [&](const std::vector<TargetScore>& scores) {
      Scores& row = rows.emplace_back();
      for (size_t i = 0; i < scores.size(); ++i) {
        const TreeResult result = Aggregated(
            scores[i], this->aggregate_function, forest.roots.size(), kFloat32);
        row.push_back(PlusBase(ScoreOf(result), numbers.base[i]));
      }
      Transform(this->post_transform, &row);
    };
    NODEWISE_RETURN_IF_ERROR(ForEachItem(args, forest, Targets(), add));
    return StoreScores(args, 0, rows);
  }

 private:
  size_t Targets() const {
    return static_cast<size_t>(this->n_targets.value_or(0));
  }
  absl::StatusOr<TreeNumbers> Numbers() const {
    return TreeNumbersOf(static_cast<const Class&>(*this), "target_weights",
                         this->target_weights);
  }
  absl::StatusOr<Forest> Trees(const TreeNumbers& numbers) const {
    return MakeForest(*this, numbers.splits,
                      {this->target_treeids,
                       this->target_nodeids,
                       this->target_ids,
                       numbers.weights,
                       {"target_treeids", "target_nodeids", "target_ids"}},
                      Targets());
  }
};

// How votes become scores and a class.
struct VoteRule {
  PostTransform transform = PostTransform::kNone;
  Doubles base;
  // Two classes, and all votes are for one of them.
  bool has_one_score = false;
  size_t voted = 0;  // That class.
  bool all_positive = true;

  Winner WinnerOf(const std::vector<TargetScore>& votes, Scores* scores) const;

 private:
  Winner OfOneScore(Scores* scores) const;
};

// The score is one of the second class. Where the votes are for that one the
// other has no score but 0, and the base does not count.
Winner VoteRule::OfOneScore(Scores* scores) const {
  const double threshold = all_positive ? 0.5 : 0;
  if (voted == 1) {
    const Winner winner = Above(threshold, (*scores)[1]);
    Transform(transform, scores);
    return winner;
  }
  scores->pop_back();
  if (!base.empty()) (*scores)[0] = PlusBase((*scores)[0], base[0]);
  const Winner winner = Above(threshold, (*scores)[0]);
  TransformToTwo(transform,
                 all_positive ? OtherClass::kComplement : OtherClass::kNegative,
                 scores);
  return winner;
}

Winner VoteRule::WinnerOf(const std::vector<TargetScore>& votes,
                          Scores* scores) const {
  for (const TargetScore& vote : votes) {
    scores->push_back(
        ScoreOf(Aggregated(vote, TreeAggregate::kSum, 1, kFloat32)));
  }
  if (has_one_score && base.size() < 2) return OfOneScore(scores);
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

template <typename Class>
struct Classifier : Class {
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(
        RefuseStrings("classlabels_strings", this->classlabels_strings));
    const size_t classes = this->classlabels_int64s.size();
    if (classes < 2) {
      return AttributeError(
          "classlabels_int64s",
          fmt::format("has {} elements, expected 2 or more", classes));
    }
    NODEWISE_ASSIGN_OR_RETURN(const TreeNumbers numbers, Numbers());
    NODEWISE_ASSIGN_OR_RETURN(const Forest forest, Trees(numbers));
    const size_t base = numbers.base.size();
    if (base != 0 && !(base == 1 && classes == 2)) {
      NODEWISE_RETURN_IF_ERROR(CheckListCount("base_values", base, classes));
    }
    return CheckRows(in, forest);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const auto classes = static_cast<int64_t>(this->classlabels_int64s.size());
    return InferClasses(CountRows(in, 0), classes);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const TreeNumbers numbers, Numbers());
    NODEWISE_ASSIGN_OR_RETURN(const Forest forest, Trees(numbers));
    const VoteRule rule = RuleOf(numbers);
    std::vector<Scores> rows;
    std::vector<Winner> winners;
    const auto add = [&](const std::vector<TargetScore>& votes) {
      winners.push_back(rule.WinnerOf(votes, &rows.emplace_back()));
    };
    NODEWISE_RETURN_IF_ERROR(
        ForEachItem(args, forest, this->classlabels_int64s.size(), add));
    NODEWISE_RETURN_IF_ERROR(
        StoreLabels(args, 0, winners, this->classlabels_int64s));
    return StoreScores(args, 1, rows);
  }

 private:
  absl::StatusOr<TreeNumbers> Numbers() const {
    return TreeNumbersOf(static_cast<const Class&>(*this), "class_weights",
                         this->class_weights);
  }
  absl::StatusOr<Forest> Trees(const TreeNumbers& numbers) const {
    return MakeForest(*this, numbers.splits,
                      {this->class_treeids,
                       this->class_nodeids,
                       this->class_ids,
                       numbers.weights,
                       {"class_treeids", "class_nodeids", "class_ids"}},
                      this->classlabels_int64s.size());
  }
  VoteRule RuleOf(const TreeNumbers& numbers) const {
    const Ints& ids = this->class_ids;
    VoteRule rule;
    rule.transform = this->post_transform;
    rule.base = numbers.base;
    rule.voted = ids.empty() ? 0 : static_cast<size_t>(ids[0]);
    rule.has_one_score =
        this->classlabels_int64s.size() == 2 && !ids.empty() &&
        std::all_of(ids.begin(), ids.end(),
                    [&ids](int64_t id) { return id == ids[0]; });
    rule.all_positive =
        std::all_of(numbers.weights.begin(), numbers.weights.end(),
                    [](double weight) { return weight >= 0; });
    return rule;
  }
};

template <typename... Lists>
constexpr auto FieldsOfAll(const Lists&... lists) {
  return std::apply([](auto... fields) { return FieldList(fields...); },
                    std::tuple_cat(lists...));
}

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

constexpr auto RegressorFields() {
  using Class = ops::TreeEnsembleRegressor1;
  return FieldsOfAll(
      NodeFields(),
      FieldList(Field<&Class::aggregate_function>("aggregate_function"),
                Field<&Class::n_targets>("n_targets"),
                Field<&Class::target_ids>("target_ids"),
                Field<&Class::target_nodeids>("target_nodeids"),
                Field<&Class::target_treeids>("target_treeids"),
                Field<&Class::target_weights>("target_weights")));
}

struct TreeEnsembleRegressor1 : Regressor<ops::TreeEnsembleRegressor1> {
  static constexpr auto Fields() { return RegressorFields(); }
};

struct TreeEnsembleRegressor : Regressor<ops::TreeEnsembleRegressor> {
  static constexpr auto Fields() {
    using Class = ops::TreeEnsembleRegressor;
    return FieldsOfAll(
        RegressorFields(),
        FieldList(
            Field<&Class::base_values_as_tensor>("base_values_as_tensor"),
            Field<&Class::nodes_hitrates_as_tensor>("nodes_hitrates_as_tensor"),
            Field<&Class::nodes_values_as_tensor>("nodes_values_as_tensor"),
            Field<&Class::target_weights_as_tensor>(
                "target_weights_as_tensor")));
  }
};

constexpr auto ClassifierFields() {
  using Class = ops::TreeEnsembleClassifier1;
  return FieldsOfAll(
      NodeFields(),
      FieldList(Field<&Class::class_ids>("class_ids"),
                Field<&Class::class_nodeids>("class_nodeids"),
                Field<&Class::class_treeids>("class_treeids"),
                Field<&Class::class_weights>("class_weights"),
                Field<&Class::classlabels_int64s>("classlabels_int64s"),
                Field<&Class::classlabels_strings>("classlabels_strings")));
}

struct TreeEnsembleClassifier1 : Classifier<ops::TreeEnsembleClassifier1> {
  static constexpr auto Fields() { return ClassifierFields(); }
};

struct TreeEnsembleClassifier : Classifier<ops::TreeEnsembleClassifier> {
  static constexpr auto Fields() {
    using Class = ops::TreeEnsembleClassifier;
    return FieldsOfAll(
        ClassifierFields(),
        FieldList(
            Field<&Class::base_values_as_tensor>("base_values_as_tensor"),
            Field<&Class::class_weights_as_tensor>("class_weights_as_tensor"),
            Field<&Class::nodes_hitrates_as_tensor>("nodes_hitrates_as_tensor"),
            Field<&Class::nodes_values_as_tensor>("nodes_values_as_tensor")));
  }
};

constexpr OperatorDef kTreeLists[] = {
    Row<ops::TreeEnsembleRegressor1, TreeEnsembleRegressor1>(
        {.name = "TreeEnsembleRegressor",
         .domain = "ai.onnx.ml",
         .inputs = {"X"},
         .outputs = {"Y"},
         .bound = kSum}),
    Row<ops::TreeEnsembleRegressor, TreeEnsembleRegressor>(
        {.name = "TreeEnsembleRegressor",
         .domain = "ai.onnx.ml",
         .since = 3,
         .inputs = {"X"},
         .outputs = {"Y"},
         .bound = kSum}),
    Row<ops::TreeEnsembleClassifier1, TreeEnsembleClassifier1>(
        {.name = "TreeEnsembleClassifier",
         .domain = "ai.onnx.ml",
         .inputs = {"X"},
         .outputs = {"Y", "Z"},
         .bound = kSum}),
    Row<ops::TreeEnsembleClassifier, TreeEnsembleClassifier>(
        {.name = "TreeEnsembleClassifier",
         .domain = "ai.onnx.ml",
         .since = 3,
         .inputs = {"X"},
         .outputs = {"Y", "Z"},
         .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> TreeListOperators() { return kTreeLists; }

}  // namespace nodewise
