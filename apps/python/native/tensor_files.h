#pragma once

#include <nanobind/nanobind.h>

namespace nodewise {

// Makes what reads files of tensors and dumps.
void BindTensorFiles(nanobind::module_& module);

}  // namespace nodewise
