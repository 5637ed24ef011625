#pragma once

#include "nodewise/tensors/tensor_source.h"

namespace nodewise {

// Returns whether Find() of the source reads a tensor of a file each time it is
// asked, and runs nothing: then what does not fit into memory need not be kept
// there. Archives hold far more than their size says.
bool IsFoundAgain(const TensorSource& source);

}  // namespace nodewise
