#pragma once

#include <cstddef>
#include <cstdint>

#include "contrib/compare/metric_loops.h"
#include "nodewise/compare/metrics.h"

namespace nodewise {

// The totals over the part of two tensors that has been compared so far.
struct MetricTotals {
  Metrics found;  // Without what is made of the sums.
  double squares = 0;
  double products = 0;
  double differences = 0;
  double relative = 0;  // The error of found.largest_relative for its size.

  // Takes a single pair, finite or not. `error` is |actual - expected|, which
  // is not asked for where one of them is not finite.
  void AddPair(const ElementDifference& pair, Tolerance tolerance,
               double least_normal);
  // Looks for the largest relative error.
  void RankRelative(const ElementDifference& pair);
  // Joins what was found in the part behind this one.
  void Append(const MetricTotals& next);
  // Makes the metrics of the whole.
  Metrics Finish() const;
};

}  // namespace nodewise
