#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "nodewise/lower/region.h"
#include "nodewise/lower/region_kernels.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Returns the maker of kernels that compute by the definitions of the
// operators, operation by operation, and refuse nothing.
std::shared_ptr<const KernelMaker> ReferenceKernels();

// Copies what a kernel has made to output `i` of its region. Fails with
// kInvalidArgument if it is of another type: sizes may depend on what the
// inputs hold.
absl::Status StoreRegionOutput(const Region& region, size_t i,
                               const NDArray& made, const NDArray& output);

}  // namespace nodewise
