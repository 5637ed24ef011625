#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/tensors/tensor_sink.h"

namespace nodewise {

// Tensors whose elements are a little off, and what is off by more. All tensors
// are floats, compact and in host memory.

// Returns the tensor with each element moved away from zero, as far as its type
// lets it within the bound.
absl::StatusOr<NDArray> MoveAll(const NDArray& tensor,
                                const LeastBounds& bounds);

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
// Returns those in which it is further away from `middle` than the limit.
std::vector<int64_t> ElementsBeyond(const NDArray& middle,
                                    const UnboundedLimit& limit,
                                    const NDArray& actual);

}  // namespace nodewise
