#pragma once

#include "nodewise/func/packed_func.h"
#include "nodewise/func/tvm_object_abi.h"

// Calls between this runtime and compiled C++ on TVM's headers, in the form
// that those have inline: a C++ function that fails by an exception.

namespace nodewise {

// Makes a function of one that compiled C++ has made, taking over its count.
Ref<FunctionObject> AdoptTvmFunction(TvmFunction* function);
// Makes a function of one of TVM 0.8, which is deleted.
Ref<FunctionObject> AdoptTvmFunction(TvmStdFunction* function);

}  // namespace nodewise
