#pragma once

// Results that ONNX leaves open: its text does not say what comes of a NaN,
// say, so that kernels may differ and all be right (docs/compare.md).

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "nodewise/op/evaluate.h"

namespace nodewise {

// Lets a correct kernel give anything for those elements of an output that is
// made already: their bounds become infinite. Does nothing if no bounds are
// wanted. Other bounds that are not there yet become 0.
void AllowAny(EvalArgs& args, size_t output,
              absl::FunctionRef<bool(int64_t element)> is_open);

// Allows anything where output 0, of floats, is NaN; in output 1 too, if it is
// wanted and has as many elements.
void AllowAnyForNan(EvalArgs& args);

}  // namespace nodewise
