#include "contrib/compare/ulp_histogram.h"

#include <array>
#include <bit>

#include "nodewise/ndarray/elements.h"

namespace nodewise {
namespace {

// The place of a float among all floats of its type, counted from 0; numbers
// below 0 have places below it.
template <typename Bits>
int64_t PlaceOf(Bits bits) {
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  const auto size = static_cast<int64_t>(bits & static_cast<Bits>(~kSign));
  return (bits & kSign) != 0 ? -size : size;
}

// One for equal elements, and one for each power of two up to the 64th.
constexpr size_t kMostBuckets = 66;

// Counts the differences of finite numbers whose exponent is not all ones.
template <typename Bits>
UlpHistogram CountUlps(const TensorPair& pair, Bits exponent) {
  std::array<uint64_t, kMostBuckets> counts = {};
  for (size_t i = 0; i < pair.elements; ++i) {
    const Bits x = LoadElement<Bits>(pair.expected, i);
    const Bits y = LoadElement<Bits>(pair.actual, i);
    if ((x & exponent) == exponent || (y & exponent) == exponent) continue;
    const int64_t a = PlaceOf(x), b = PlaceOf(y);
    const uint64_t ulps =
        a > b ? uint64_t(a) - uint64_t(b) : uint64_t(b) - uint64_t(a);
    const size_t bucket =
        ulps == 0 ? 0 : 1 + static_cast<size_t>(std::bit_width(ulps - 1));
    ++counts[bucket];
  }
  size_t used = counts.size();
  while (used > 0 && counts[used - 1] == 0) --used;
  return UlpHistogram(counts.begin(), counts.begin() + used);
}

}  // namespace

UlpHistogram UlpsOf(const TensorPair& pair) {
  const DLDataType dtype = pair.dtype;
  if (dtype.code == kDLBfloat) return CountUlps<uint16_t>(pair, 0x7F80);
  if (dtype.code != kDLFloat) return {};
  if (dtype.bits == 16) return CountUlps<uint16_t>(pair, 0x7C00);
  if (dtype.bits == 32) return CountUlps<uint32_t>(pair, 0x7F800000);
  return CountUlps<uint64_t>(pair, 0x7FF0000000000000);
}

}  // namespace nodewise
