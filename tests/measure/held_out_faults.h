#pragma once

#include <vector>

#include "tests/measure/fault_source.h"

namespace nodewise {

// Kinds of faults in values that compilers, kernels and hardware really have,
// written without a look at the search for faults. The planter has none of
// them, and nothing may be tuned to them: they measure the search on
// faults that it was not written for.
//
// rest-not-summed: a sum is computed in blocks of 4, 8, 16 or 32 terms, and
//   what is left behind the last whole block is not added.
// saturated-sums: the register that a sum is added up in has too few bits: it
//   stays at a power of two that the largest sums would exceed.
// index-wraps: an index into an input is kept in 5, 6, 8 or 16 bits and begins
//   at 0 again where the tensor is longer.
// input-overwritten: the node's result takes the memory of an input that it
//   still reads: what it makes later is made of what it made first.
// wrong-broadcast: numbers for each index of a side (a bias, a scale, a mask)
//   are read as if tensors lay in another order: channels last, or first.
// early-activation: an activation that is fused behind the addition of a bias
//   is computed before it: f(x) + b in place of f(x + b).
std::vector<FaultSource> HeldOutFaults();

}  // namespace nodewise
