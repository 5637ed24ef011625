#pragma once

#include "nodewise/locate/cause.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// Computes a region as a processor does whose instruction for products of
// unsigned and signed 8-bit numbers adds up two of them in 16 bits, and so
// saturates (x86 without VNNI). The first product of the region that has such
// operands is computed like that, and the reference goes on with its result.
//
// Returns something undefined if the region has no such product, if nothing
// saturates in it, or if it takes too long to compute.
NDArray RunSaturated(const WrongNode& node, const OpSet& operators);

}  // namespace nodewise
