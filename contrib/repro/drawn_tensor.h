#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/random/random.h"

namespace nodewise {

// Tensors that are like others without holding their numbers. All fail with
// kUnimplemented for types that have no numbers, and if there is no memory.

// Where the elements lie that are zero, NaN or infinite.
enum class SpecialPlaces {
  kDrawn,  // As many as before, anywhere.
  kKept,
};

// Returns a tensor of that type and shape with drawn numbers: they lie between
// the quantiles of the given ones, which are moved a little, so that scale,
// signs and range stay. Whole numbers stay whole and no further apart, so that
// indices stay in range. As many elements are zero, NaN or infinite as before.
absl::StatusOr<NDArray> DrawnLike(const NDArray& tensor, SpecialPlaces places,
                                  RandomSource& source);

// Returns a number that is the same for tensors that hold the same numbers, in
// any order and any number of times. Zeros do not count.
absl::StatusOr<uint64_t> HashOfNumbers(const NDArray& tensor);

// Returns the tensor with a drawn number in the place of each: of tensors with
// one HashOfNumbers() equal numbers become equal ones. So one that is another
// in some other order, or with zeros between, stays that. Zeros, NaN and
// infinities stay.
absl::StatusOr<NDArray> WithOtherNumbers(const NDArray& tensor);

}  // namespace nodewise
