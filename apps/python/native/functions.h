#pragma once

#include <nanobind/nanobind.h>

namespace nodewise {

// Makes what host code that was written for TVM needs: the functions of the
// process by their names, modules of libraries, and calling both.
void BindFunctions(nanobind::module_& module);

}  // namespace nodewise
