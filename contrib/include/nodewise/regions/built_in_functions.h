#pragma once

#include <memory>
#include <vector>

#include "nodewise/lower/lower.h"
#include "nodewise/lower/region_kernels.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// What computes the nodes of graphs that Lower() makes.
enum class Backend {
  kFastest,    // oneDNN, and the reference what oneDNN does not.
  kReference,  // The reference alone.
};

// Returns who makes their kernels, in the order in which they are asked.
std::vector<std::shared_ptr<const KernelMaker>> KernelMakersOf(
    Backend backend = Backend::kFastest);

// Returns the functions of such graphs, of these operators. Nodes are bound as
// the table says that they are to be, if one is given (Lowered::kernels of the
// makers of this backend).
Ref<LoweredLibrary> BuiltInFunctions(
    const OpSet& ops, Backend backend = Backend::kFastest,
    std::shared_ptr<const KernelTable> table = nullptr);

// Returns how networks are lowered for them: with tensors in the layouts that
// they are fastest in.
LowerOptions LoweringFor(const OpSet& ops, Backend backend = Backend::kFastest);

// Returns the maker "oneDNN" of kernels that compute regions with oneDNN. A
// region becomes a series of calls, each an operation with as many as oneDNN
// fuses behind it. Operations that oneDNN does not have are computed by their
// definitions, and listed in KernelChoice::operations with the reason; a region
// of nothing but such is refused. In a build without oneDNN all are.
//
// Constant inputs are taken into oneDNN's own order when a kernel runs first,
// and again when they have changed: what Region::changes says of them is
// believed, and where it says nothing their bytes are compared in each run.
// Kernels hold a copy of them for that.
//
// Kernels have as many threads as OneDnnThreads::Count() says where they run;
// with another count they are prepared anew.
std::shared_ptr<const KernelMaker> OneDnnKernels();

// Returns how these kernels want the tensors of an operation, for
// LowerOptions::preference_of: with the channels last where they are as fast
// so, which they are asked.
LayoutPreference OneDnnLayoutOf(const Network& network, OperationId id);

}  // namespace nodewise
