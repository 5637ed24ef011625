#pragma once

#include <cstdint>
#include <optional>

#include "dlpack/dlpack.h"

namespace nodewise {

// The numbers among a tensor's elements; all 0 if they are not numbers.
struct NumberStats {
  uint64_t nans = 0;
  uint64_t infinities = 0;
  uint64_t zeros = 0;  // Zeros of either sign.
  // The extremes of the elements that are not NaN; NaN if there are none.
  // 64-bit integers are rounded to double, and -0 counts as 0.
  double min = 0;
  double max = 0;
  // The mean and the norm of the finite elements, summed in double; NaN and 0
  // if there are none.
  double mean = 0;
  double l2 = 0;
};

// What a tensor's elements are like, found in one pass over its bytes.
struct TensorStats : NumberStats {
  uint64_t hash = 0;         // HashBytes() (nodewise/ndarray/hash.h).
  uint64_t elements = 0;     // Lanes counted one by one.
  bool has_numbers = false;  // HasNumbers(); else NumberStats is 0.
};

// Returns true for floats of 4 to 64 bits, integers of 2 to 64 bits and bool;
// false for types without arithmetic, such as complex numbers.
bool HasNumbers(DLDataType dtype);

// Returns the statistics of a tensor. Any thread may call. Equal bytes give
// equal bits on every machine: the order of the sums depends on the number of
// elements alone. REQUIRES: the tensor is compact and in host memory; it may
// lie at any address.
TensorStats StatsOf(const DLTensor& tensor);

// Which values of a tensor end a run.
struct StopValues {
  bool nan = false;
  bool infinity = false;
  std::optional<double> above;  // |x| > above
};

// Returns whether a tensor with these statistics holds one of the values; false
// where its type has no numbers.
bool HoldsValue(const TensorStats& stats, const StopValues& values);

}  // namespace nodewise
