#include "nodewise/ops/tree_ensemble.h"

#include <cmath>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/forest.h"
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
  constexpr auto kLast = static_cast<int64_t>(TreeAggregate::kLargest);
  if (aggregate_function < 0 || aggregate_function > kLast) {
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

// Returns the sets of the nodes that ask for a member, by node.
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

// REQUIRES: the attributes have been checked.
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

absl::Status TreeEnsemble::Evaluate(EvalArgs& args) const {
  const auto shape = args.shape(0);
  NODEWISE_RETURN_IF_ERROR(
      CheckRange("nodes_featureids", nodes_featureids, shape[1]));
  NODEWISE_ASSIGN_OR_RETURN(
      const NDArray y,
      args.MakeOutput(0, {shape[0], *n_targets}, args.dtype(0)));
  const Forest forest = ForestOf(*this);
  const std::vector<double> x = ToDoubles(args.in(0));
  Bounds* const bounds = args.bounds(0);
  std::vector<double> results;
  for (int64_t row = 0; row < shape[0]; ++row) {
    const absl::Span<const double> features(x.data() + row * shape[1],
                                            static_cast<size_t>(shape[1]));
    NODEWISE_ASSIGN_OR_RETURN(
        const std::vector<TargetScore> scores,
        ScoresOf(forest, features, static_cast<size_t>(*n_targets)));
    for (const TargetScore& score : scores) {
      const TreeResult result =
          Aggregated(score, static_cast<TreeAggregate>(aggregate_function),
                     tree_roots.size(), y.dtype());
      results.push_back(result.value);
      if (bounds == nullptr) continue;
      bounds->proved.push_back(result.bound.proved);
      bounds->expected.push_back(result.bound.expected);
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
