#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/autotest/choices.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// The numbers that an input may hold, and tensors of such numbers.
struct InputDomain {
  // Both included. Numbers beyond the range of a type are cut to it.
  double least = -4;
  double most = 4;
  // Floats may also be NaN, infinite, huge, tiny, and minus zero.
  bool may_be_special = true;
  bool is_whole = false;   // Floats hold whole numbers alone.
  bool may_be_nan = true;  // If they may be special at all.

  // Whole numbers from `least` to `most`: places, counts, classes.
  static constexpr InputDomain Whole(int64_t least, int64_t most) {
    return {static_cast<double>(least), static_cast<double>(most), false, true};
  }
  // Any floats but NaN, for operators that do not say what comes of it.
  static constexpr InputDomain WithoutNan() {
    return {-4, 4, true, false, false};
  }
  // Floats in a range that nothing may leave.
  static constexpr InputDomain Within(double least, double most) {
    return {least, most, false, false};
  }
};

// What kind of contents a tensor has, the simplest first.
enum class ContentKind {
  kZeros,
  kOnes,
  kCounting,  // Different numbers, as far as the domain has them.
  kWhole,     // Small whole numbers, with many that are equal.
  kUniform,   // Any numbers of the domain.
  kSparse,    // Most are zero.
  kHalves,    // Whole numbers and those halfway between: ties in roundings.
};
inline constexpr int kContentKinds = 7;

// Floats that kernels forget. A set of inputs has one kind at most: what a sum
// gives for an infinity and a number that overflows, say, is not defined.
enum class SpecialKind {
  kNone,
  kMinusZeros,
  kTiny,  // Subnormal.
  kInfinities,
  kNans,
  kHuge,
};
inline constexpr int kSpecialKinds = 6;

// Returns a tensor of these numbers, row by row, each rounded to the type.
// REQUIRES: it has as many elements.
absl::StatusOr<NDArray> TensorOfDoubles(DLDataType dtype,
                                        absl::Span<const int64_t> shape,
                                        absl::Span<const double> numbers);

// Returns an int64 tensor of these numbers; not by way of doubles, which cannot
// hold the largest integers. REQUIRES: as above.
absl::StatusOr<NDArray> TensorOfInts(absl::Span<const int64_t> shape,
                                     absl::Span<const int64_t> numbers);

// Draws a tensor. Takes two choices for a tensor of any size: a kind and a
// seed; with a special kind a quarter of its elements is such, where the domain
// allows it. Fails with kUnimplemented for types that nothing calculates with.
absl::StatusOr<NDArray> DrawTensor(DLDataType dtype,
                                   absl::Span<const int64_t> shape,
                                   const InputDomain& domain, Choices* choices,
                                   SpecialKind special = SpecialKind::kNone);

}  // namespace nodewise
