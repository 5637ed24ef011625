#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "nodewise/align/layout.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/ndarray/tensor_stats.h"

namespace nodewise {

// What is known of a tensor without its contents. Its shape and type are the
// same with each set of inputs.
struct TensorFacts {
  std::vector<int64_t> shape;
  DLDataType dtype{};
  std::vector<TensorStats> stats;  // By set of inputs.
};

struct TensorMatch {
  Layout layout;
  double distance = 0;
  bool has_unknown_order = false;
};

// Returns whether the statistics of both allow one to hold the numbers of the
// other, in whatever order: that is asked of all pairs, and reads nothing.
bool MayMatch(const TensorFacts& source, const TensorFacts& compiled);

// Returns whether a match is as good as the nearest one: rounding makes one of
// two equal tensors a little nearer than the other.
bool IsAsNear(double distance, double nearest);

// Compares one compiled tensor with tensors of the network, one after the
// other.
class TensorMatcher {
 public:
  // `tensors` are by set of inputs, compact and in host memory.
  TensorMatcher(TensorFacts facts, absl::Span<const NDArray> tensors);

  const TensorFacts& facts() const { return facts_; }
  // Returns the nearest layout, if any is near enough with every set of inputs.
  // REQUIRES: MayMatch().
  std::optional<TensorMatch> Match(const TensorFacts& source,
                                   absl::Span<const NDArray> tensors) const;

  // Returns the layouts in which the compiled tensor may be meant to hold the
  // source, though its numbers are wrong: the likeliest first, by how alike the
  // numbers are all the same, and by which layouts compilers use.
  std::vector<Layout> LikelyLayouts(const TensorFacts& source,
                                    absl::Span<const NDArray> tensors,
                                    size_t most) const;
  // Returns the distance in that layout, whatever it is.
  double DistanceIn(const Layout& layout,
                    absl::Span<const NDArray> tensors) const;
  // Returns how many times the way from `here` to `there` leads nearest to the
  // compiled tensor: the least squares of all sets together. 0 if it leads
  // nowhere.
  double StepTowards(const Layout& layout, absl::Span<const NDArray> here,
                     absl::Span<const NDArray> there) const;

 private:
  TensorFacts facts_;
  std::vector<std::vector<double>> numbers_;  // By set of inputs.
};

}  // namespace nodewise
