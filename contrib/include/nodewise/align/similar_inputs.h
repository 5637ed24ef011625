#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Draws inputs like those that are given, which a network must be able to take
// as well: chosen among the elements there, so that numbers inside of the
// network are about as large as they were, which matters where it is quantised.
// Where only a few different floats are there, they are drawn uniformly between
// the least and the largest one; or around them by half of their size if they
// are one number or nearly so, and from 0 to 1 for zeros. Zeros and another
// whole number are taken for a mask, whose elements are chosen among those
// there, as for all types that are not floats. What tensors share with the
// given inputs only by chance, they do not share with the drawn ones. Each
// input is drawn from a stream of its name. Fails as NDArray::Empty().
// REQUIRES: compact tensors in host memory.
absl::StatusOr<std::vector<NamedTensor>> DrawSimilar(
    absl::Span<const NamedTensor> inputs, uint64_t seed);

// Puts some special numbers into floats among the inputs: NaN, both infinities
// and both zeros, each once in every 64 elements at most, at places that are
// drawn. Other inputs stay as they are.
// Fails as DrawSimilar().
absl::StatusOr<std::vector<NamedTensor>> WithSpecialNumbers(
    absl::Span<const NamedTensor> inputs, uint64_t seed);

}  // namespace nodewise
