#include "nodewise/kernels/matrix_kernel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "nodewise/support/machine.h"

// Loops over sums are unrolled, or the sums would not stay in registers.
#if defined(__clang__)
#define NODEWISE_UNROLL _Pragma("unroll")
#else
#define NODEWISE_UNROLL _Pragma("GCC unroll 16")
#endif

#if defined(__x86_64__)
// The number of rows is limited by the registers for their sums: 12 of 16
// vectors of four numbers, 12 of 32 of eight (more would not hide more of the
// latency).
#define NODEWISE_LEVEL x86_64_v4
#define NODEWISE_LANES 8
#define NODEWISE_ROWS 12
#define NODEWISE_TARGET __attribute__((target("avx2,fma,avx512f")))
#include "contrib/kernels/matrix_kernel.inc"

#define NODEWISE_LEVEL x86_64_v3
#define NODEWISE_LANES 4
#define NODEWISE_ROWS 6
#define NODEWISE_TARGET __attribute__((target("avx2,fma")))
#include "contrib/kernels/matrix_kernel.inc"
#endif

#define NODEWISE_LEVEL baseline
#define NODEWISE_LANES 2
#define NODEWISE_ROWS 2
#define NODEWISE_TARGET
#include "contrib/kernels/matrix_kernel.inc"

namespace nodewise::matrix_kernel {
namespace {

constexpr Level kLevels[] = {
#if defined(__x86_64__)
    {"x86-64-v4",
     [] {
       return __builtin_cpu_supports("avx512f") &&
              __builtin_cpu_supports("fma");
     },
     x86_64_v4::kRows, &x86_64_v4::Multiply, &x86_64_v4::SumTerms,
     &x86_64_v4::SumTaps},
    {"x86-64-v3",
     [] {
       return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
     },
     x86_64_v3::kRows, &x86_64_v3::Multiply, &x86_64_v3::SumTerms,
     &x86_64_v3::SumTaps},
#endif
    {"baseline", [] { return true; }, baseline::kRows, &baseline::Multiply,
     &baseline::SumTerms, &baseline::SumTaps},
};

}  // namespace

absl::Span<const Level> AllLevels() { return kLevels; }

const Level& BestLevel() {
  static const Level* const best = FirstSupported(AllLevels());
  return *best;
}

}  // namespace nodewise::matrix_kernel
