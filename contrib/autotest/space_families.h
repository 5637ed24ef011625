#pragma once

#include "absl/types/span.h"
#include "nodewise/autotest/operator_space.h"

namespace nodewise {

// One function for each file of spaces.
absl::Span<const OperatorSpace> WindowSpaces();   // Conv, pools
absl::Span<const OperatorSpace> ProductSpaces();  // MatMul, Gemm
absl::Span<const OperatorSpace> ShapeSpaces();    // Reshape, Transpose, Slice

// The space of an operator that has none of its own.
void DrawFromSignature(ConfigurationDraw& draw);

}  // namespace nodewise
