#pragma once

#include <cstdint>

namespace nodewise::onednn {

// The range of some numbers. A NaN counts as an infinity of its sign.
struct FloatRange {
  float least = 0;
  float most = 0;
};
// REQUIRES: 0 < count.
FloatRange RangeOf(const float* data, int64_t count);

}  // namespace nodewise::onednn
