#pragma once

#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {

// The table that attention.cc adds to its own.
absl::Span<const OperatorDef> RotaryOperators();

}  // namespace nodewise
