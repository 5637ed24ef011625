#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/lower/region.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// What a node is given, and what it has to make of that, bit for bit.
struct ExactTensors {
  std::vector<NDArray> inputs;
  std::vector<NDArray> expected;
};

// Draws inputs of zeros and small whole numbers for a region with which every
// order of every sum in it gives the same: all that is added up is whole, and
// the sum of what is added up without its sign is below the first whole number
// whose neighbour the type does not have. Takes numbers as large, and as few
// zeros, as that allows. Fails with kUnimplemented, saying why, for a region
// that does more than move, choose, add and multiply numbers, or has too long
// sums for its type.
absl::StatusOr<ExactTensors> DrawExactTensors(const Region& region,
                                              uint64_t seed);

}  // namespace nodewise
