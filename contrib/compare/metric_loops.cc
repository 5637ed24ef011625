#include "contrib/compare/metric_loops.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "nodewise/ndarray/elements.h"
#include "nodewise/support/machine.h"

// Loops over vectors that are to stay in registers.
#if defined(__clang__)
#define NODEWISE_UNROLL _Pragma("unroll")
#else
#define NODEWISE_UNROLL _Pragma("GCC unroll 16")
#endif

// This file must be compiled with -ffp-contract=off: on levels that have fused
// multiply-adds, sums would round differently than on the other levels.

namespace nodewise::metric_loops {
namespace {

// The smallest of the relative errors whose share is counted.
template <typename Number>
constexpr Number kLeastShare = Number(0.0001);

// All levels add into as many lanes as fit this many bytes, so that their sums
// are rounded alike.
constexpr size_t kLanesBytes = 64;
static_assert(kBlock * sizeof(float) % kLanesBytes == 0);

// Return small elements as floats, without branches and calls, so that
// compilers vectorise the loops around them.
template <typename T>
requires std::is_integral_v<T>
inline float NumberOf(T x) { return static_cast<float>(x); }
template <ShortFloatElement T>
inline float NumberOf(T x) {
  return T::kValues[x.bits];
}
inline float NumberOf(Bool x) { return static_cast<float>(x.bits != 0); }
inline float NumberOf(Bfloat x) {
  return std::bit_cast<float>(uint32_t{x.bits} << 16);
}
// The fields at the place of a float's have the value but for a factor,
// subnormals too; what was infinite or NaN comes out as 65536 or more.
inline float NumberOf(Half x) {
  const uint32_t bits = x.bits;
  const float size = std::bit_cast<float>((bits & 0x7FFF) << 13) * 0x1p112F;
  const uint32_t special = size >= 65536.0F ? 0x7F800000 : 0;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(size) | special |
                              (bits & 0x8000) << 16);
}

}  // namespace
}  // namespace nodewise::metric_loops

#if defined(__x86_64__)
#define NODEWISE_LEVEL x86_64_v3
#define NODEWISE_WIDTH 32
#define NODEWISE_TARGET __attribute__((target("avx2,fma,f16c")))
#include "contrib/compare/metric_loops.inc"
#endif

#define NODEWISE_LEVEL baseline
#define NODEWISE_WIDTH 16
#define NODEWISE_TARGET
#include "contrib/compare/metric_loops.inc"

namespace nodewise::metric_loops {
namespace {

constexpr Level kLevels[] = {
#if defined(__x86_64__)
    {"x86-64-v3",
     [] {
       return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
     },
     x86_64_v3::kLoops, x86_64_v3::kConverters},
#endif
    {"baseline", [] { return true; }, baseline::kLoops, baseline::kConverters},
};

}  // namespace

absl::Span<const Level> AllLevels() { return kLevels; }

const Level& BestLevel() {
  static const Level* const best = FirstSupported(AllLevels());
  return *best;
}

template <typename Number>
size_t FindExcess(const Number* expected, const Number* actual, Number relative,
                  Number excess) {
  size_t i = 0;
  while (i + 1 < kBlock && std::fabs(actual[i] - expected[i]) -
                                   relative * std::fabs(expected[i]) !=
                               excess) {
    ++i;
  }
  return i;
}

template size_t FindExcess(const float*, const float*, float, float);
template size_t FindExcess(const double*, const double*, double, double);

}  // namespace nodewise::metric_loops
