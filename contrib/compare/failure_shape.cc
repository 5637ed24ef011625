#include "nodewise/compare/failure_shape.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>

#include "contrib/compare/tensor_pair.h"
#include "nodewise/compare/tensor_relation.h"

namespace nodewise {
namespace {

struct ShapeName {
  FailureShape shape;
  std::string_view name;
};
constexpr ShapeName kShapeNames[] = {
    {FailureShape::kScaled, "scaled"},
    {FailureShape::kOffset, "offset"},
    {FailureShape::kAffine, "affine"},
    {FailureShape::kTransposed, "transposed"},
    {FailureShape::kReversed, "reversed"},
    {FailureShape::kShifted, "shifted"},
    {FailureShape::kRelated, "related"},
    {FailureShape::kPrecisionLost, "precision-lost"},
    {FailureShape::kUnwritten, "unwritten"},
    {FailureShape::kUninitialised, "uninitialised"},
    {FailureShape::kOneSlice, "one-slice"},
    {FailureShape::kLastLanes, "last-lanes"},
    {FailureShape::kEveryNth, "every-nth"},
    {FailureShape::kBorder, "border"},
    {FailureShape::kStaleCopy, "stale-copy"},
};

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
  for (size_t i = 0; i < pair.elements(); ++i) {
    const Bits x = LoadElement<Bits>(pair.expected_bytes(), i);
    const Bits y = LoadElement<Bits>(pair.actual_bytes(), i);
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

UlpHistogram UlpsOf(const TensorPair& pair) {
  const DLDataType dtype = pair.dtype();
  if (dtype.code == kDLBfloat) return CountUlps<uint16_t>(pair, 0x7F80);
  if (dtype.code != kDLFloat) return {};
  if (dtype.bits == 16) return CountUlps<uint16_t>(pair, 0x7C00);
  if (dtype.bits == 32) return CountUlps<uint32_t>(pair, 0x7F800000);
  return CountUlps<uint64_t>(pair, 0x7FF0000000000000);
}

// Whether a pattern says what was done to all elements.
bool ExplainsAll(const FailurePattern& pattern) {
  constexpr FailureShape kOfAll[] = {
      FailureShape::kScaled,   FailureShape::kOffset,
      FailureShape::kAffine,   FailureShape::kTransposed,
      FailureShape::kReversed, FailureShape::kShifted,
      FailureShape::kUnwritten};
  return std::find(std::begin(kOfAll), std::end(kOfAll), pattern.shape) !=
         std::end(kOfAll);
}

// A change to all elements says more than the places of the wrong ones.
void AddRelation(const DLTensor& expected, const DLTensor& actual,
                 DifferenceDetails* details) {
  std::vector<FailurePattern>& patterns = details->patterns;
  if (std::any_of(patterns.begin(), patterns.end(), ExplainsAll)) return;
  const auto relation = FindRelation(expected, actual);
  if (!relation.has_value() || relation->Steps() == 0) return;
  patterns.insert(patterns.begin(),
                  {FailureShape::kRelated, WordsOf(*relation, expected)});
}

}  // namespace

std::string_view NameOf(FailureShape shape) {
  for (const ShapeName& row : kShapeNames) {
    if (row.shape == shape) return row.name;
  }
  return "";
}

DifferenceDetails DescribeDifference(const DLTensor& expected,
                                     const DLTensor& actual,
                                     const Metrics& metrics,
                                     Tolerance tolerance) {
  DifferenceDetails details;
  // Complex numbers and vectors have several numbers at each place.
  const bool has_parts =
      expected.dtype.code == kDLComplex || expected.dtype.lanes > 1;
  if (has_parts) return details;
  const TensorPair pair(expected, actual, metrics, tolerance);
  details.ulps = UlpsOf(pair);
  AddValuePatterns(pair, &details);
  AddMovePatterns(pair, &details);
  AddRelation(expected, actual, &details);
  AddPlacePatterns(pair, &details);
  return details;
}

}  // namespace nodewise
