#pragma once

#include "nodewise/ir/network.h"

namespace nodewise {

// Returns whether the operation has one output, each element of which depends
// on no other elements of its inputs than those at its place (repeated as
// broadcasting says); for a normalisation with given statistics, also on the
// numbers of its channel. Knows the operators of ONNX by their names; false for
// all others.
bool IsElementwise(const Operation& operation);

}  // namespace nodewise
