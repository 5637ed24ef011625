#include "contrib/ops/util/forest.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

bool Forest::Holds(size_t node, double x) const {
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
  return std::find(sets[node].begin(), sets[node].end(), x) != sets[node].end();
}

absl::StatusOr<size_t> Forest::LeafOf(const Place& root,
                                      absl::Span<const double> x) const {
  Place place = root;
  for (size_t steps = 0; steps <= nodes.size(); ++steps) {
    if (place.is_leaf) return place.index;
    const Node& node = nodes[place.index];
    place = Holds(place.index, x[node.feature]) ? node.if_true : node.if_false;
  }
  return absl::InvalidArgumentError(fmt::format(
      "the tree of root {} leads in a circle, expected a leaf", root.index));
}

size_t Forest::NeededFeatures() const {
  size_t needed = 0;
  for (const Node& node : nodes) needed = std::max(needed, node.feature + 1);
  return needed;
}

void TargetScore::Add(double weight) {
  least = sum.terms == 0 ? weight : std::min(least, weight);
  largest = sum.terms == 0 ? weight : std::max(largest, weight);
  sum.terms += 1;
  sum.absolute += std::fabs(weight);
  sum.squares += weight * weight;
  sum.result += weight;
}

absl::StatusOr<std::vector<TargetScore>> ScoresOf(const Forest& forest,
                                                  absl::Span<const double> x,
                                                  size_t targets) {
  std::vector<TargetScore> scores(targets);
  for (const Forest::Place& root : forest.roots) {
    NODEWISE_ASSIGN_OR_RETURN(const size_t leaf, forest.LeafOf(root, x));
    for (const Forest::Vote& vote : forest.leaves[leaf]) {
      scores[vote.target].Add(vote.weight);
    }
  }
  return scores;
}

TreeResult Aggregated(const TargetScore& score, TreeAggregate aggregate,
                      size_t trees, DLDataType dtype) {
  if (aggregate == TreeAggregate::kLeast) return {score.least, {}};
  if (aggregate == TreeAggregate::kLargest) return {score.largest, {}};
  const double divisor =
      aggregate == TreeAggregate::kMean ? static_cast<double>(trees) : 1;
  TreeResult result{score.sum.result / divisor, BoundSum(dtype, score.sum)};
  // A mean is rounded once more.
  const double rounding = HalfUlp(dtype, result.value);
  result.bound.proved = result.bound.proved / divisor + rounding;
  result.bound.expected = result.bound.expected / divisor + rounding;
  return result;
}

}  // namespace nodewise
