#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/evaluate.h"

namespace nodewise {

// Tensors whose elements are a little off, and what is off by more. All tensors
// are floats, compact and in host memory.

enum class Direction { kAwayFromZero, kTowardsZero };

// Returns the tensor with each element moved as far as its type lets it within
// the bound.
absl::StatusOr<NDArray> MoveAll(const NDArray& tensor,
                                const LeastBounds& bounds, Direction direction);

// Returns the tensor with only these elements moved, by their bounds; those
// with a bound that is not known (NaN) stay where they are.
absl::StatusOr<NDArray> MoveSome(const NDArray& tensor,
                                 absl::Span<const int64_t> elements,
                                 absl::Span<const double> bounds,
                                 Direction direction);

// Returns `middle` with each element moved to where `moved` has it, or as far
// as `own` says if that is further, and then `half_ulps` times HalfUlp() more.
absl::StatusOr<NDArray> MoveFurther(const NDArray& middle, const NDArray& moved,
                                    const LeastBounds& own, double half_ulps);

// A reference with what it is compared with.
struct Reach {
  const NDArray& middle;
  // Elements may be as far from `middle` as this is,
  const NDArray& end;
  // or as these bounds say.
  LeastBounds own = {};
};

// Returns those elements, in ascending order, in which `actual` is further away
// than that. Elements that are equal are none of them.
std::vector<int64_t> ElementsBeyond(const Reach& reach, const NDArray& actual);
// As ElementsBeyond(), but looks only at some elements.
std::vector<int64_t> ElementsBeyond(const Reach& reach, const NDArray& actual,
                                    absl::Span<const int64_t> elements);

}  // namespace nodewise
