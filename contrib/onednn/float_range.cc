#include "contrib/onednn/float_range.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace nodewise::onednn {
namespace {

// The bits of floats, read as integers of sign and magnitude, are in the order
// of the floats, with NaNs beyond the infinities. Compilers vectorise minima of
// integers; those of floats they do not, because of NaN.
__attribute__((always_inline)) inline int32_t OrderOf(float x) {
  const auto bits = std::bit_cast<int32_t>(x);
  return bits ^ ((bits >> 31) & 0x7FFFFFFF);
}

float FloatAt(int32_t order) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  order = std::clamp(order, OrderOf(-kInfinity), OrderOf(kInfinity));
  return std::bit_cast<float>(order ^ ((order >> 31) & 0x7FFFFFFF));
}

// Compiled for several instruction sets: without AVX2, or at least SSE4,
// processors have no minimum of such integers.
__attribute__((always_inline)) inline FloatRange Range(const float* data,
                                                       int64_t count) {
  int32_t least = std::numeric_limits<int32_t>::max();
  int32_t most = std::numeric_limits<int32_t>::min();
  for (int64_t i = 0; i < count; ++i) {
    const int32_t order = OrderOf(data[i]);
    least = std::min(least, order);
    most = std::max(most, order);
  }
  return {FloatAt(least), FloatAt(most)};
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) FloatRange RangeWithAvx2(const float* data,
                                                         int64_t count) {
  return Range(data, count);
}
#endif

}  // namespace

FloatRange RangeOf(const float* data, int64_t count) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) return RangeWithAvx2(data, count);
#endif
  return Range(data, count);
}

}  // namespace nodewise::onednn
