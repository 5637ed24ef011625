#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "nodewise/compare/metrics.h"

namespace nodewise {

// How the elements of a tensor stand to the bounds that come with the
// reference's: how far a correct kernel may be off in each, proved and in
// practice. Elements that are not finite on both sides are not judged here,
// but counted where the bound is infinite.
struct BoundCheck {
  uint64_t outside = 0;     // Beyond the proved bound.
  uint64_t unexpected = 0;  // Beyond the bound that holds in practice.
  // Beyond a bound by less than twice the smallest normal number: counted in
  // neither of these. Hardware and kernels that are told to be fast take
  // subnormal numbers for zero.
  uint64_t subnormal = 0;
  uint64_t without_bound = 0;     // Different, and no bound is known.
  uint64_t outside_fallback = 0;  // Those beyond the tolerance.
  // Not finite on one side alone, or not alike, where the bound is infinite:
  // anything is right there.
  uint64_t open_nans = 0;
  uint64_t open_infinities = 0;
  // The element with the largest error for its proved bound (the first of
  // equals), and that bound: NaN if no bound is known for any that differs.
  // Means nothing if nothing differs.
  ElementDifference worst;
  double bound = 0;
  // The worst error as a multiple of its bound: 0 if nothing differs, infinity
  // where a bound of 0 is exceeded, NaN if no bound is known.
  double ratio = 0;
  // The root of the sum of the squares of the proved bounds that are finite.
  double allowed_norm = 0;
  // How many times more the errors point in the direction of the reference
  // itself than independent errors of the size expected would: what a factor of
  // 1.001 on everything does, though it may be within the bound of each.
  double alignment = 0;
};

// REQUIRES: both tensors have one shape and one type of numbers, are compact
// and in host memory; each span is empty or has a bound for each element.
BoundCheck CheckBounds(const DLTensor& expected, const DLTensor& actual,
                       absl::Span<const double> proved,
                       absl::Span<const double> in_practice,
                       Tolerance fallback);

// Returns the smallest normal number of a float type of 16 bits or more; 0 for
// any other type.
double SmallestNormal(DLDataType dtype);

// Removes from the non-finite elements in `metrics` those where any result is
// right: they are not faults.
void IgnoreOpenElements(const BoundCheck& check, Metrics* metrics);

}  // namespace nodewise
