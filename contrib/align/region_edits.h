#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "contrib/align/align_limits.h"
#include "contrib/align/tensor_match.h"
#include "nodewise/align/followed_reference.h"
#include "nodewise/align/layout.h"
#include "nodewise/align/value_locate.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// A small change of one operation, as people and compilers make by mistake,
// with which the network makes what the compiled graph has made.
struct FittingEdit {
  // The likeliest first. A number that was looked for says less than a change
  // that fits as it is, and a factor of the whole result least: of a chain of
  // products it fits all.
  enum class Kind { kChange, kNumber, kFactorOfResult };

  OperationId operation = kNoOperation;
  std::string what;     // "alpha 0.2 instead of 0.7", "without bias"
  double distance = 0;  // The distance that is left.
  Kind kind = Kind::kChange;
  bool is_input_dropped = false;  // An optional one.
};

// How much may still be tried for one culprit. A plain value.
class EditBudget {
 public:
  explicit EditBudget(const SearchLimits& limits)
      : time_(limits.clock, limits.most_edit_ns), left_(limits.most_edits) {}

  // Returns a budget of one of so many equal parts of what is left.
  EditBudget Part(size_t parts) const {
    EditBudget part = *this;
    part.tried_ = 0;
    part.gave_up_ = false;
    part.left_ = (left_ + parts - 1) / parts;
    part.time_ = time_.Part(parts);
    return part;
  }
  // Takes what a part of this one has used off it. The caller has to say that
  // the part was too small.
  void Spend(const EditBudget& part) {
    left_ -= std::min(left_, part.tried_);
    tried_ += part.tried_;
  }
  void GiveUp() { gave_up_ = true; }

  // Returns whether one more change may be tried, and counts it; if not, that
  // is remembered.
  bool TrySpend() {
    gave_up_ = gave_up_ || left_ == 0;
    if (left_ == 0 || !HasTime()) return false;
    --left_;
    ++tried_;
    return true;
  }
  // Returns whether there is time left; if not, that is remembered, too.
  bool HasTime() {
    const bool is_over = time_.IsOver();
    gave_up_ = gave_up_ || is_over;
    return !is_over;
  }
  size_t tried() const { return tried_; }
  bool gave_up() const { return gave_up_; }

 private:
  TimeLimit time_;
  size_t left_;
  size_t tried_ = 0;
  bool gave_up_ = false;
};

struct RegionQuestion {
  // GraphWalk::reference() before the entry was blamed, with what the region
  // makes unpinned.
  const FollowedReference& reference;
  const TensorMatcher& found;
  ValueId expected = kNoValue;
  const Layout& layout;
  absl::Span<const OperationId> region;
  const OpSet& operators;
  double clean = 0;  // GraphWalk::CleanDistanceOf().
};

// Tries changes one by one and returns those that fit, the likeliest and of
// these the nearest first. Each operation of the region gets its part of the
// budget, and what it does not need is the others'. A number that is looked for
// counts as one change.
std::vector<FittingEdit> FindEdits(const RegionQuestion& question,
                                   EditBudget* budget);

}  // namespace nodewise
