#pragma once

// What the operators of quantized tensors share; only for their files.

#include <cmath>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "contrib/ops/util/tensor_moves.h"
#include "nodewise/ndarray/short_float.h"

namespace nodewise {

// The range of an integer type of 2 to 16 bits.
struct QuantRange {
  double low = 0;
  double high = 0;
};
// Returns none for any other type.
std::optional<QuantRange> RangeOf(DLDataType dtype);
// Requires an integer of 8 or 16 bits, which operators calculate with.
absl::Status RequireQuantized(const Inputs& in, size_t i);
// Returns whether QuantizeLinear makes the type: one of those, an integer of 2
// or 4 bits, or a float of 4 or 8 with a sign.
bool IsQuantized(DLDataType dtype);

// Rounds to the nearest integer, ties to even, and clamps to the range; NaN
// gives 0.
inline double Saturated(double x, const QuantRange& range) {
  if (std::isnan(x)) return 0;
  return x < range.low ? range.low : x > range.high ? range.high : x;
}

// How DynamicQuantizeLinear rounds numbers to 8 bits: in float32, since the
// operator is defined by others of that type.
struct DynamicScale {
  float scale = 0;
  double zero = 0;

  // For numbers from `low` to `high`; 0 is always in the range.
  static DynamicScale FromRange(float low, float high);
  // Returns 0 to 255.
  double Quantized(float x) const {
    const float quotient = scale == 0 ? 0 : x / scale;
    return Saturated(std::nearbyint(static_cast<double>(quotient)) + zero,
                     {0, 255});
  }
  // Returns the number that stands for x.
  double Nearest(float x) const {
    return (Quantized(x) - zero) * static_cast<double>(scale);
  }
};

// Which elements of the scale (and the zero point) apply to which data: one to
// all, one to each index along an axis, or one to each block along an axis.
struct ScaleAttributes {
  int64_t axis = 1;
  int64_t block_size = 0;
};
absl::Status CheckScale(const ScaleAttributes& attributes, const Inputs& in);

// Data [begin, begin + n) has scales from `scale` on in steps of `step`.
struct ScaleRun {
  int64_t begin;
  int64_t n;
  int64_t scale;
  int64_t step;
};
absl::Status ForEachScaleRun(const ScaleAttributes& attributes,
                             const EvalArgs& args,
                             absl::FunctionRef<void(const ScaleRun& run)> f);
// y = f(x) of input 0, calculated in double: f(run, x) replaces the run's
// elements, which it gets as doubles, by the results. Short floats are rounded
// as told.
absl::Status MapScaleRuns(
    const ScaleAttributes& attributes, const EvalArgs& args, const NDArray& y,
    absl::FunctionRef<void(const ScaleRun& run, double* x)> f,
    ShortRounding rounding = {});

// y = f(x) block by block, in threads: f(begin, end, block) replaces elements
// [begin, end), which it gets as doubles, by the results. Short floats are
// rounded as told. An element takes about `work` nanoseconds.
void MapShortBlocks(
    const NDArray& x, const NDArray& y, double work, ShortRounding rounding,
    absl::FunctionRef<void(int64_t begin, int64_t end, double* block)> f);

// A correct kernel may be one step off in every element.
void BoundByOneStep(const NDArray& y, Bounds* bounds);

}  // namespace nodewise
