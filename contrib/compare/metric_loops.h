#pragma once

#include <cstddef>
#include <tuple>

#include "absl/types/span.h"
#include "nodewise/compare/metrics.h"

// The loops under MeasureDifference(), compiled for several instruction sets;
// for metrics.cc and the tests of the loops alone.
namespace nodewise::metric_loops {

// Elements are compared block by block: few enough that sums of floats stay
// exact to one part in a million before they are added up as doubles, and that
// what was converted is in the first-level cache still when it is compared.
inline constexpr size_t kBlock = 1024;

// The limits that elements are held against. `Number` is the type that they are
// compared in: float for types that fit it exactly, else double.
template <typename Number>
struct Limits {
  Number absolute = 0;
  Number relative = 0;
  Number least_relative = 0;  // The largest relative error found so far.
  Number least_normal = 0;    // Smaller numbers are subnormal.
};

// The findings in one block. A quick comparison leaves out every count but
// `different`, and only says whether others could be other than 0.
template <typename Number>
struct BlockSums : MetricSums {
  Number largest_error = 0;
  Number largest_excess = 0;
  // Whether a relative error is above least_relative, or, after a quick
  // comparison, anything is found that a full one would count.
  bool beats_relative = false;
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

template <typename Number>
struct LoopTable {
  Compare<Number> compare;
  // It takes half the time, and is all that small differences need.
  Compare<Number> compare_quickly;
  Square square;
};

// The functions for one instruction set. All levels give bit-identical results.
struct Level {
  const char* name;
  bool (*works_here)();  // Whether this machine can run them.
  std::tuple<LoopTable<float>, LoopTable<double>> loops;
  // By ElementIndex(); null for types that do not fit a float, and for float.
  absl::Span<const Convert> converters;
};

// Returns all levels, from the best to the one that runs everywhere.
absl::Span<const Level> AllLevels();
// Returns the first level that works here; it is found once.
const Level& BestLevel();

// Returns the first element of a block whose error is this far beyond the share
// `relative` of what is expected, as the loops calculate it; with a share of 0
// the first with that error. REQUIRES: there is one.
template <typename Number>
size_t FindExcess(const Number* expected, const Number* actual, Number relative,
                  Number excess);

}  // namespace nodewise::metric_loops
