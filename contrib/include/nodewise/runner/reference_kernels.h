#pragma once

#include <memory>

#include "nodewise/lower/lowered_library.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// Returns the maker of kernels that compute by the definitions of the
// operators, operation by operation, and refuse nothing.
std::shared_ptr<const KernelMaker> ReferenceKernels();

// Returns the functions of graphs that Lower() makes, of these operators, with
// all kernels that this build has: what no faster one computes, the reference
// does.
Ref<LoweredLibrary> BuiltInFunctions(const OpSet& ops);

}  // namespace nodewise
