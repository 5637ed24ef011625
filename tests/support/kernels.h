#pragma once

#include <cstdint>

#include "nodewise/module/module.h"

namespace nodewise {

// A library of small functions, so that tests of the executor need no compiled
// one. They take their types from their arguments: integers of every width,
// bool, int4, float16, bfloat16, float32, float64.
//
//   copy   y = x             relu  y = x where x > 0, else 0
//   add    z = x + y         inc   y = x + 1
//   fill   y = the attribute `value` of the node
//   split  the elements of x, dealt out to all outputs in turn of their size
//   shape  y = the dimensions of x, then zeros
//   count  y = how often it was called, in this library
//   fail   fails with kInternal "this kernel always fails"
//   throw  throws std::runtime_error("this kernel throws")
//   refuse cannot be bound: kUnimplemented "no kernel for that"
Ref<Library> TestKernels();

// Element `index` of a compact host tensor.
double LoadElement(const DLTensor& tensor, int64_t index);
void StoreElement(const DLTensor& tensor, int64_t index, double value);

}  // namespace nodewise
