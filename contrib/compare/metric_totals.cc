#include "contrib/compare/metric_totals.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace nodewise {
namespace {

bool IsSameNonFinite(double expected, double actual) {
  return expected == actual || (std::isnan(expected) && std::isnan(actual));
}

// (|x| |y| - x y) / (|x| |y|), where y is x and the difference, so that the
// large terms of the numerator have gone. It is not negative but for rounding.
double CosineDistance(const MetricTotals& totals) {
  const double x = totals.squares;
  const double y =
      std::max(0.0, totals.squares + 2 * totals.products + totals.differences);
  if (totals.differences == 0) return 0;
  if (x == 0 || y == 0) return x == y ? 0 : 1;
  const double product = totals.squares + totals.products;
  const double norms = std::sqrt(x) * std::sqrt(y);
  // Where the two point in different directions nothing cancels.
  if (product <= 0) return 1 - product / norms;
  const double numerator =
      totals.squares * totals.differences - totals.products * totals.products;
  return std::max(0.0, numerator) / (norms * (norms + product));
}

}  // namespace

void MetricTotals::RankRelative(const ElementDifference& pair) {
  if (pair.expected == 0 || pair.error == 0) return;
  const double ratio = pair.error / std::fabs(pair.expected);
  if (!(ratio > relative)) return;
  relative = ratio;
  found.largest_relative = pair;
}

void MetricTotals::AddPair(const ElementDifference& pair, Tolerance tolerance,
                           double least_normal) {
  const double x = pair.expected, y = pair.actual;
  if (!std::isfinite(x) || !std::isfinite(y)) {
    if (IsSameNonFinite(x, y)) return;
    if (found.non_finite() == 0) {
      found.first_non_finite = {pair.element, x, y, NAN};
    }
    (std::isnan(x) || std::isnan(y) ? found.nan_mismatches
                                    : found.infinity_mismatches) += 1;
    ++found.different;
    ++found.outside;
    return;
  }
  const double size = std::fabs(x), error = pair.error;
  squares += x * x;
  if (error == 0) return;
  const double difference = std::copysign(error, y - x);
  products += x * difference;
  differences += error * error;
  ++found.different;
  if (error > found.largest_error.error) found.largest_error = pair;
  const double excess = error - tolerance.relative * size;
  if (excess > tolerance.absolute) ++found.outside;
  if (excess > found.absolute_needed) {
    found.absolute_needed = excess;
    found.largest_excess = pair;
  }
  RankRelative(pair);
  if (size < least_normal && y == 0) ++found.flushed;
  if (error > 0.01 * size) ++found.above_hundredth;
  if (error > 0.001 * size) ++found.above_thousandth;
  if (error > 0.0001 * size) ++found.above_ten_thousandth;
}

void MetricTotals::Append(const MetricTotals& next) {
  const Metrics& more = next.found;
  if (found.non_finite() == 0) found.first_non_finite = more.first_non_finite;
  found.elements += more.elements;
  found.different += more.different;
  found.outside += more.outside;
  found.nan_mismatches += more.nan_mismatches;
  found.infinity_mismatches += more.infinity_mismatches;
  found.flushed += more.flushed;
  found.above_hundredth += more.above_hundredth;
  found.above_thousandth += more.above_thousandth;
  found.above_ten_thousandth += more.above_ten_thousandth;
  if (more.largest_error.error > found.largest_error.error) {
    found.largest_error = more.largest_error;
  }
  if (more.absolute_needed > found.absolute_needed) {
    found.absolute_needed = more.absolute_needed;
    found.largest_excess = more.largest_excess;
  }
  if (next.relative > relative) {
    relative = next.relative;
    found.largest_relative = more.largest_relative;
  }
  squares += next.squares;
  products += next.products;
  differences += next.differences;
}

Metrics MetricTotals::Finish() const {
  Metrics metrics = found;
  const uint64_t finite = found.elements - found.non_finite();
  metrics.expected_norm = std::sqrt(squares);
  metrics.actual_norm =
      std::sqrt(std::max(0.0, squares + 2 * products + differences));
  metrics.difference_norm = std::sqrt(differences);
  metrics.rmse =
      finite == 0 ? 0 : std::sqrt(differences / static_cast<double>(finite));
  metrics.cosine_distance = CosineDistance(*this);
  if (found.different > 0) {
    metrics.scale = squares > 0 ? 1 + products / squares : NAN;
  }
  return metrics;
}

double Metrics::snr_db() const {
  if (difference_norm == 0) return std::numeric_limits<double>::infinity();
  return 20 * std::log10(expected_norm / difference_norm);
}

}  // namespace nodewise
