#include "nodewise/compare/bounds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "nodewise/ndarray/elements.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {
namespace {

constexpr double kNoBound = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kBoundBlock = 1024;
// The result for a subnormal number may be as far as this from one: oneDNN's
// exp makes the smallest normal results by doubling subnormal ones.
constexpr double kSubnormalReach = 2;

// Returns how far two 64-bit integers are apart. Their doubles may not say so,
// and the difference may need 64 bits without a sign, which is more than a
// double holds.
template <typename T>
double DistanceOf(const DLTensor& expected, const DLTensor& actual, size_t i) {
  const T x = LoadElement<T>(DataOf(expected), i);
  const T y = LoadElement<T>(DataOf(actual), i);
  return static_cast<double>(x > y ? uint64_t(x) - uint64_t(y)
                                   : uint64_t(y) - uint64_t(x));
}

// Judges the elements of a tensor one after the other. Those that are off by no
// more than subnormal numbers make are told apart first; then each is held
// against its proved bound, the one in practice, or what stands for a bound.
class BoundChecker {
 public:
  BoundChecker(DLDataType dtype, absl::Span<const double> proved,
               absl::Span<const double> in_practice, Tolerance fallback)
      : most_subnormal_(kSubnormalReach * SmallestNormal(dtype)),
        is_half_(dtype.code == kDLFloat && dtype.bits == 16),
        proved_(proved),
        in_practice_(in_practice),
        fallback_(fallback) {
    check_.bound = kNoBound;
  }

  void Add(const ElementDifference& found) {
    const size_t i = found.element;
    const double proved = i < proved_.size() ? proved_[i] : kNoBound;
    const double likely = i < in_practice_.size() ? in_practice_[i] : proved;
    if (std::isfinite(proved)) squared_bounds_ += proved * proved;
    if (!std::isfinite(found.expected) || !std::isfinite(found.actual)) {
      if (std::isinf(proved)) CountOpen(found);
      return;
    }
    if (std::isfinite(likely)) {
      const double difference =
          std::copysign(found.error, found.actual - found.expected);
      // If errors are independent, the sum of these products is as large as the
      // root of the sum of their squares; errors that all point one way make it
      // far larger.
      aligned_ += found.expected * difference;
      expected_alignment_ += found.expected * found.expected * likely * likely;
    }
    if (found.error > 0) Judge(found, proved, likely);
  }

  BoundCheck Finish() {
    check_.allowed_norm = std::sqrt(squared_bounds_);
    const double spread = std::sqrt(expected_alignment_);
    if (spread > 0) check_.alignment = std::fabs(aligned_) / spread;
    if (is_any_judged_ && std::isnan(check_.bound)) check_.ratio = kNoBound;
    return check_;
  }

 private:
  // Elements without a bound are counted by the kinds that Metrics counts,
  // since IgnoreOpenElements() takes them off those counts again.
  void CountOpen(const ElementDifference& found) {
    const bool is_nan = std::isnan(found.expected);
    if (is_nan != std::isnan(found.actual)) {
      ++check_.open_nans;
    } else if (!is_nan && found.expected != found.actual) {
      ++check_.open_infinities;
    }
  }
  bool IsSubnormal(const ElementDifference& found) const {
    if (!(found.error < most_subnormal_)) return false;
    return !is_half_ || std::min(std::fabs(found.expected),
                                 std::fabs(found.actual)) < most_subnormal_;
  }
  void Judge(const ElementDifference& found, double proved, double likely) {
    const bool is_beyond = found.error > likely || found.error > proved;
    if (is_beyond && IsSubnormal(found)) {
      if (check_.subnormal++ == 0 && std::isnan(check_.bound)) {
        check_.worst = found;
      }
      return;
    }
    is_any_judged_ = true;
    if (found.error > likely) ++check_.unexpected;
    if (std::isnan(proved)) {
      ++check_.without_bound;
      if (found.error >
          fallback_.absolute + fallback_.relative * std::fabs(found.expected)) {
        ++check_.outside_fallback;
      }
      // An element without a bound counts as the worst until there is one with
      // a bound.
      if (std::isnan(check_.bound) && found.error > check_.worst.error) {
        check_.worst = found;
      }
      return;
    }
    if (found.error > proved) ++check_.outside;
    const double ratio = found.error / proved;  // Infinite for a bound of 0.
    // Two bounds of 0 give one infinite ratio, so the errors themselves decide.
    const bool is_worse = ratio == check_.ratio
                              ? found.error > check_.worst.error
                              : ratio > check_.ratio;
    if (!is_worse && !std::isnan(check_.bound)) return;
    check_.worst = found;
    check_.bound = proved;
    check_.ratio = ratio;
  }

  const double most_subnormal_;
  // An error below 2^-14, the smallest normal half, is only excused near it: it
  // is also the step between two halves from 1/16 to 1/8.
  const bool is_half_;
  const absl::Span<const double> proved_, in_practice_;
  const Tolerance fallback_;
  bool is_any_judged_ = false;
  double squared_bounds_ = 0, aligned_ = 0, expected_alignment_ = 0;
  BoundCheck check_;
};

}  // namespace

// The exponent of a normal number is never all zeros, so that the smallest one
// is 2 to the power of -14 for a half, -126 for a float and a bfloat, and -1022
// for a double.
double SmallestNormal(DLDataType dtype) {
  if (dtype.code == kDLBfloat && dtype.bits == 16) return 0x1p-126;
  if (dtype.code != kDLFloat) return 0;
  if (dtype.bits == 64) return 0x1p-1022;
  if (dtype.bits == 32) return 0x1p-126;
  return dtype.bits == 16 ? 0x1p-14 : 0;
}

// Elements are decoded block by block, so that the memory that this takes does
// not depend on the size of the tensors.
BoundCheck CheckBounds(const DLTensor& expected, const DLTensor& actual,
                       absl::Span<const double> proved,
                       absl::Span<const double> in_practice,
                       Tolerance fallback) {
  BoundChecker checker(expected.dtype, proved, in_practice, fallback);
  const DLDataType dtype = expected.dtype;
  const size_t bytes = ElementBytes(dtype) / dtype.lanes;
  const auto count = static_cast<size_t>(TensorBytes(expected).value() / bytes);
  const auto* const x_data = static_cast<const uint8_t*>(DataOf(expected));
  const auto* const y_data = static_cast<const uint8_t*>(DataOf(actual));
  const bool is_wide = dtype.bits == 64;
  std::array<double, kBoundBlock> x, y;
  for (size_t first = 0; first < count; first += kBoundBlock) {
    const size_t n = std::min(kBoundBlock, count - first);
    DecodeToDoubles(dtype, x_data + first * bytes, n, x.data());
    DecodeToDoubles(dtype, y_data + first * bytes, n, y.data());
    for (size_t i = 0; i < n; ++i) {
      double error = std::fabs(y[i] - x[i]);
      if (is_wide && dtype.code == kDLInt) {
        error = DistanceOf<int64_t>(expected, actual, first + i);
      } else if (is_wide && dtype.code == kDLUInt) {
        error = DistanceOf<uint64_t>(expected, actual, first + i);
      }
      checker.Add({first + i, x[i], y[i], error});
    }
  }
  return checker.Finish();
}

void IgnoreOpenElements(const BoundCheck& check, Metrics* metrics) {
  metrics->nan_mismatches -= check.open_nans;
  metrics->infinity_mismatches -= check.open_infinities;
}

}  // namespace nodewise
