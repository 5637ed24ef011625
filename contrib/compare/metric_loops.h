#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "dlpack/dlpack.h"

// The loops under MeasureDifference(), compiled for several instruction sets;
// for metrics.cc and the tests of the loops alone.
namespace nodewise::metric_loops {

// Elements are compared block by block: few enough that sums of floats stay
// exact to one part in a million before they are added up as doubles, and that
// what was converted is in the first-level cache still when it is compared.
inline constexpr size_t kBlock = 1024;

// What elements are compared with. `Number` is what they are compared as:
// float for types that fit it exactly, else double.
template <typename Number>
struct Limits {
  Number absolute = 0;
  Number relative = 0;
  Number least_relative = 0;  // The largest relative error found so far.
  Number least_normal = 0;    // Smaller numbers are subnormal.
};

// The findings in one block. The counts below `different` are those of a full
// comparison; a quick one only says whether they could be other than 0.
template <typename Number>
struct BlockSums {
  double squares = 0;  // The sum of the squared expected numbers.
  // The sum of expected numbers times their differences.
  double products = 0;
  double differences = 0;  // Squared.
  Number largest_error = 0;
  Number largest_excess = 0;
  uint32_t different = 0;
  // Whether a relative error is above least_relative, or, after a quick
  // comparison, anything is found that a full one would count.
  bool beats_relative = false;
  uint32_t outside = 0;
  uint32_t flushed = 0;
  uint32_t above_hundredth = 0;
  uint32_t above_thousandth = 0;
  uint32_t above_ten_thousandth = 0;
};

// Compares kBlock elements at any address. Where one is not finite, or its
// square does not fit `Number`, the sums are not finite; the rest means nothing
// then.
template <typename Number>
using Compare = void (*)(const void* expected, const void* actual,
                         const Limits<Number>& limits, BlockSums<Number>* sums);
// Returns the sum of the squares of kBlock elements at any address.
using Square = double (*)(const void* elements);
// Converts kBlock elements at any address.
using Convert = void (*)(const void* from, float* to);

struct LoopTable {
  Compare<float> compare_floats;
  Compare<double> compare_doubles;
  // These take half the time, and are all that small differences need.
  Compare<float> compare_floats_quickly;
  Compare<double> compare_doubles_quickly;
  Square square_floats;
  Square square_doubles;
};

// The functions for one instruction set. All levels give bit-identical results.
struct Level {
  const char* name;
  bool (*works_here)();  // Whether this machine can run them.
  LoopTable loops;
  // By ElementIndex(); null for types that do not fit a float, and for float.
  absl::Span<const Convert> converters;
};

// Returns all levels, from the best to the one that runs everywhere.
absl::Span<const Level> AllLevels();
// Returns the first level that works here; it is found once.
const Level& BestLevel();

// Return the first element of a block with this error, and with this excess, as
// the loops calculate them. REQUIRES: there is one.
template <typename Number>
size_t FindError(const Number* expected, const Number* actual, Number error);
template <typename Number>
size_t FindExcess(const Number* expected, const Number* actual,
                  const Limits<Number>& limits, Number excess);

}  // namespace nodewise::metric_loops
