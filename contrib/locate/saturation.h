#pragma once

#include "nodewise/locate/cause.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// Returns what a region makes on a processor whose instruction for products of
// unsigned and signed 8-bit numbers adds up two of them in 16 bits, and so
// saturates (x86 without VNNI). Undefined if the region has no such product, or
// one that takes too long to compute.
NDArray SaturatedResult(const WrongNode& node, const OpSet& operators);

}  // namespace nodewise
