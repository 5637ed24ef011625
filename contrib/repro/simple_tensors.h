#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Simpler versions of a tensor, each a copy. All fail with kUnimplemented for
// types that nothing calculates with, and if there is no memory.

// Returns a tensor of this type with one number everywhere.
absl::StatusOr<NDArray> FilledLike(const NDArray& tensor, double value);

// Returns the elements that are not zero, row by row.
absl::StatusOr<std::vector<uint64_t>> NonZeroElements(const NDArray& tensor);

// Returns the tensor with 0 at these elements.
absl::StatusOr<NDArray> WithZerosAt(const NDArray& tensor,
                                    absl::Span<const uint64_t> elements);

// Returns the tensor with 1 wherever it is not zero, or with each element
// rounded to an integer from -8 to 8, away from zero if it would become one.
absl::StatusOr<NDArray> WithOnes(const NDArray& tensor);
absl::StatusOr<NDArray> WithSmallIntegers(const NDArray& tensor);

// Returns the part of the tensor that lies at its beginning along each side.
// REQUIRES: `shape` has as many sides, none of them longer.
absl::StatusOr<NDArray> BeginningOf(const NDArray& tensor,
                                    absl::Span<const int64_t> shape);

}  // namespace nodewise
