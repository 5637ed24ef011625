#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/align/graph_walk.h"
#include "contrib/align/tensor_match.h"
#include "nodewise/align/layout.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// A small change of one operation, as people and compilers make by mistake,
// with which the network makes what the compiled graph has made.
struct FittingEdit {
  OperationId operation = kNoOperation;
  std::string what;     // "alpha 0.2 instead of 0.7", "without bias"
  double distance = 0;  // What is left.
  // The number in it was looked for, so that it is said after those without.
  bool is_fitted = false;
};

struct RegionQuestion {
  const GraphWalk& walk;  // Before the entry was blamed.
  const TensorMatcher& found;
  ValueId expected = kNoValue;
  const Layout& layout;
  absl::Span<const OperationId> region;
  const OpSet& operators;
  double clean = 0;  // GraphWalk::CleanDistanceOf().
};

struct RegionAnswer {
  std::vector<FittingEdit> edits;  // The nearest first.
  size_t tried = 0;
  bool gave_up = false;  // There are more edits than may be tried.
};

// Tries the changes one by one. Fails as GraphWalk does.
absl::StatusOr<RegionAnswer> FindEdits(const RegionQuestion& question);

}  // namespace nodewise
