#pragma once

#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {

// The operators that attention.cc adds to its own table.
absl::Span<const OperatorDef> RotaryOperators();

}  // namespace nodewise
