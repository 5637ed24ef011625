#pragma once

// Random numbers for operators, the same on every machine; only for their
// files. All is calculated by operations that IEEE 754 defines to the last bit,
// so no function of a C library's is called.

#include <cstdint>
#include <string_view>

#include "nodewise/random/random.h"

namespace nodewise {

class RandomNumbers {
 public:
  // Streams of one seed are independent.
  RandomNumbers(uint64_t seed, std::string_view stream);

  // From 0 up to 1, which is never reached, in steps of 2^-53.
  double Uniform();
  // From a bell curve around 0 with a standard deviation of 1.
  double Normal();

 private:
  RandomSource source_;
};

// Returns e to the power of x, off by a few units in the last place.
double ReproducibleExp(double x);
// Returns the number below which a share `p` of the bell curve lies.
// REQUIRES: 0 < p < 1.
double NormalQuantile(double p);

}  // namespace nodewise
