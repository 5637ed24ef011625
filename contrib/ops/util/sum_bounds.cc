#include "contrib/ops/util/sum_bounds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Elements that are loaded together: few enough to stay in the cache.
constexpr int64_t kLoaded = 512;

// What the bounds of all sums of one type have in common.
class SumRule {
 public:
  explicit SumRule(DLDataType dtype)
      : u_(UnitRoundoff(dtype)),
        largest_(LargestOf(dtype)),
        overflows_(dtype),
        tiny_(HalfUlp(dtype, 0)),
        half_ulp_(dtype) {}

  SumBound BoundOf(const SumOfTerms& sum) const {
    // The unit roundoff of the reference's own sum. An inner product of n terms
    // is off by at most n u times the absolute sum, in any order (Jeannerod and
    // Rump 2013).
    constexpr double kOwnRoundoff = 0x1p-53;
    const double norm = std::sqrt(sum.squares);
    const double rounding = half_ulp_(sum.result);
    SumBound bound{kNan, kNan};
    const double way = std::max(sum.absolute, sum.on_the_way);
    if (way <= largest_) {
      bound.proved = sum.terms * ((u_ + kOwnRoundoff) * sum.absolute + tiny_) +
                     rounding + sum.lost;
    } else if (overflows_(way)) {
      // In some order it overflows on its way, to an infinity or to NaN.
      bound.proved = std::numeric_limits<double>::infinity();
    }
    if (norm + std::fabs(sum.result) <= largest_) {
      bound.expected =
          std::sqrt(sum.terms) *
              (kExpectedFactor * u_ * (norm + std::fabs(sum.result)) + tiny_) +
          rounding + sum.lost;
    }
    return bound;
  }

 private:
  const double u_;
  const double largest_;
  const OverflowRule overflows_;
  const double tiny_;  // A product that underflows is off by this.
  const HalfUlps half_ulp_;
};

}  // namespace

SumBound BoundSum(DLDataType dtype, const SumOfTerms& sum) {
  return SumRule(dtype).BoundOf(sum);
}

double LostInPowers(DLDataType dtype, double terms, double p, double sum) {
  if (p == 1) return 0;
  const double lost = 2 * terms * HalfUlp(dtype, 0);
  const double norm = std::pow(sum, 1 / p);
  const double least = std::pow(std::max(sum - lost, 0.0), 1 / p);
  return std::max(std::pow(sum + lost, 1 / p) - norm, norm - least);
}

OverflowRule::OverflowRule(DLDataType dtype)
    : largest_(LargestOf(dtype)), is_widest_(dtype == kFloat64) {}

void BoundSums(const NDArray& output, double terms, Bounds* bounds,
               double way) {
  const SumRule rule(output.dtype());
  ParallelFor(CountOf(output), 6, [&](int64_t begin, int64_t end) {
    std::array<double, kLoaded> values;
    for (int64_t first = begin; first < end; first += kLoaded) {
      const int64_t count = std::min(kLoaded, end - first);
      LoadDoubles(output, first, first + count, values.data());
      double* const proved = bounds->proved.data() + first;
      double* const expected = bounds->expected.data() + first;
      for (int64_t i = 0; i < count; ++i) {
        const SumBound bound =
            rule.BoundOf({terms, proved[i], expected[i],
                          values[static_cast<size_t>(i)], way * proved[i]});
        proved[i] = bound.proved;
        expected[i] = bound.expected;
      }
    }
  });
}

void BoundSumsAt(const NDArray& output, absl::Span<const int64_t> elements,
                 double terms, Bounds* bounds, double way) {
  const SumRule rule(output.dtype());
  for (size_t i = 0; i < elements.size(); ++i) {
    double result = 0;
    LoadDoubles(output, elements[i], elements[i] + 1, &result);
    const SumBound bound =
        rule.BoundOf({terms, bounds->proved[i], bounds->expected[i], result,
                      way * bounds->proved[i]});
    bounds->proved[i] = bound.proved;
    bounds->expected[i] = bound.expected;
  }
}

// With n terms t, s = sum t and the result y, which is s rounded once:
// proved >= n u (sum |t|) + HalfUlp(y) >= n u |s| + HalfUlp(y), and
// expected >= 3 u (sqrt(n) norm(t) + sqrt(n) |y|) + HalfUlp(y), where the norm
// is at least |s| / sqrt(n) (Cauchy and Schwarz). |s| may be HalfUlp(y) smaller
// than |y|, of which n u or 3 u is less than the HalfUlp(y) that is added.
// Both grow with n.
double LeastBoundOfSum(double terms) {
  return std::min(terms, kExpectedFactor * (1 + std::sqrt(terms)));
}

}  // namespace nodewise
