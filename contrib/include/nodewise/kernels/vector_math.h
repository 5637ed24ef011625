#pragma once

// Functions of many doubles at once, several times faster than one by one: the
// loops are compiled for several instruction sets, and the best one is chosen
// when the program runs.

#include <cstdint>

#include "absl/types/span.h"

namespace nodewise {

// Replace each of `n` numbers by the function's value, to within 1.5 units in
// the last place of a double, 3 of tanh. Infinities, NaN and numbers too large
// or too small give what the C library's functions give.
void ExpAll(double* x, int64_t n);
void ErfAll(double* x, int64_t n);
void TanhAll(double* x, int64_t n);

namespace vector_math {

struct Level {
  const char* name;
  bool (*works_here)();
  void (*exp_all)(double* x, int64_t n);
  void (*erf_all)(double* x, int64_t n);
  void (*tanh_all)(double* x, int64_t n);
};

// All levels, from the best to the one that runs everywhere; for tests.
absl::Span<const Level> AllLevels();

}  // namespace vector_math
}  // namespace nodewise
