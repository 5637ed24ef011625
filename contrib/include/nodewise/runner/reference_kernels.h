#pragma once

#include <memory>

#include "nodewise/lower/lowered_library.h"

namespace nodewise {

// Returns the maker of kernels that compute by the definitions of the
// operators, operation by operation, and refuse nothing.
std::shared_ptr<const KernelMaker> ReferenceKernels();

}  // namespace nodewise
