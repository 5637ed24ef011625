#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"

namespace nodewise {

// How far an element may be off: |actual - expected| up to
// absolute + relative * |expected|.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

// One element where two tensors differ.
struct ElementDifference {
  uint64_t element = 0;  // Row by row.
  double expected = 0, actual = 0;
  // |actual - expected|; NaN unless both are finite.
  double error = 0;
};

// The counts and sums of one pass. A block of elements, a part of two tensors
// and the whole have them alike, so that parts are joined by `+=`.
struct MetricSums {
  uint64_t elements = 0;  // Lanes counted one by one, complex numbers as two.
  uint64_t different = 0;
  uint64_t outside = 0;  // Beyond the tolerance, or not finite.
  // Elements that are NaN on one side alone, or infinite on one side alone, or
  // infinite with different signs; an element counts once.
  uint64_t nan_mismatches = 0;
  uint64_t infinity_mismatches = 0;
  // Elements that are subnormal in the reference and 0 here.
  uint64_t flushed = 0;
  // Elements with a relative error above 1 %, 0.1 % and 0.01 %. An element that
  // should be 0 and is not counts in all of them.
  uint64_t above_hundredth = 0;
  uint64_t above_thousandth = 0;
  uint64_t above_ten_thousandth = 0;
  // Over the elements that are finite in both: the squared expected numbers,
  // expected numbers times their differences, and the squared differences.
  double squares = 0;
  double products = 0;
  double differences = 0;

  uint64_t non_finite() const { return nan_mismatches + infinity_mismatches; }

  MetricSums& operator+=(const MetricSums& more) {
    elements += more.elements;
    different += more.different;
    outside += more.outside;
    nan_mismatches += more.nan_mismatches;
    infinity_mismatches += more.infinity_mismatches;
    flushed += more.flushed;
    above_hundredth += more.above_hundredth;
    above_thousandth += more.above_thousandth;
    above_ten_thousandth += more.above_ten_thousandth;
    squares += more.squares;
    products += more.products;
    differences += more.differences;
    return *this;
  }
};

// How two tensors differ, found in one pass over them. NaN and NaN are equal,
// and so are infinities of one sign, and zeros of either sign. Where squares do
// not fit a double, what is made of their sums is infinite or NaN.
struct Metrics : MetricSums {
  // The first element with the largest error. Mean nothing, like those that
  // follow, while `error` is 0.
  ElementDifference largest_error;
  // The element with the largest error for its size, of those that are expected
  // to be other than 0: exact to one part in a million.
  ElementDifference largest_relative;
  // The first element that is furthest beyond the relative part of the
  // tolerance, and how much that is: an absolute part of that size would have
  // let everything pass.
  ElementDifference largest_excess;
  double absolute_needed = 0;
  // The first of the mismatches of NaN and infinities, if there are any.
  ElementDifference first_non_finite;

  double expected_norm = 0;  // The root of the sum of the squares.
  double actual_norm = 0;
  double difference_norm = 0;
  // The root of the mean squared error.
  double rmse = 0;
  // 1 minus the cosine of the angle between the two, which is calculated from
  // the difference and so is exact where it is small. 0 if both are all zeros,
  // 1 if one is.
  double cosine_distance = 0;
  // The factor by which the reference comes nearest to what was found, by least
  // squares: 1.01 if all is one per cent too large. 1 if nothing differs; NaN
  // if there is none.
  double scale = 1;

  double relative_error() const {
    return largest_relative.error == 0
               ? 0
               : largest_relative.error / (largest_relative.expected < 0
                                               ? -largest_relative.expected
                                               : largest_relative.expected);
  }
  double cosine() const { return 1 - cosine_distance; }
  // The norm of the reference over that of the difference, in decibels.
  // Infinite if nothing differs.
  double snr_db() const;
};

// The value of a figure: none if it has no meaning because nothing differs.
using MetricValue =
    std::variant<std::monostate, uint64_t, double, ElementDifference>;

// A figure of a comparison: a pure function, and its name in documents.
struct MetricRow {
  std::string_view name;
  MetricValue (*value)(const Metrics& metrics);
};
// Returns all figures, in the order of documents.
absl::Span<const MetricRow> AllMetrics();

// Compares two tensors element by element, without memory that depends on their
// size, in one pass on as many threads as NumThreads() says; how many that are
// changes nothing in the result. Their types may differ: every element counts
// as the number it is. Fails with kInvalidArgument, naming both, for different
// shapes, and with kUnimplemented for types that have no numbers. Any thread
// may call. REQUIRES: both are compact and in host memory; they may lie at any
// address.
absl::StatusOr<Metrics> MeasureDifference(const DLTensor& expected,
                                          const DLTensor& actual,
                                          Tolerance tolerance = {});

}  // namespace nodewise
