#pragma once

#include <nanobind/nanobind.h>

#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Makes the module's class of tensors: memory with a type, shared with Python
// in both directions.
void BindTensor(nanobind::module_& module);

}  // namespace nodewise
