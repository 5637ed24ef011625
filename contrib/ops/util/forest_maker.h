#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "contrib/ops/util/forest.h"
#include "nodewise/ops/tree_lists.h"

namespace nodewise {

// Fails with kInvalidArgument, naming the attribute, unless it has so many
// elements.
absl::Status CheckListCount(const char* attribute, size_t found,
                            size_t expected);

// The votes of leaves, and the names of the first three lists.
struct VoteLists {
  const std::vector<int64_t>& trees;
  const std::vector<int64_t>& nodes;
  const std::vector<int64_t>& targets;
  const std::vector<double>& weights;
  const char* names[3];
};

// Makes trees of lists of nodes, whose nodes_values are `splits`. Fails with
// kInvalidArgument, naming the attribute, for what fits together in no tree.
absl::StatusOr<Forest> MakeForest(const ops::TreeNodes& op,
                                  const std::vector<double>& splits,
                                  const VoteLists& votes, size_t targets);

}  // namespace nodewise
