#pragma once

#include "contrib/compare/tensor_pair.h"
#include "nodewise/compare/failure_shape.h"

namespace nodewise {

// Returns an empty histogram for a type that is not a float of 16 bits or more.
UlpHistogram UlpsOf(const TensorPair& pair);

}  // namespace nodewise
