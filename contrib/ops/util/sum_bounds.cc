#include "contrib/ops/util/sum_bounds.h"

#include <cmath>
#include <limits>

#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double LargestOf(float) { return std::numeric_limits<float>::max(); }
double LargestOf(double) { return std::numeric_limits<double>::max(); }
double LargestOf(Half) { return 65504; }
double LargestOf(Bfloat) { return BfloatToFloat(0x7F7F); }

double LargestOf(DLDataType dtype) {
  double largest = std::numeric_limits<double>::max();
  VisitOneOf(FloatElements(), dtype, [&largest](auto element) {
    largest = LargestOf(typename decltype(element)::Stored());
  });
  return largest;
}

}  // namespace

SumBound BoundSum(DLDataType dtype, const SumOfTerms& sum) {
  // The unit roundoff of the reference's own sum. An inner product of n terms
  // is off by at most n u times the absolute sum, whatever its order (Jeannerod
  // and Rump 2013).
  constexpr double kOwnRoundoff = 0x1p-53;
  const double u = UnitRoundoff(dtype);
  const double largest = LargestOf(dtype);
  const double norm = std::sqrt(sum.squares);
  // A product that underflows is off by half the smallest number.
  const double tiny = HalfUlp(dtype, 0);
  const double rounding = HalfUlp(dtype, sum.result);
  SumBound bound{kNan, kNan};
  if (sum.absolute <= largest) {
    bound.proved =
        sum.terms * ((u + kOwnRoundoff) * sum.absolute + tiny) + rounding;
  }
  if (norm + std::fabs(sum.result) <= largest) {
    bound.expected =
        std::sqrt(sum.terms) *
            (kExpectedFactor * u * (norm + std::fabs(sum.result)) + tiny) +
        rounding;
  }
  return bound;
}

void BoundSums(const NDArray& output, double terms, Bounds* bounds) {
  const std::vector<double> values = ToDoubles(output);
  const auto count = static_cast<int64_t>(values.size());
  ParallelFor(count, 20, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end);
         ++i) {
      const SumBound bound =
          BoundSum(output.dtype(),
                   {terms, bounds->proved[i], bounds->expected[i], values[i]});
      bounds->proved[i] = bound.proved;
      bounds->expected[i] = bound.expected;
    }
  });
}

}  // namespace nodewise
