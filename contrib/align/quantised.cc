#include "contrib/align/quantised.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "contrib/align/pair_sums.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

constexpr double kNoEnd = std::numeric_limits<double>::infinity();

double VarianceOf(const TensorStats& stats) {
  const double square =
      stats.l2 * stats.l2 / static_cast<double>(stats.elements);
  return std::max(0.0, square - stats.mean * stats.mean);
}

// Whether clipping to a range of integers ends here: at 127, -128 and -127, and
// likewise for other numbers of bits; or at 0.
bool IsEndOfRange(double q) {
  constexpr double kLeast = 8;
  if (q == 0) return true;
  const double size = std::fabs(q);
  const auto is_power = [](double x) { return std::exp2(std::ilogb(x)) == x; };
  return size + 1 >= kLeast &&
         (is_power(size + 1) || (q < 0 && is_power(size)));
}

// Sums over pairs of an integer and the float that it stands for.
PairSums SumOver(const Layout& layout,
                 absl::Span<const std::vector<double>> source,
                 absl::Span<const std::vector<double>> compiled, double low,
                 double high) {
  PairSums sums;
  const std::vector<int64_t> places =
      layout.is_same_order() ? std::vector<int64_t>() : PlacesOf(layout);
  for (size_t set = 0; set < compiled.size(); ++set) {
    for (size_t i = 0; i < compiled[set].size(); ++i) {
      const int64_t place =
          places.empty() ? static_cast<int64_t>(i) : places[i];
      const double q = compiled[set][i];
      // A clipped number says nothing.
      if (place == kPaddingPlace || q <= low || q >= high) continue;
      const double x = source[set][static_cast<size_t>(place)];
      if (std::isfinite(x)) sums.Add(q, x);
    }
  }
  return sums;
}

}  // namespace

bool MayBeQuantised(const TensorFacts& source, const TensorFacts& compiled) {
  // Clipping and rounding to some steps change the spread by no more.
  constexpr double kNear = 0.3;
  constexpr size_t kMostBytes = 4;
  if (!IsFloat(source.dtype) || !IsInteger(compiled.dtype) ||
      ElementBytes(compiled.dtype) > kMostBytes) {
    return false;
  }
  double first = 0;
  for (size_t set = 0; set < source.stats.size(); ++set) {
    const TensorStats& from = source.stats[set];
    const TensorStats& to = compiled.stats[set];
    if (from.elements != to.elements || from.nans + from.infinities > 0) {
      return false;
    }
    const double step = std::sqrt(VarianceOf(from) / VarianceOf(to));
    if (!std::isfinite(step) || step == 0) return false;
    if (set == 0) first = step;
    if (std::fabs(step - first) > kNear * first) return false;
  }
  return true;
}

std::optional<Layout::Quantisation> FitQuantisation(
    const Layout& layout, absl::Span<const std::vector<double>> source,
    const TensorFacts& compiled_facts,
    absl::Span<const std::vector<double>> compiled, double least_likeness) {
  constexpr double kFewest = 8;
  Layout::Quantisation how{1, 0, -kNoEnd, kNoEnd};
  double low = kNoEnd;
  double high = -kNoEnd;
  for (const TensorStats& stats : compiled_facts.stats) {
    low = std::min(low, stats.min);
    high = std::max(high, stats.max);
  }
  if (IsEndOfRange(low)) how.low = low;
  if (IsEndOfRange(high)) how.high = high;
  const PairSums sums = SumOver(layout, source, compiled, how.low, how.high);
  if (sums.n < kFewest || !(sums.spread_a() > 0) || !(sums.spread_b() > 0)) {
    return std::nullopt;
  }
  const double likeness = sums.Likeness();
  if (likeness < least_likeness) return std::nullopt;
  const double slope = sums.together() / sums.spread_a();
  // Plus 0: no zero point is -0.
  how.zero_point = std::round((sums.a - sums.b / slope) / sums.n) + 0.0;
  // The slope again, with a zero point that is one of the integers.
  const double z = how.zero_point;
  how.scale =
      (sums.ab - z * sums.b) / (sums.aa - 2 * z * sums.a + sums.n * z * z);
  if (!(how.scale > 0)) return std::nullopt;
  return how;
}

double DistanceBeyondRounding(const Layout::Quantisation& how, double expected,
                              double found) {
  const double number = how.Number(found);
  if (found <= how.low && expected < number) return 0;
  if (found >= how.high && expected > number) return 0;
  constexpr double kHalf = 0.5 + 1e-3;
  const double distance = std::fabs(expected - number);
  if (std::isnan(distance)) return kNoEnd;
  return std::max(0.0, distance - kHalf * how.scale);
}

}  // namespace nodewise
