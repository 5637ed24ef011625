#pragma once

#include "nodewise/func/packed_func.h"
#include "nodewise/support/object_abi.h"

// Modules between this runtime and compiled C++ on TVM's headers, which calls
// the virtual functions of its ModuleNode.

namespace nodewise {

// Makes a module of one that compiled C++ has made, taking over its count.
Ref<Object> WrapTvmModule(ObjectHeader* module);

}  // namespace nodewise
