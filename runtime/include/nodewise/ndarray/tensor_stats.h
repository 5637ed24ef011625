#pragma once

#include <cstddef>
#include <cstdint>

#include "dlpack/dlpack.h"

namespace nodewise {

// What a tensor's elements are like, found in one pass over its bytes.
struct TensorStats {
  uint64_t hash = 0;         // HashBytes() of the bytes.
  uint64_t elements = 0;     // Lanes counted one by one.
  bool has_numbers = false;  // HasNumbers(); else all that follows is 0.
  uint64_t nans = 0;
  uint64_t infinities = 0;
  uint64_t zeros = 0;  // Of either sign.
  // Of the elements that are not NaN; NaN if there is none. 64-bit integers
  // are rounded to double, and -0 counts as 0.
  double min = 0;
  double max = 0;
  // Of the finite elements, summed in double; NaN and 0 if there is none.
  double mean = 0;
  double l2 = 0;
};

// True for floats of 16 to 64 bits, integers of 8 to 64 bits and bool; false
// for what cannot be calculated with, as 8-bit floats.
bool HasNumbers(DLDataType dtype);

// REQUIRES: the tensor is compact and in host memory; it may lie at any
// address. Any thread may call. The same bytes give the same bits on every
// machine: the order of the sums depends on the number of elements alone.
TensorStats StatsOf(const DLTensor& tensor);

// A 64-bit hash that tells contents apart; it is no protection against someone
// who wants two contents to look alike. The same bytes give the same number on
// every machine (docs/formats/hash.md says how it is computed).
uint64_t HashBytes(const void* data, size_t size);

}  // namespace nodewise
