#include "runtime/ndarray/tensor_stats_loops.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "nodewise/ndarray/elements.h"
#include "nodewise/ndarray/hash.h"
#include "runtime/ndarray/hash_stream.h"

// Loops over vectors that are to stay in registers.
#if defined(__clang__)
#define NODEWISE_UNROLL _Pragma("unroll")
#else
#define NODEWISE_UNROLL _Pragma("GCC unroll 8")
#endif

// This file must be compiled with -ffp-contract=off: on levels that have fused
// multiply-adds, those of doubles would round differently than on the other
// levels.

namespace nodewise::stats_loops {
namespace {

// The bytes that are added up before they are searched for infinities and NaNs:
// few enough to be in the first-level cache still when they are read again.
constexpr size_t kBlockBytes = 4096;
// The bytes that are hashed and then added up: few enough to be in the
// first-level cache still when they are read again. While a block is added up
// the next one is fetched, else memory would lie idle. Measured on Zen 3 with
// 32 MB of floats: without this they take 1.3 to 7 times as long; blocks of 16
// KB take up to 1.3 times as long.
constexpr size_t kSharedBytes = 8192;
static_assert(kSharedBytes % kBlockBytes == 0);
// The bytes that one round of the loop adds; whole groups of every type fit
// into it.
constexpr size_t kStripeBytes = 64;

// Sums have the same number of lanes at every level, so that the order of
// additions does not depend on the level. `Number` is the type that all
// elements of the tensor fit exactly: float for up to 16 bits, else double.
template <typename Number>
constexpr size_t kLanesOf = 64 / sizeof(Number);

template <typename Number>
struct alignas(64) Totals {
  Number min[kLanesOf<Number>];
  Number max[kLanesOf<Number>];
  double sum[kLanesOf<Number>];
  double squares[kLanesOf<Number>];
  uint64_t nans;
  uint64_t infinities;
  uint64_t zeros;
};

// Lanes are joined in one fixed order, which all levels share.
template <typename Number, size_t n, typename Join>
Number Folded(const Number (&lanes)[n], Join join) {
  Number rest[n / 2];
  NODEWISE_UNROLL
  for (size_t i = 0; i < n / 2; ++i) rest[i] = join(lanes[i], lanes[i + n / 2]);
  NODEWISE_UNROLL
  for (size_t half = n / 4; half > 0; half /= 2) {
    NODEWISE_UNROLL
    for (size_t i = 0; i < half; ++i) rest[i] = join(rest[i], rest[i + half]);
  }
  return rest[0];
}

// Takes one element at a time, for those that do not fill all lanes.
template <typename Number>
void AddOne(Number value, size_t lane, Totals<Number>* totals) {
  if (std::isnan(value)) {
    ++totals->nans;
    return;
  }
  totals->min[lane] = std::min(totals->min[lane], value);
  totals->max[lane] = std::max(totals->max[lane], value);
  if (std::isinf(value)) {
    ++totals->infinities;
    return;
  }
  totals->zeros += value == 0 ? 1 : 0;
  const double x = value;
  totals->sum[lane] += x;
  totals->squares[lane] += x * x;
}

template <typename Number>
void Finish(const Totals<Number>& totals, size_t count, TensorStats* stats) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const uint64_t numbers = count - totals.nans;
  const uint64_t finite = numbers - totals.infinities;
  stats->elements = count;
  stats->has_numbers = true;
  stats->nans = totals.nans;
  stats->infinities = totals.infinities;
  stats->zeros = totals.zeros;
  // Which zero comes first depends on the level; adding 0 makes -0 a 0.
  const Number min =
      Folded(totals.min, [](Number a, Number b) { return b < a ? b : a; });
  const Number max =
      Folded(totals.max, [](Number a, Number b) { return a < b ? b : a; });
  stats->min = numbers == 0 ? kNan : min + 0.0;
  stats->max = numbers == 0 ? kNan : max + 0.0;
  stats->mean = finite == 0 ? kNan
                            : Folded(totals.sum, std::plus<double>()) /
                                  static_cast<double>(finite);
  stats->l2 = std::sqrt(Folded(totals.squares, std::plus<double>()));
}

}  // namespace
}  // namespace nodewise::stats_loops

#if defined(__x86_64__)
// Uses the additional registers and instructions of AVX-512 at the width of
// AVX2: on Zen 4, which splits wider vectors in two, floats take 0.75 times as
// long this way.
#define NODEWISE_LEVEL x86_64_v4
#define NODEWISE_WIDTH 32
#define NODEWISE_TARGET \
  __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")))
#include "runtime/ndarray/tensor_stats_loops.inc"

#define NODEWISE_LEVEL x86_64_v3
#define NODEWISE_WIDTH 32
#define NODEWISE_TARGET __attribute__((target("avx2,fma,f16c")))
#include "runtime/ndarray/tensor_stats_loops.inc"
#endif

#define NODEWISE_LEVEL baseline
#define NODEWISE_WIDTH 16
#define NODEWISE_TARGET
#include "runtime/ndarray/tensor_stats_loops.inc"

namespace nodewise::stats_loops {
namespace {

constexpr Level kLevels[] = {
#if defined(__x86_64__)
    {"x86-64-v4",
     [] {
       return __builtin_cpu_supports("avx512f") &&
              __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl");
     },
     x86_64_v4::kScans},
    {"x86-64-v3",
     [] {
       return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
     },
     x86_64_v3::kScans},
#endif
    {"baseline", [] { return true; }, baseline::kScans},
};

}  // namespace

absl::Span<const Level> AllLevels() { return kLevels; }

}  // namespace nodewise::stats_loops
