#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nodewise/ndarray/ndarray.h"

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

}  // namespace nodewise::ops
