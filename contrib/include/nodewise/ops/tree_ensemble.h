#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nodewise/ndarray/ndarray.h"
#include "nodewise/ops/post_transform.h"

namespace nodewise::ops {

// Decision trees, an operator of ai.onnx.ml. Each row of X goes down every
// tree, from its root to a leaf, whose weight counts for one target. Node by
// node: what is compared (features, splits), how (modes: <=, <, >=, >, ==, !=,
// and 6 for a number of the node's set), and where to go if that holds or not.
struct TreeEnsemble {
  int64_t aggregate_function = 1;  // Mean (0), sum, least or largest.
  std::vector<int64_t> leaf_targetids;
  NDArray leaf_weights;
  // The sets of the nodes of mode 6, one after the other, each with a NaN
  // behind it.
  std::optional<NDArray> membership_values;
  std::optional<int64_t> n_targets;       // Needed.
  std::vector<int64_t> nodes_falseleafs;  // 1: a leaf comes next.
  std::vector<int64_t> nodes_falsenodeids;
  std::vector<int64_t> nodes_featureids;
  std::optional<NDArray> nodes_hitrates;  // Ignored: how often a node is met.
  // 1: a NaN goes where a condition that holds goes.
  std::vector<int64_t> nodes_missing_value_tracks_true;
  NDArray nodes_modes;
  NDArray nodes_splits;
  std::vector<int64_t> nodes_trueleafs;
  std::vector<int64_t> nodes_truenodeids;
  int64_t post_transform = 0;  // Only 0, none, is known.
  std::vector<int64_t> tree_roots;
};

// The older form of such trees: leaves are nodes too, and each node has a
// number of its own (nodes_nodeids) within its tree (nodes_treeids). The first
// node of a tree is its root.
struct TreeNodes {
  std::vector<float> base_values;  // Added to the scores.
  std::vector<int64_t> nodes_falsenodeids;
  std::vector<int64_t> nodes_featureids;
  std::vector<float> nodes_hitrates;  // Ignored.
  std::vector<int64_t> nodes_missing_value_tracks_true;
  std::vector<std::string> nodes_modes;  // BRANCH_LEQ, ..., or LEAF.
  std::vector<int64_t> nodes_nodeids;
  std::vector<int64_t> nodes_treeids;
  std::vector<int64_t> nodes_truenodeids;
  std::vector<float> nodes_values;
  PostTransform post_transform = PostTransform::kNone;
};

enum class TreeAggregate { kMean, kSum, kLeast, kLargest };

// What trees say of numbers. Weight i is what leaf target_nodeids[i] of tree
// target_treeids[i] says of target target_ids[i]; a leaf may have several.
struct TreeEnsembleRegressor1 : TreeNodes {
  TreeAggregate aggregate_function = TreeAggregate::kSum;
  std::optional<int64_t> n_targets;  // Needed.
  std::vector<int64_t> target_ids;
  std::vector<int64_t> target_nodeids;
  std::vector<int64_t> target_treeids;
  std::vector<float> target_weights;
};
// Numbers may be doubles: tensors in place of the lists of their names.
struct TreeEnsembleRegressor : TreeEnsembleRegressor1 {
  std::optional<NDArray> base_values_as_tensor;
  std::optional<NDArray> nodes_hitrates_as_tensor;
  std::optional<NDArray> nodes_values_as_tensor;
  std::optional<NDArray> target_weights_as_tensor;
};

// The class that trees vote for, and the scores of all. Strings as labels are
// refused.
struct TreeEnsembleClassifier1 : TreeNodes {
  std::vector<int64_t> class_ids;
  std::vector<int64_t> class_nodeids;
  std::vector<int64_t> class_treeids;
  std::vector<float> class_weights;
  std::vector<int64_t> classlabels_int64s;
  std::vector<std::string> classlabels_strings;
};
struct TreeEnsembleClassifier : TreeEnsembleClassifier1 {
  std::optional<NDArray> base_values_as_tensor;
  std::optional<NDArray> class_weights_as_tensor;
  std::optional<NDArray> nodes_hitrates_as_tensor;
  std::optional<NDArray> nodes_values_as_tensor;
};

}  // namespace nodewise::ops
