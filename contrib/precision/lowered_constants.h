#pragma once

// Constants of float32 in lower precisions.

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/precision/calibration.h"

namespace nodewise {

// A constant in float16 or bfloat16. Finite numbers beyond the largest become
// the largest, since what is meant by -1e9 in a mask is not an infinity, which
// a product with 0 would turn into NaN.
struct ShortFloats {
  NDArray data;
  int64_t cut_off = 0;  // How many there were.
};
absl::StatusOr<ShortFloats> ToShortFloats(const NDArray& floats,
                                          DLDataType type);

bool AreAllFinite(const NDArray& floats);

// A constant as int8: `integers` times `scales`, of which there is one of rank
// 0, or one for each index along the axis.
struct SymmetricWeights {
  NDArray integers;
  NDArray scales;
};
// Integers are from -most to most. REQUIRES: AreAllFinite(floats), 1 <= most <=
// 127.
absl::StatusOr<SymmetricWeights> QuantizeSymmetric(const NDArray& floats,
                                                   std::optional<int> axis,
                                                   int most);

// The scale and zero point of uint8 for a range widened so that 0 is in it,
// which has then an integer of its own.
struct ByteScale {
  float scale = 1;
  uint8_t zero = 0;
};
// Returns none for a range that is too large for the sums of products.
std::optional<ByteScale> ByteScaleOf(const ValueRange& range);

// A bias in steps of x_scale * w_scale.
struct StepBias {
  NDArray integers;  // int32.
  NDArray scales;    // As many as there are of w.
};
// Returns none if a number does not fit, or there is not one for each of the
// scales of w, or the bias is not of rank 1.
absl::StatusOr<std::optional<StepBias>> QuantizeBias(const NDArray& floats,
                                                     float x_scale,
                                                     const NDArray& w_scales);

}  // namespace nodewise
