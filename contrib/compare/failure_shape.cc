#include "nodewise/compare/failure_shape.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "absl/types/span.h"
#include "contrib/compare/tensor_pair.h"
#include "contrib/compare/ulp_histogram.h"
#include "fmt/format.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// The search for what wrong elements have in common, in four looks at the two
// tensors: at the values, at where right elements went, at whether something
// was done to all of them (FindRelation()), and at the places of the wrong
// ones. Each look adds what it finds; none claims what chance would show, too.

namespace {

using Patterns = std::vector<FailurePattern>;

template <typename... Args>
void Add(FailureShape shape, Patterns* patterns,
         fmt::format_string<Args...> words, Args&&... args) {
  patterns->push_back({shape, fmt::format(words, std::forward<Args>(args)...)});
}

// Where no element is beyond the tolerance, those whose error is at least this
// part of the largest one count as wrong.
constexpr double kShareOfLargest = 8;

// An axis: its length, and how far its elements lie apart.
struct Axis {
  size_t side = 0, stride = 1;
};

std::vector<Axis> AxesOf(absl::Span<const int64_t> shape) {
  std::vector<Axis> axes(shape.size());
  size_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    axes[axis] = {static_cast<size_t>(shape[axis]), stride};
    stride *= axes[axis].side;
  }
  return axes;
}

// Returns whether `wrong` elements drawn at random would all lie in a part of
// this share so seldom that the part is worth naming. The first element says
// which part it is.
bool IsSignificant(uint64_t wrong, double share) {
  constexpr double kLogOfMillion = 13.8;
  return share < 1 && wrong > 1 &&
         -std::log(share) * static_cast<double>(wrong - 1) > kLogOfMillion;
}

// Patterns in the values of wrong elements, wherever they are.

// Fewer wrong elements show no pattern of values.
constexpr uint64_t kLeastWrong = 8;
// How much of the difference a factor, or one number, must explain.
constexpr double kExplained = 0.999;
// A line a * x + b through what is expected is only called one if both parts,
// the factor and the number, explain at least this share of the difference.
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

  void AddWrong(double x, double y, uint64_t elements) {
    // With more other numbers the type is ruled out, and the test takes its
    // time.
    if (static_cast<double>(others) >
        (1 - kMostAreShort) * static_cast<double>(elements)) {
      return;
    }
    expected += has(x) ? 1 : 0;
    (has(y) ? actual : others) += 1;
  }
};

// Counts and sums that tell how wrong and different elements look.
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
  const auto n = static_cast<double>(pair.elements);
  const double norm = pair.metrics.expected_norm;
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
      for (ShortType& type : types) type.AddWrong(x, y, pair.elements);
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
void AddLine(const ValueCounts& counts, double n, Patterns* patterns) {
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
  Add(FailureShape::kAffine, patterns,
      "all is {:.4g} times what is expected, {} {:.4g}", slope + 1,
      offset < 0 ? "minus" : "plus", std::fabs(offset));
}

void AddFactors(const TensorPair& pair, const ValueCounts& counts,
                Patterns* patterns) {
  const Metrics& metrics = pair.metrics;
  const double explained = std::fabs(metrics.scale - 1) *
                           metrics.expected_norm / metrics.difference_norm;
  // A tensor that is 0 everywhere was not multiplied by anything.
  if (explained > kExplained && !counts.is_constant && metrics.scale != 0) {
    Add(FailureShape::kScaled, patterns, "all is {:.7g} times what is expected",
        metrics.scale);
  }
  const auto n = static_cast<double>(metrics.elements);
  const double mean = counts.sum / n;
  if (mean * mean * n > kExplained * counts.squares) {
    Add(FailureShape::kOffset, patterns,
        "{:.4g} is added to all that is expected", mean);
  }
  const bool is_constant = counts.same_as_first == metrics.elements;
  if (patterns->empty() && !is_constant) AddLine(counts, n, patterns);
}

void AddValuePatterns(const TensorPair& pair, Patterns* patterns) {
  if (pair.elements < kLeastWrong) return;
  // Numbers of the first are of the second, too, unless they are very large.
  ShortType types[] = {{"bfloat16", &IsBfloat, 32},
                       {"float16", &IsHalf, 32},
                       {"float32", &IsFloat, 64}};
  const bool is_float = pair.dtype.code == kDLFloat;
  const ValueCounts counts = CountValues(pair, is_float && pair.dtype.bits >= 32
                                                   ? absl::MakeSpan(types)
                                                   : absl::Span<ShortType>());
  if (pair.metrics.non_finite() == 0) AddFactors(pair, counts, patterns);
  if (counts.wrong < kLeastWrong) return;
  for (const ShortType& type : types) {
    if (pair.dtype.bits < type.least_bits || counts.different == 0) continue;
    if (Share(type.actual, counts.different) > kMostAreShort &&
        Share(type.expected, counts.different) < kFewAreShort &&
        counts.same_as_first < counts.wrong) {
      Add(FailureShape::kPrecisionLost, patterns,
          "all that differs are numbers of {}", type.name);
      patterns->back().type = type.name;
      break;
    }
  }
  if (counts.same_as_first == counts.wrong && !counts.is_constant) {
    Add(FailureShape::kUnwritten, patterns, "all wrong elements are {}",
        counts.first);
  }
  if (is_float && Share(counts.absurd, counts.wrong) > kAbsurdShare) {
    Add(FailureShape::kUninitialised, patterns,
        "{} of {} wrong elements are of sizes that no calculation "
        "gives, as in memory that was never written",
        counts.absurd, counts.wrong);
  }
}

// Patterns of right elements in wrong places.

// How many elements are tried before all are.
constexpr size_t kTried = 512;
// The share of wrong elements that a move must explain, and how many that are
// at least.
constexpr double kMustExplain = 0.95;
constexpr uint64_t kLeastExplained = 8;
// More axes have too many orders.
constexpr size_t kMostAxes = 4;

// Where what stands at a place comes from; none if it is from outside.
using Origin = std::function<std::optional<size_t>(size_t)>;

// How many wrong elements a move explains.
struct Explained {
  uint64_t wrong = 0, right = 0;

  bool IsEnough(uint64_t least) const {
    return right >= least && static_cast<double>(right) >=
                                 kMustExplain * static_cast<double>(wrong);
  }
};

Explained Try(const TensorPair& pair, const Origin& origin, size_t step) {
  Explained explained;
  for (size_t i = 0; i < pair.elements; i += step) {
    const double y = pair.Actual(i);
    if (!pair.IsWrong(pair.Expected(i), y)) continue;
    const auto from = origin(i);
    if (!from) continue;
    ++explained.wrong;
    if (!pair.IsWrong(pair.Expected(*from), y)) ++explained.right;
  }
  return explained;
}

// A few elements refute most moves.
bool Explains(const TensorPair& pair, const Origin& origin) {
  // An odd step does not fall in with the sizes of axes.
  const size_t step = pair.elements / kTried | 1;
  const Explained sample = Try(pair, origin, step);
  const bool may_be = step == 1 ? sample.IsEnough(kLeastExplained)
                                : sample.IsEnough(sample.wrong / 2);
  if (!may_be || step == 1) return may_be;
  return Try(pair, origin, 1).IsEnough(kLeastExplained);
}

// The axes in the order in which the elements lie there, if `order` is not
// that of the tensor. The result has the tensor's shape all the same.
Origin OriginOfOrder(const std::vector<Axis>& axes,
                     const std::vector<size_t>& order) {
  return [=](size_t place) -> std::optional<size_t> {
    size_t from = 0;
    for (size_t k = order.size(); k-- > 0;) {
      const Axis& axis = axes[order[k]];
      from += place % axis.side * axis.stride;
      place /= axis.side;
    }
    return from;
  };
}

void AddTransposed(const TensorPair& pair, Patterns* patterns) {
  const std::vector<Axis> axes = AxesOf(pair.shape);
  if (axes.size() < 2 || axes.size() > kMostAxes) return;
  std::vector<size_t> order(axes.size());
  std::iota(order.begin(), order.end(), 0);
  while (std::ranges::next_permutation(order).found) {
    // Axes of size 1 make orders that are the same.
    if (!Explains(pair, OriginOfOrder(axes, order))) continue;
    Add(FailureShape::kTransposed, patterns,
        "what is expected, with the axes in the order {}",
        fmt::join(order, ", "));
    return;
  }
}

// Channels of a picture as BGR and not RGB, say.
void AddReversed(const TensorPair& pair, Patterns* patterns) {
  const std::vector<Axis> axes = AxesOf(pair.shape);
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    const auto [side, stride] = axes[axis];
    const Origin origin = [side = side, stride = stride](size_t place) {
      const size_t at = place / stride % side;
      return place - at * stride + (side - 1 - at) * stride;
    };
    if (side < 2 || !Explains(pair, origin)) continue;
    Add(FailureShape::kReversed, patterns,
        "what is expected, in reverse order along axis {}", axis);
    return;
  }
}

Origin OriginOfShift(const Axis& axis, bool is_forward) {
  return [=](size_t place) -> std::optional<size_t> {
    const size_t at = place / axis.stride % axis.side;
    if (at == (is_forward ? 0 : axis.side - 1)) return std::nullopt;
    return is_forward ? place - axis.stride : place + axis.stride;
  };
}

// From the last axis on: a loop that is off by one mostly is the inner one.
void AddShifted(const TensorPair& pair, Patterns* patterns) {
  const std::vector<Axis> axes = AxesOf(pair.shape);
  for (size_t axis = axes.size(); axis-- > 0;) {
    for (const bool is_forward : {true, false}) {
      if (axes[axis].side < 2) continue;
      if (!Explains(pair, OriginOfShift(axes[axis], is_forward))) continue;
      Add(FailureShape::kShifted, patterns,
          "what is expected, one place {} along axis {}",
          is_forward ? "further on" : "back", axis);
      return;
    }
  }
}

// Patterns in where wrong elements are.

// The lanes of vectors, and how many elements are unrolled together.
constexpr size_t kLanes[] = {4, 8, 16, 32, 64};
// Elements further apart are not every n-th of anything.
constexpr size_t kMostDistance = 256;
// How many elements are looked at before all are.
constexpr size_t kSample = 1 << 16;
// A range that is most of an axis does not count as a part of it.
constexpr double kMostOfAxis = 0.5;

// Where wrong elements lie along an axis.
struct AxisRange {
  size_t side = 0;
  size_t least = SIZE_MAX, most = 0;

  // A pattern would leave out half of it.
  bool is_refuted() const { return side == 1 || share() > kMostOfAxis; }
  double share() const {
    return static_cast<double>(most - least + 1) / static_cast<double>(side);
  }
};

// Collects places until they can show no pattern any more.
class PlaceFinder {
 public:
  explicit PlaceFinder(const TensorPair& pair) : pair_(pair) {
    for (const int64_t side : pair.shape) {
      axes_.push_back({static_cast<size_t>(side)});
    }
    places_.resize(axes_.size());
    for (const size_t first : {1, 2}) {
      // The last two axes, or the two before the last.
      if (axes_.size() > first) borders_.push_back({axes_.size() - 1 - first});
    }
    std::erase_if(borders_, [this](const Border& border) {
      return axes_[border.axis].side < 3 || axes_[border.axis + 1].side < 3;
    });
  }

  void Find() {
    pair_.ForEach([&](size_t i, double x, double y) {
      return !pair_.IsWrong(x, y) || AddWrong(i);
    });
  }
  // Returns whether some elements, in their order, leave a pattern possible.
  bool MayHavePattern() {
    const size_t step = pair_.elements / kSample;
    if (step < 2) return true;
    std::minstd_rand random;
    for (size_t i = 0; i + step <= pair_.elements; i += step) {
      // The elements are chosen at random: with a fixed distance between them,
      // the pattern that is found would be that distance.
      const size_t place = i + random() % step;
      const bool is_wrong =
          pair_.IsWrong(pair_.Expected(place), pair_.Actual(place));
      if (is_wrong && !AddWrong(place)) return false;
    }
    return true;
  }

  void Report(Patterns* patterns) const {
    if (wrong_ == 0 || AddLastLanes(patterns) || AddSlice(patterns)) return;
    if (AddEveryNth(patterns)) return;
    AddBorder(patterns);
  }

 private:
  // Two neighbouring axes of which the inside has no wrong elements so far.
  struct Border {
    size_t axis = 0;
    bool is_refuted = false;
  };

  // Returns whether there may be a pattern still.
  bool AddWrong(size_t place) {
    if (wrong_++ == 0) first_ = place;
    distance_ = std::gcd(distance_, place - first_);
    for (size_t axis = axes_.size(), rest = place; axis-- > 0;) {
      AxisRange& range = axes_[axis];
      const size_t at = rest % range.side;
      rest /= range.side;
      places_[axis] = at;
      range.least = std::min(range.least, at);
      range.most = std::max(range.most, at);
    }
    bool may_be = distance_ != 1;
    for (const AxisRange& range : axes_) may_be = may_be || !range.is_refuted();
    for (Border& border : borders_) {
      border.is_refuted = border.is_refuted ||
                          (IsInside(border.axis) && IsInside(border.axis + 1));
      may_be = may_be || !border.is_refuted;
    }
    return may_be;
  }

  bool IsInside(size_t axis) const {
    return places_[axis] > 0 && places_[axis] + 1 < axes_[axis].side;
  }

  // A loop whose length is not a multiple of the lanes: along the last axis, or
  // over all elements.
  bool AddLastLanes(Patterns* patterns) const {
    const size_t n = pair_.elements;
    const size_t side = axes_.empty() ? 1 : axes_.back().side;
    const size_t least = axes_.empty() ? 0 : axes_.back().least;
    for (const size_t lanes : kLanes) {
      for (const size_t length : {side, n}) {
        const size_t rest = length % lanes;
        const size_t from = length == n ? first_ : least;
        if (rest == 0 || length < lanes || from < length - rest) continue;
        const double share =
            static_cast<double>(rest) / static_cast<double>(length);
        if (!IsSignificant(wrong_, share)) continue;
        Add(FailureShape::kLastLanes, patterns,
            "only in the last {} of {} {}, behind the last whole "
            "vector of {}",
            rest, length, length == n ? "elements" : "along the last axis",
            lanes);
        return true;
      }
    }
    return false;
  }

  bool AddSlice(Patterns* patterns) const {
    std::string words;
    for (size_t axis = 0; axis < axes_.size(); ++axis) {
      const AxisRange& range = axes_[axis];
      if (range.is_refuted() || !IsSignificant(wrong_, range.share())) continue;
      words += words.empty() ? "only at " : " and ";
      words += range.least == range.most
                   ? fmt::format("index {}", range.least)
                   : fmt::format("indices {} to {}", range.least, range.most);
      words += fmt::format(" of axis {} (of {})", axis, range.side);
    }
    if (words.empty()) return false;
    patterns->push_back({FailureShape::kOneSlice, words});
    return true;
  }

  bool AddEveryNth(Patterns* patterns) const {
    if (distance_ < 2 || distance_ > kMostDistance) return false;
    if (!IsSignificant(wrong_, 1 / static_cast<double>(distance_)))
      return false;
    Add(FailureShape::kEveryNth, patterns,
        "only at every {}th element, from {} on", distance_,
        first_ % distance_);
    return true;
  }

  void AddBorder(Patterns* patterns) const {
    for (const Border& border : borders_) {
      if (border.is_refuted) continue;
      const auto a = static_cast<double>(axes_[border.axis].side);
      const auto b = static_cast<double>(axes_[border.axis + 1].side);
      if (!IsSignificant(wrong_, 1 - (a - 2) * (b - 2) / (a * b))) continue;
      return Add(FailureShape::kBorder, patterns,
                 "only at the border of axes {} and {}", border.axis,
                 border.axis + 1);
    }
  }

  const TensorPair& pair_;
  std::vector<AxisRange> axes_;
  std::vector<size_t> places_;  // The place of the last wrong element, by axis.
  std::vector<Border> borders_;
  uint64_t wrong_ = 0;
  size_t first_ = 0;
  size_t distance_ = 0;  // Between wrong elements; 0 if there is only one.
};

void AddPlacePatterns(const TensorPair& pair, Patterns* patterns) {
  // Noise all over a tensor is seen in a part of it.
  if (!PlaceFinder(pair).MayHavePattern()) return;
  PlaceFinder finder(pair);
  finder.Find();
  finder.Report(patterns);
}

// In the order of FailureShape.
constexpr std::string_view kShapeNames[] = {
    "scaled",    "offset",     "affine",         "transposed", "reversed",
    "shifted",   "related",    "precision-lost", "unwritten",  "uninitialised",
    "one-slice", "last-lanes", "every-nth",      "border",     "stale-copy",
};
static_assert(std::size(kShapeNames) ==
              static_cast<size_t>(FailureShape::kStaleCopy) + 1);

// Whether a pattern says what was done to all elements.
bool ExplainsAll(const FailurePattern& pattern) {
  return pattern.shape < FailureShape::kRelated ||
         pattern.shape == FailureShape::kUnwritten;
}

// A change to all elements says more than the places of the wrong ones.
void AddRelation(const DLTensor& expected, const DLTensor& actual,
                 Patterns* patterns) {
  if (std::ranges::any_of(*patterns, ExplainsAll)) return;
  const auto relation = FindRelation(expected, actual);
  if (!relation || relation->Steps() == 0) return;
  patterns->insert(patterns->begin(),
                   {FailureShape::kRelated, WordsOf(*relation, expected)});
}

}  // namespace

std::string_view NameOf(FailureShape shape) {
  return kShapeNames[static_cast<size_t>(shape)];
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
  if (metrics.outside == 0) {
    tolerance = {metrics.largest_error.error / kShareOfLargest, 0};
  }
  const TensorPair pair{static_cast<const uint8_t*>(DataOf(expected)),
                        static_cast<const uint8_t*>(DataOf(actual)),
                        ShapeOf(expected),
                        expected.dtype,
                        metrics,
                        tolerance};
  details.ulps = UlpsOf(pair);
  AddValuePatterns(pair, &details.patterns);
  AddTransposed(pair, &details.patterns);
  AddReversed(pair, &details.patterns);
  AddShifted(pair, &details.patterns);
  AddRelation(expected, actual, &details.patterns);
  AddPlacePatterns(pair, &details.patterns);
  return details;
}

}  // namespace nodewise
