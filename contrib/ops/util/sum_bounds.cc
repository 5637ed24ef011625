#include "contrib/ops/util/sum_bounds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "nodewise/kernels/matrix_kernel.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

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
    SumBound bound{kUnknownError, kUnknownError};
    const double way = std::max(sum.absolute, sum.on_the_way);
    if (way <= largest_) {
      bound.proved = sum.terms * ((u_ + kOwnRoundoff) * sum.absolute + tiny_) +
                     rounding + sum.lost;
    } else if (overflows_(way)) {
      // In some order it overflows on its way, to an infinity or to NaN.
      bound.proved = kAnyError;
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

void ResizeBounds(int64_t count, Bounds* bounds) {
  bounds->proved.resize(static_cast<size_t>(count));
  bounds->expected.resize(static_cast<size_t>(count));
}

Bounds* SizedBounds(EvalArgs& args, size_t output, int64_t count) {
  Bounds* const bounds = args.bounds(output);
  if (bounds != nullptr) ResizeBounds(count, bounds);
  return bounds;
}

void SetAllBounds(int64_t count, double bound, Bounds* bounds) {
  if (bounds == nullptr) return;
  bounds->proved.assign(static_cast<size_t>(count), bound);
  bounds->expected = bounds->proved;
}

SumBound BoundSum(DLDataType dtype, const SumOfTerms& sum) {
  return SumRule(dtype).BoundOf(sum);
}

// Each term may lose as much as its power underflows by; the root is taken of a
// sum that is that much larger or smaller.
double UnderflowLossInPowers(DLDataType dtype, double terms, double p,
                             double sum) {
  if (p == 1) return 0;
  const double lost = 2 * terms * HalfUlp(dtype, 0);
  const double norm = std::pow(sum, 1 / p);
  const double least = std::pow(std::max(sum - lost, 0.0), 1 / p);
  return std::max(std::pow(sum + lost, 1 / p) - norm, norm - least);
}

OverflowRule::OverflowRule(DLDataType dtype)
    : largest_(LargestOf(dtype)), is_widest_(dtype == kFloat64) {}

// The bounds are made in place, out of the sums that their lists hold.
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
    rule.BoundOf({terms, bounds->proved[i], bounds->expected[i], result,
                  way * bounds->proved[i]})
        .SetAt(i, bounds);
  }
}

// With n terms t, s = sum t and the result y, which is s rounded once: proved
// >= n u (sum |t|) + HalfUlp(y) >= n u |s| + HalfUlp(y), and expected >= 3 u
// (sqrt(n) norm(t) + sqrt(n) |y|) + HalfUlp(y), where the norm is at least |s|
// / sqrt(n) (Cauchy and Schwarz). |s| may be HalfUlp(y) smaller than |y|, of
// which n u or 3 u is less than the HalfUlp(y) that is added. Both grow with n.
double LeastBoundOfSum(double terms) {
  return std::min(terms, kExpectedFactor * (1 + std::sqrt(terms)));
}

namespace {

using matrix_kernel::kStripColumns;
using matrix_kernel::PaddedColumns;

constexpr double kNanosecondsPerSummed = 0.3;

// The elements in a strip of columns of one item, by their place in the list.
struct StripOfElements {
  int64_t item;
  int64_t column;
  std::vector<size_t> places;
};

// Packing a column costs most where few are packed at a time, until a strip no
// longer fits into the second cache.
int64_t StripWidth(const ProductSizes& sizes) {
  constexpr int64_t kMostPacked = 16'384;
  constexpr int64_t kMostLines = 64;
  const int64_t lines = kMostPacked / std::max<int64_t>(sizes.depth, 1);
  return PaddedColumns(std::clamp<int64_t>(lines, 1, kMostLines));
}

std::vector<StripOfElements> StripsOf(const ProductSizes& sizes,
                                      absl::Span<const int64_t> elements) {
  const int64_t width = StripWidth(sizes);
  const int64_t strips_of_item = (sizes.columns + width - 1) / width;
  std::vector<std::vector<size_t>> places(
      static_cast<size_t>(sizes.items * strips_of_item));
  for (size_t i = 0; i < elements.size(); ++i) {
    const int64_t item = elements[i] / (sizes.rows * sizes.columns);
    const int64_t strip = elements[i] % sizes.columns / width;
    places[static_cast<size_t>(item * strips_of_item + strip)].push_back(i);
  }
  std::vector<StripOfElements> strips;
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i].empty()) continue;
    const auto strip = static_cast<int64_t>(i);
    strips.push_back({strip / strips_of_item, strip % strips_of_item * width,
                      std::move(places[i])});
  }
  return strips;
}

// Elements are grouped by strips of columns: a column is packed and turned once
// for all of its elements in a strip, and each element is then an inner product
// of a row and a column.
struct StripSummer {
  // So many columns are turned at once: those of one line of the cache.
  static constexpr int64_t kTurned = 8;
  static_assert(kStripColumns % kTurned == 0);

  const ProductSizes& sizes;
  const matrix_kernel::Level& level = matrix_kernel::BestLevel();
  const int64_t width = StripWidth(sizes);
  // As `right` packs: step by step.
  std::vector<double> strip_numbers =
      std::vector<double>(static_cast<size_t>(sizes.depth * width));
  // Column by column, as far as they were turned.
  std::vector<double> columns = strip_numbers;
  std::vector<bool> is_turned =
      std::vector<bool>(static_cast<size_t>(width / kTurned));  // By group.
  std::vector<double> left_row =
      std::vector<double>(static_cast<size_t>(sizes.depth));

  void Sum(const StripOfElements& strip, PackStrips left, PackStrips right,
           absl::Span<const int64_t> elements, Bounds* bounds) {
    const int64_t depth = sizes.depth;
    const int64_t lines =
        std::min<int64_t>(width, sizes.columns - strip.column);
    const int64_t packed = PaddedColumns(lines);
    right({strip.item, strip.column, lines, 0, depth, packed,
           strip_numbers.data()});
    std::fill(is_turned.begin(), is_turned.end(), false);
    int64_t packed_row = -1;
    for (const size_t place : strip.places) {
      const int64_t row = elements[place] / sizes.columns % sizes.rows;
      if (row != packed_row) {
        left({strip.item, row, 1, 0, depth, 1, left_row.data()});
        packed_row = row;
      }
      const int64_t column = elements[place] % sizes.columns - strip.column;
      GatherColumn(column, packed);
      const matrix_kernel::TermSums sums = level.sum_terms(
          depth, left_row.data(), columns.data() + column * depth);
      bounds->proved[place] = sums.absolute;
      bounds->expected[place] = sums.squares;
    }
  }

 private:
  // Columns are turned group by group, when the first one of a group is asked
  // for.
  void GatherColumn(int64_t column, int64_t packed) {
    const int64_t group = column / kTurned;
    if (is_turned[static_cast<size_t>(group)]) return;
    is_turned[static_cast<size_t>(group)] = true;
    const double* from = strip_numbers.data() + group * kTurned;
    double* const to = columns.data() + group * kTurned * sizes.depth;
    for (int64_t k = 0; k < sizes.depth; ++k) {
      for (int64_t j = 0; j < kTurned; ++j) to[j * sizes.depth + k] = from[j];
      from += packed;
    }
  }
};

}  // namespace

void SumTermsAt(const ProductSizes& sizes, PackStrips left, PackStrips right,
                absl::Span<const int64_t> elements, Bounds* bounds) {
  bounds->proved.assign(elements.size(), 0);
  bounds->expected.assign(elements.size(), 0);
  if (sizes.depth == 0) return;
  const std::vector<StripOfElements> strips = StripsOf(sizes, elements);
  if (strips.empty()) return;
  const double work = kNanosecondsPerSummed * static_cast<double>(sizes.depth) *
                      (static_cast<double>(StripWidth(sizes)) *
                           static_cast<double>(strips.size()) +
                       static_cast<double>(elements.size())) /
                      static_cast<double>(strips.size());
  ParallelFor(static_cast<int64_t>(strips.size()), work,
              [&](int64_t begin, int64_t end) {
                StripSummer summer{sizes};
                for (int64_t i = begin; i < end; ++i) {
                  summer.Sum(strips[static_cast<size_t>(i)], left, right,
                             elements, bounds);
                }
              });
}

}  // namespace nodewise
