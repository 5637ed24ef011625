#include "contrib/regions/half_floats.h"

#include <bit>
#include <cstdint>

#include "nodewise/ndarray/short_float.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace nodewise {
namespace {

// These convert as many elements as they can at once, and return how many.
#if defined(__x86_64__)
constexpr int64_t kAtOnce = 8;

// A CPU with AVX2 has F16C, for which clang has no name here.
bool CanConvert() {
  static const bool can = __builtin_cpu_supports("avx2");
  return can;
}

// Compiled for a CPU that this machine need not have, and called only where it
// has it. Results are the same as those of the loops behind, which do the rest.
__attribute__((target("avx,f16c"))) int64_t WidenFast(const uint16_t* from,
                                                      int64_t n, float* to) {
  int64_t i = 0;
  for (; i + kAtOnce <= n; i += kAtOnce) {
    const __m128i half =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(half));
  }
  return i;
}

__attribute__((target("avx,f16c"))) int64_t NarrowFast(const float* from,
                                                       int64_t n,
                                                       uint16_t* to) {
  int64_t i = 0;
  for (; i + kAtOnce <= n; i += kAtOnce) {
    const __m128i half =
        _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), half);
  }
  return i;
}
#else
bool CanConvert() { return false; }
int64_t WidenFast(const uint16_t*, int64_t, float*) { return 0; }
int64_t NarrowFast(const float*, int64_t, uint16_t*) { return 0; }
#endif

void WidenBfloats(const uint16_t* from, int64_t n, float* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = BfloatToFloat(from[i]);
}

// As FloatToBfloat(), without branches, so that the compiler does several at
// once.
void NarrowToBfloats(const float* from, int64_t n, uint16_t* to) {
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(from[i]);
    const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
    // A NaN would be rounded to infinity if its upper bits were zeros, so one
    // of them is set.
    to[i] = static_cast<uint16_t>(is_nan ? (bits >> 16 | 0x40) : rounded);
  }
}

int64_t CountIn(const NDArray& half) {
  return static_cast<int64_t>(half.bytes() / sizeof(uint16_t));
}

// Returns the thread's memory for a tensor of a call, as float32. One call runs
// after the other, so all of them share it: if each kept its own, that would
// add up to more than the model's tensors take, which share theirs.
absl::StatusOr<NDArray> WideLike(const NDArray& half, size_t place) {
  thread_local std::vector<NDArray> blocks;
  // Place 0 is the output's and the inputs follow, so that tensors of one call
  // never share a block.
  if (place >= blocks.size()) blocks.resize(place + 1);
  const auto bytes = CountIn(half) * static_cast<int64_t>(sizeof(float));
  NDArray& block = blocks[place];
  if (!block.defined() || block.bytes() < static_cast<size_t>(bytes)) {
    block = NDArray();
    NODEWISE_ASSIGN_OR_RETURN(
        block, NDArray::Empty({&bytes, 1}, DLDataType{kDLUInt, 8, 1}, kCpu));
  }
  return block.View(half.shape(), kFloat32);
}

}  // namespace

bool IsHalfFloat(DLDataType dtype) {
  return dtype == kFloat16 || dtype == kBfloat16;
}

void Widen(const NDArray& half, const NDArray& wide) {
  const auto* const from = half.As<const uint16_t>();
  auto* const to = wide.As<float>();
  const int64_t n = CountIn(half);
  if (half.dtype() == kBfloat16) return WidenBfloats(from, n, to);
  int64_t i = CanConvert() ? WidenFast(from, n, to) : 0;
  for (; i < n; ++i) to[i] = HalfToFloat(from[i]);
}

void Narrow(const NDArray& wide, const NDArray& half) {
  const auto* const from = wide.As<const float>();
  auto* const to = half.As<uint16_t>();
  const int64_t n = CountIn(half);
  if (half.dtype() == kBfloat16) return NarrowToBfloats(from, n, to);
  int64_t i = CanConvert() ? NarrowFast(from, n, to) : 0;
  for (; i < n; ++i) to[i] = FloatToHalf(from[i]);
}

bool HasNaN(const NDArray& half) {
  // All bits of the exponent are set in an infinity, and a NaN is any number
  // above it, the sign aside.
  const uint16_t infinity = half.dtype() == kBfloat16 ? 0x7F80 : 0x7C00;
  const auto* const data = half.As<const uint16_t>();
  const int64_t n = CountIn(half);
  uint16_t any = 0;
  // Without an early end the compiler looks at many at once.
  for (int64_t i = 0; i < n; ++i) any |= (data[i] & 0x7FFF) > infinity ? 1 : 0;
  return any != 0;
}

absl::StatusOr<NDArray> WideCopy(const NDArray& half) {
  NODEWISE_ASSIGN_OR_RETURN(NDArray wide,
                            NDArray::Empty(half.shape(), kFloat32, kCpu));
  Widen(half, wide);
  return wide;
}

absl::StatusOr<std::vector<NDArray>> WideInputs(
    absl::Span<const NDArray> given) {
  std::vector<NDArray> wide(given.begin(), given.end());
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].defined() || !IsHalfFloat(given[i].dtype())) continue;
    NODEWISE_ASSIGN_OR_RETURN(wide[i], WideLike(given[i], i + 1));
    Widen(given[i], wide[i]);
  }
  return wide;
}

absl::StatusOr<NDArray> WideOutput(const NDArray& output) {
  if (!IsHalfFloat(output.dtype())) return output;
  return WideLike(output, 0);
}

}  // namespace nodewise
