#pragma once

// Which numbers the values of a network take: what int8 needs to know.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// The range that is to be represented; what is outside of it is cut off.
struct ValueRange {
  double low = 0;
  double high = 0;
};
// By the names of values: float32 inputs of the network and float32 results of
// operations. A value of which no finite number was seen has no range.
using Calibration = std::map<std::string, ValueRange>;

// The numbers of one value as a histogram of equal bins from -limit to limit.
// Its memory does not depend on how many numbers it has seen: a number that is
// beyond the limit doubles it, and pairs of bins become one. Numbers that are
// not finite are not counted.
class RangeHistogram {
 public:
  void Add(absl::Span<const float> numbers);

  bool empty() const { return count_ == 0; }
  // The least and the largest number, exactly. REQUIRE: !empty().
  ValueRange MinMax() const { return {low_, high_}; }
  // The range that `percent` of all numbers are in, as many being below it as
  // above; to the width of a bin, and never wider than MinMax(). REQUIRES:
  // !empty(), 0 < percent <= 100.
  ValueRange Percentile(double percent) const;

 private:
  static constexpr int kBins = 4096;

  void Widen();
  // The number below which `share` of all are.
  double Quantile(double share) const;

  std::vector<int64_t> bins_;
  double limit_ = 0;  // 0: all numbers so far were 0.
  int64_t zeros_ = 0;
  int64_t count_ = 0;
  double low_ = 0;
  double high_ = 0;
};

struct CalibrationMethod {
  // 100: from the least to the largest number.
  double percent = 100;
};

// Returns the method that is called so: "minmax", "percentile" (99.9) or
// "percentile=99.5". Fails with kInvalidArgument for anything else.
absl::StatusOr<CalibrationMethod> ParseCalibrationMethod(
    const std::string& text);

// One set of inputs, in the order of the network's.
using Sample = std::vector<NDArray>;

// Runs the network with the reference on each sample and returns the range of
// each float32 value. Fails with kInvalidArgument if there is no sample or one
// does not fit, and with the error of a run.
absl::StatusOr<Calibration> Calibrate(const Network& network,
                                      absl::Span<const Sample> samples,
                                      const CalibrationMethod& method = {});

}  // namespace nodewise
