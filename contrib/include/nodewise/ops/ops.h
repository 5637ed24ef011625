#pragma once

#include "nodewise/op/op_def.h"

namespace nodewise {

// All operators that this build knows, of ONNX's domain "" and the quantised
// ones of its own. Made once.
const OpSet& AllOperators();

// The newest opset whose operators are known.
inline constexpr int kNewestOpset = 27;

}  // namespace nodewise
