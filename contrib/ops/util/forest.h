#pragma once

// Decision trees, whichever operator they come from.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/ops/util/sum_bounds.h"
#include "nodewise/ops/tree_lists.h"

namespace nodewise {

enum class BranchMode { kLeq, kLt, kGte, kGt, kEq, kNeq, kMember };
using ops::TreeAggregate;

struct Forest {
  // A leaf or a node.
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
                                absl::Span<const double> x) const;
  // Returns how many features a row needs at least.
  size_t NeededFeatures() const;

 private:
  bool Holds(size_t node, double x) const;
};

// What the trees together say of one target.
struct TargetScore {
  SumOfTerms sum;
  double least = 0;
  double largest = 0;

  void Add(double weight);
  bool has_votes() const { return sum.terms > 0; }
};
// Returns the scores of a row, one for each target.
absl::StatusOr<std::vector<TargetScore>> ScoresOf(const Forest& forest,
                                                  absl::Span<const double> x,
                                                  size_t targets);

// A result with how far a kernel of some type may be off.
struct TreeResult {
  double value = 0;
  SumBound bound{};
};
TreeResult Aggregated(const TargetScore& score, TreeAggregate aggregate,
                      size_t trees, DLDataType dtype);

}  // namespace nodewise
