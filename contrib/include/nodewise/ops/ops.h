#pragma once

#include "nodewise/op/op_def.h"

namespace nodewise {

// Returns all operators that this build knows: those of ONNX's domains, and
// some of other domains and of its own. The set is made once.
const OpSet& AllOperators();

}  // namespace nodewise
