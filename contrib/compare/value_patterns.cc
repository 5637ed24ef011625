// Patterns in the values of wrong elements, wherever they are.

#include <bit>
#include <cmath>
#include <limits>

#include "contrib/compare/tensor_pair.h"
#include "fmt/format.h"

namespace nodewise {
namespace {

// Fewer wrong elements show no pattern of values.
constexpr uint64_t kLeastWrong = 8;
// How much of the difference a factor, or one number, must explain.
constexpr double kExplained = 0.999;
// A factor and a number that is added each have a part in the difference.
constexpr double kLeastPartOfLine = 1e-3;
// The share of elements that must be numbers of a shorter type: nearly all of
// those found, and few of those expected.
constexpr double kMostAreShort = 0.999;
constexpr double kFewAreShort = 0.5;
// The share of wrong elements with absurd sizes, as random bits have, and how
// much larger than all that is expected they are.
constexpr double kAbsurdShare = 0.25;
constexpr double kAbsurdFactor = 1e6;

bool IsBfloat(double value) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return (bits & 0xFFFF) == 0;
}
bool IsHalf(double value) {
  return static_cast<double>(HalfToFloat(DoubleToHalf(value))) == value;
}
bool IsFloat(double value) {
  return static_cast<double>(static_cast<float>(value)) == value;
}

// A type that results may have been rounded to on their way.
struct ShortType {
  const char* name;
  bool (*has)(double value);
  uint8_t least_bits;  // The bits of the tensors that it is shorter than.
  uint64_t expected = 0, actual = 0;
  uint64_t others = 0;  // Results that the type does not have.

  void Take(double x, double y, uint64_t elements) {
    // More of them leave no hope, and the test takes its time.
    if (static_cast<double>(others) >
        (1 - kMostAreShort) * static_cast<double>(elements)) {
      return;
    }
    expected += has(x) ? 1 : 0;
    (has(y) ? actual : others) += 1;
  }
};

// What wrong and different elements are like.
struct ValueCounts {
  uint64_t different = 0, wrong = 0;
  uint64_t same_as_first = 0, absurd = 0;
  double first = 0;             // The first wrong element.
  double sum = 0, squares = 0;  // Over all finite differences.
  // Sums of the expected numbers, their squares, and their products with the
  // differences.
  double expected = 0, expected_squares = 0, products = 0;
  bool is_constant = true;  // All expected numbers are equal.
};

// `usual` is the size of what is expected.
bool IsAbsurd(double value, double usual) {
  const double size = std::fabs(value);
  return !(size <= kAbsurdFactor * usual) ||
         (size > 0 && size < std::numeric_limits<float>::min());
}

ValueCounts CountValues(const TensorPair& pair, absl::Span<ShortType> types) {
  ValueCounts counts;
  const auto n = static_cast<double>(pair.elements());
  const double norm = pair.metrics().expected_norm;
  const double usual = norm == 0 ? 1 : norm / std::sqrt(n);
  const double first_expected = pair.Expected(0);
  pair.ForEach([&](size_t, double x, double y) {
    counts.is_constant = counts.is_constant && x == first_expected;
    if (std::isfinite(x) && std::isfinite(y)) {
      counts.sum += y - x;
      counts.squares += (y - x) * (y - x);
      counts.expected += x;
      counts.expected_squares += x * x;
      counts.products += x * (y - x);
    }
    if (x != y) {
      ++counts.different;
      for (ShortType& type : types) type.Take(x, y, pair.elements());
    }
    if (!pair.IsWrong(x, y)) return true;
    if (counts.wrong == 0) counts.first = y;
    ++counts.wrong;
    counts.same_as_first += y == counts.first ? 1 : 0;
    counts.absurd += IsAbsurd(y, usual) ? 1 : 0;
    return true;
  });
  return counts;
}

double Share(uint64_t part, uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

// The line through what is expected and what was found that leaves the least
// squares: inputs that were normalised twice, or not at all.
void AddLine(const ValueCounts& counts, double n, DifferenceDetails* details) {
  const double spread =
      counts.expected_squares - counts.expected * counts.expected / n;
  if (counts.wrong < kLeastWrong || !(spread > 0)) return;
  const double common = counts.products - counts.expected * counts.sum / n;
  const double slope = common / spread;
  const double offset = (counts.sum - slope * counts.expected) / n;
  const double mean_part = counts.sum * counts.sum / n;
  const double explained = mean_part + slope * common;
  const bool is_line = explained > kExplained * counts.squares &&
                       slope * common > kLeastPartOfLine * counts.squares &&
                       mean_part > kLeastPartOfLine * counts.squares;
  if (!is_line) return;
  details->patterns.push_back(
      {FailureShape::kAffine,
       fmt::format("all is {:.4g} times what is expected, {} {:.4g}", slope + 1,
                   offset < 0 ? "minus" : "plus", std::fabs(offset))});
}

void AddFactors(const TensorPair& pair, const ValueCounts& counts,
                DifferenceDetails* details) {
  const Metrics& metrics = pair.metrics();
  const double explained = std::fabs(metrics.scale - 1) *
                           metrics.expected_norm / metrics.difference_norm;
  // A tensor that is 0 everywhere was not multiplied by anything.
  if (explained > kExplained && !counts.is_constant && metrics.scale != 0) {
    details->patterns.push_back(
        {FailureShape::kScaled,
         fmt::format("all is {:.7g} times what is expected", metrics.scale)});
  }
  const auto n = static_cast<double>(metrics.elements);
  const double mean = counts.sum / n;
  if (mean * mean * n > kExplained * counts.squares) {
    details->patterns.push_back(
        {FailureShape::kOffset,
         fmt::format("{:.4g} is added to all that is expected", mean)});
  }
  const bool is_constant = counts.same_as_first == metrics.elements;
  if (details->patterns.empty() && !is_constant) AddLine(counts, n, details);
}

}  // namespace

void AddValuePatterns(const TensorPair& pair, DifferenceDetails* details) {
  if (pair.elements() < kLeastWrong) return;
  // Numbers of the first are of the second, too, unless they are very large.
  ShortType types[] = {{"bfloat16", &IsBfloat, 32},
                       {"float16", &IsHalf, 32},
                       {"float32", &IsFloat, 64}};
  const bool is_float = pair.dtype().code == kDLFloat;
  const ValueCounts counts = CountValues(
      pair, is_float && pair.dtype().bits >= 32 ? absl::MakeSpan(types)
                                                : absl::Span<ShortType>());
  if (pair.metrics().non_finite() == 0) AddFactors(pair, counts, details);
  if (counts.wrong < kLeastWrong) return;
  for (const ShortType& type : types) {
    if (pair.dtype().bits < type.least_bits || counts.different == 0) continue;
    if (Share(type.actual, counts.different) > kMostAreShort &&
        Share(type.expected, counts.different) < kFewAreShort &&
        counts.same_as_first < counts.wrong) {
      details->patterns.push_back(
          {FailureShape::kPrecisionLost,
           fmt::format("all that differs are numbers of {}", type.name),
           type.name});
      break;
    }
  }
  if (counts.same_as_first == counts.wrong && !counts.is_constant) {
    details->patterns.push_back(
        {FailureShape::kUnwritten,
         fmt::format("all wrong elements are {}", counts.first)});
  }
  if (is_float && Share(counts.absurd, counts.wrong) > kAbsurdShare) {
    details->patterns.push_back(
        {FailureShape::kUninitialised,
         fmt::format("{} of {} wrong elements are of sizes that no calculation "
                     "gives, as in memory that was never written",
                     counts.absurd, counts.wrong)});
  }
}

}  // namespace nodewise
