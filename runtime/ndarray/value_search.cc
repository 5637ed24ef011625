#include "nodewise/ndarray/value_search.h"

#include <algorithm>
#include <cmath>

namespace nodewise {

bool HoldsValue(const TensorStats& stats, const StopValues& values) {
  if (!stats.has_numbers) return false;
  if (values.nan && stats.nans > 0) return true;
  if (values.infinity && stats.infinities > 0) return true;
  if (!values.above.has_value() || stats.elements == stats.nans) return false;
  return std::max(std::fabs(stats.min), std::fabs(stats.max)) > *values.above;
}

}  // namespace nodewise
