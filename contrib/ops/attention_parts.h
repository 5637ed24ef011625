#pragma once

#include "contrib/ops/shape_rules.h"
#include "contrib/ops/tensor_loops.h"

namespace nodewise {

// The table that attention.cc adds to its own.
absl::Span<const OperatorDef> RotaryOperators();

}  // namespace nodewise
