#pragma once

#include <memory>
#include <vector>

#include "nodewise/lower/kernel_table.h"
#include "nodewise/lower/lower.h"
#include "nodewise/lower/lowered_library.h"
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

}  // namespace nodewise
