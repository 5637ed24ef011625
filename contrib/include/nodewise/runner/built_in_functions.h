#pragma once

#include "nodewise/lower/lower.h"
#include "nodewise/lower/lowered_library.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// What computes the nodes of graphs that Lower() makes.
enum class Backend {
  kFastest,    // oneDNN, and the reference what oneDNN does not.
  kReference,  // The reference alone.
};

// Returns the functions of such graphs, of these operators.
Ref<LoweredLibrary> BuiltInFunctions(const OpSet& ops,
                                     Backend backend = Backend::kFastest);

// Returns how networks are lowered for them: with tensors in the layouts that
// they are fastest in.
LowerOptions LoweringFor(const OpSet& ops, Backend backend = Backend::kFastest);

}  // namespace nodewise
