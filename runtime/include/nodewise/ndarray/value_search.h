#pragma once

#include <optional>

#include "nodewise/ndarray/tensor_stats.h"

namespace nodewise {

// Which values of a tensor end a run.
struct StopValues {
  bool nan = false;
  bool infinity = false;
  std::optional<double> above;  // |x| > above
};

// Returns whether a tensor with these statistics holds one of the values; false
// where its type has no numbers.
bool HoldsValue(const TensorStats& stats, const StopValues& values);

}  // namespace nodewise
