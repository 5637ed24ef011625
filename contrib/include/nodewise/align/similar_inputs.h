#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Draws inputs like those that are given, which a network must be able to take
// as well: floats uniform between the least and the largest finite one there,
// and all else, which may be indices or masks, chosen among the elements there.
// Whatever tensors have in common with the first inputs alone, by chance, they
// have not with these. Each input is drawn from a stream of its name. Fails as
// NDArray::Empty(). REQUIRES: compact tensors in host memory.
absl::StatusOr<std::vector<NamedTensor>> DrawSimilar(
    absl::Span<const NamedTensor> inputs, uint64_t seed);

}  // namespace nodewise
