#include "nodewise/ops/tree_ensemble.h"

#include <algorithm>
#include <cmath>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/sum_bounds.h"
#include "fmt/format.h"
#include "nodewise/op/op_row.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

using Ints = std::vector<int64_t>;

absl::Status CheckCount(const char* attribute, int64_t found, size_t expected) {
  if (found == static_cast<int64_t>(expected)) return absl::OkStatus();
  return AttributeError(
      attribute, fmt::format("has {} elements, expected {}", found, expected));
}
absl::Status CheckTensor(const char* attribute, const NDArray& tensor,
                         size_t expected) {
  return CheckCount(attribute, tensor.defined() ? CountOf(tensor) : 0,
                    expected);
}
absl::Status CheckRange(const char* attribute, const Ints& values,
                        int64_t end) {
  for (const int64_t value : values) {
    if (value >= 0 && value < end) continue;
    return AttributeError(
        attribute, fmt::format("has {}, expected 0 to {}", value, end - 1));
  }
  return absl::OkStatus();
}

enum Aggregate : int64_t { kMean, kSumOfAll, kLeast, kLargest };
constexpr double kMember = 6;

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
  absl::Status Check(const Inputs& in) const;
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const Shape shape = {SideOf(in, 0, 0), n_targets.value_or(0)};
    TensorType type(in.type(0).dtype, shape);
    if (const auto sizes = type.sizes()) {
      NODEWISE_RETURN_IF_ERROR(NumElements(*sizes).status());
    }
    return OutputInfos{std::move(type)};
  }
  absl::Status Evaluate(EvalArgs& args) const;

 private:
  absl::Status CheckNodes() const;
  absl::Status CheckNext(const char* attribute, const Ints& ids,
                         const Ints& are_leaves) const;
};

// What is next is a leaf or a node.
absl::Status TreeEnsemble::CheckNext(const char* attribute, const Ints& ids,
                                     const Ints& are_leaves) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto end = static_cast<int64_t>(
        are_leaves[i] != 0 ? leaf_targetids.size() : nodes_featureids.size());
    if (ids[i] >= 0 && ids[i] < end) continue;
    return AttributeError(
        attribute, fmt::format("has {}, expected 0 to {}", ids[i], end - 1));
  }
  return absl::OkStatus();
}

absl::Status TreeEnsemble::CheckNodes() const {
  const size_t count = nodes_featureids.size();
  const auto check = [&](const char* attribute, const Ints& list) {
    return CheckCount(attribute, static_cast<int64_t>(list.size()), count);
  };
  NODEWISE_RETURN_IF_ERROR(
      All(check("nodes_falseleafs", nodes_falseleafs),
          check("nodes_falsenodeids", nodes_falsenodeids),
          check("nodes_trueleafs", nodes_trueleafs),
          check("nodes_truenodeids", nodes_truenodeids),
          CheckTensor("nodes_modes", nodes_modes, count),
          CheckTensor("nodes_splits", nodes_splits, count),
          CheckTensor("leaf_weights", leaf_weights, leaf_targetids.size()),
          CheckRange("tree_roots", tree_roots, static_cast<int64_t>(count)),
          CheckRange("leaf_targetids", leaf_targetids, *n_targets)));
  if (!nodes_missing_value_tracks_true.empty()) {
    NODEWISE_RETURN_IF_ERROR(check("nodes_missing_value_tracks_true",
                                   nodes_missing_value_tracks_true));
  }
  for (const double mode : ToDoubles(nodes_modes)) {
    if (mode >= 0 && mode <= kMember) continue;
    return AttributeError("nodes_modes",
                          fmt::format("has {}, expected 0 to 6", mode));
  }
  return All(
      CheckNext("nodes_truenodeids", nodes_truenodeids, nodes_trueleafs),
      CheckNext("nodes_falsenodeids", nodes_falsenodeids, nodes_falseleafs));
}

absl::Status TreeEnsemble::Check(const Inputs& in) const {
  if (post_transform != 0) {
    return AttributeError(
        "post_transform",
        fmt::format("is {}, expected 0, none", post_transform));
  }
  if (aggregate_function < kMean || aggregate_function > kLargest) {
    return AttributeError(
        "aggregate_function",
        fmt::format("is {}, expected 0 to 3", aggregate_function));
  }
  if (n_targets.value_or(0) < 1) {
    return AttributeError("n_targets", fmt::format("is {}, expected 1 or more",
                                                   n_targets.value_or(0)));
  }
  return All(RequireFloat(in, 0), RequireRank(in, 0, 2), CheckNodes());
}

// The trees, with their tensors as doubles.
class Walker {
 public:
  explicit Walker(const ops::TreeEnsemble& op)
      : op_(op),
        modes_(ToDoubles(op.nodes_modes)),
        splits_(ToDoubles(op.nodes_splits)),
        sets_(modes_.size()) {
    if (!op.membership_values.has_value()) return;
    const std::vector<double> values = ToDoubles(*op.membership_values);
    size_t at = 0;
    for (size_t node = 0; node < modes_.size(); ++node) {
      if (modes_[node] != kMember) continue;
      for (; at < values.size() && !std::isnan(values[at]); ++at) {
        sets_[node].push_back(values[at]);
      }
      ++at;
    }
  }

  // Returns the leaf that this row comes to.
  absl::StatusOr<size_t> Leaf(int64_t root, absl::Span<const double> x) const {
    auto node = static_cast<size_t>(root);
    for (size_t steps = 0; steps < modes_.size(); ++steps) {
      const bool holds =
          Holds(node, x[static_cast<size_t>(op_.nodes_featureids[node])]);
      const Ints& next = holds ? op_.nodes_truenodeids : op_.nodes_falsenodeids;
      const Ints& are_leaves =
          holds ? op_.nodes_trueleafs : op_.nodes_falseleafs;
      const bool is_leaf = are_leaves[node] != 0;
      node = static_cast<size_t>(next[node]);
      if (is_leaf) return node;
    }
    return absl::InvalidArgumentError(fmt::format(
        "the tree of root {} leads in a circle, expected a leaf", root));
  }

 private:
  bool Holds(size_t node, double x) const {
    const Ints& missing = op_.nodes_missing_value_tracks_true;
    if (std::isnan(x) && !missing.empty() && missing[node] != 0) return true;
    const double split = splits_[node];
    switch (static_cast<int>(modes_[node])) {
      case 0:
        return x <= split;
      case 1:
        return x < split;
      case 2:
        return x >= split;
      case 3:
        return x > split;
      case 4:
        return x == split;
      case 5:
        return x != split;
      default:
        return std::find(sets_[node].begin(), sets_[node].end(), x) !=
               sets_[node].end();
    }
  }

  const ops::TreeEnsemble& op_;
  std::vector<double> modes_;
  std::vector<double> splits_;
  std::vector<std::vector<double>> sets_;  // By node.
};

// One element of the output.
struct Score {
  SumOfTerms sum;
  double least = 0;
  double largest = 0;

  void Add(double weight) {
    least = sum.terms == 0 ? weight : std::min(least, weight);
    largest = sum.terms == 0 ? weight : std::max(largest, weight);
    sum.terms += 1;
    sum.absolute += std::fabs(weight);
    sum.squares += weight * weight;
    sum.result += weight;
  }
};

absl::Status TreeEnsemble::Evaluate(EvalArgs& args) const {
  const auto shape = args.shape(0);
  NODEWISE_RETURN_IF_ERROR(
      CheckRange("nodes_featureids", nodes_featureids, shape[1]));
  NODEWISE_ASSIGN_OR_RETURN(
      const NDArray y,
      args.MakeOutput(0, {shape[0], *n_targets}, args.dtype(0)));
  const Walker walker(*this);
  const std::vector<double> x = ToDoubles(args.in(0));
  const std::vector<double> weights = ToDoubles(leaf_weights);
  const auto trees = static_cast<double>(tree_roots.size());
  Bounds* const bounds = args.bounds(0);
  std::vector<double> results;
  for (int64_t row = 0; row < shape[0]; ++row) {
    std::vector<Score> scores(static_cast<size_t>(*n_targets));
    const absl::Span<const double> features(x.data() + row * shape[1],
                                            static_cast<size_t>(shape[1]));
    for (const int64_t root : tree_roots) {
      NODEWISE_ASSIGN_OR_RETURN(const size_t leaf, walker.Leaf(root, features));
      scores[static_cast<size_t>(leaf_targetids[leaf])].Add(weights[leaf]);
    }
    for (const Score& score : scores) {
      const bool is_sum = aggregate_function <= kSumOfAll;
      const double divisor = aggregate_function == kMean ? trees : 1;
      results.push_back(is_sum ? score.sum.result / divisor
                        : aggregate_function == kLeast ? score.least
                                                       : score.largest);
      if (bounds == nullptr) continue;
      const SumBound bound = BoundSum(y.dtype(), score.sum);
      // A mean is rounded once more.
      const double rounding = HalfUlp(y.dtype(), results.back());
      bounds->proved.push_back(is_sum ? bound.proved / divisor + rounding : 0);
      bounds->expected.push_back(is_sum ? bound.expected / divisor + rounding
                                        : 0);
    }
  }
  StoreDoubles(results.data(), 0, CountOf(y), y);
  return absl::OkStatus();
}

constexpr OperatorDef kTrees[] = {
    Row<ops::TreeEnsemble, TreeEnsemble>({.name = "TreeEnsemble",
                                          .domain = "ai.onnx.ml",
                                          .since = 5,
                                          .inputs = {"X"},
                                          .outputs = {"Y"},
                                          .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> TreeEnsembleOperators() { return kTrees; }

}  // namespace nodewise
