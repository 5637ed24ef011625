#include "nodewise/ndarray/tensor_stats.h"

#include <algorithm>
#include <cmath>

#include "nodewise/ndarray/elements.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/machine.h"
#include "runtime/ndarray/tensor_stats_loops.h"

namespace nodewise {

namespace stats_loops {
namespace {

// Returns null for a type that has no arithmetic.
Scan ScanOf(const Level& level, DLDataType dtype) {
  const size_t index = ElementIndex(dtype);
  return index < level.scans.size() ? level.scans[index] : nullptr;
}

}  // namespace

const Level& BestLevel() {
  static const Level* const best = FirstSupported(AllLevels());
  return *best;
}

// A type without arithmetic has a size and a hash all the same, which is what
// dumps compare.
TensorStats StatsAt(const Level& level, const DLTensor& tensor) {
  TensorStats stats;
  const auto* const data = static_cast<const uint8_t*>(DataOf(tensor));
  const auto elements =
      static_cast<size_t>(NumElements(ShapeOf(tensor)).value_or(0));
  const size_t count = elements * tensor.dtype.lanes;
  if (const Scan scan = ScanOf(level, tensor.dtype)) {
    scan(data, count, &stats);
    return stats;
  }
  stats.elements = count;
  stats.hash = HashBytes(data, elements * ElementBytes(tensor.dtype));
  return stats;
}

}  // namespace stats_loops

bool HasNumbers(DLDataType dtype) {
  return stats_loops::ScanOf(stats_loops::BestLevel(), dtype) != nullptr;
}

// The environment of the caller may flush subnormals or round otherwise, and
// then equal bytes would not have equal statistics.
TensorStats StatsOf(const DLTensor& tensor) {
  const DefaultFloatEnvironment floats;
  return stats_loops::StatsAt(stats_loops::BestLevel(), tensor);
}

// The extremes are those of the numbers that are not NaN, so a tensor of NaN
// alone has none to compare.
bool HoldsValue(const TensorStats& stats, const StopValues& values) {
  if (!stats.has_numbers) return false;
  if (values.nan && stats.nans > 0) return true;
  if (values.infinity && stats.infinities > 0) return true;
  if (!values.above.has_value() || stats.elements == stats.nans) return false;
  return std::max(std::fabs(stats.min), std::fabs(stats.max)) > *values.above;
}

}  // namespace nodewise
