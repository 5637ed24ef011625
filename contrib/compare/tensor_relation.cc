#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/compare/failure_shape.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/ndarray/ndarray.h"

// Whether one tensor is another that was prepared in another way. All orders of
// the axes, each with and without one axis turned round, are tried; for each, a
// line through what is expected and what was found is fitted, for all elements
// and for the slices of each axis. A small sample refutes nearly all of these;
// of the rest the simplest is taken that a larger sample does not refute.

namespace nodewise {
namespace {

// More axes have too many orders.
constexpr size_t kMostMoved = 4;
// Factors for each index of longer axes explain anything.
constexpr size_t kMostSlices = 64;
// How many elements each factor must rest upon.
constexpr size_t kLeastPerSlice = 16;
constexpr size_t kLeastElements = 8;
// A few elements refute most relations; the rest is judged by more of them.
constexpr size_t kSampled = 512;
constexpr size_t kJudged = size_t{1} << 16;
// How much of the variation may be left: bytes that were rounded leave less.
constexpr double kMostLeft = 1e-3;
// How much of the squared difference may be left.
constexpr double kMostOfApart = 1e-2;
// A factor this near 1, and a number this near 0, are neither.
constexpr double kNearOne = 1e-3;

struct Move {
  std::vector<size_t> order;  // All axes.
  std::optional<size_t> reversed;
};

// The elements of the one tensor and those that a move puts there, and where
// they stood.
struct Sample {
  std::vector<double> expected, actual;
  std::vector<std::vector<size_t>> places;  // For each axis.
  bool is_usable = true;
};

std::vector<size_t> SidesOf(const DLTensor& tensor) {
  const auto shape = ShapeOf(tensor);
  return std::vector<size_t>(shape.begin(), shape.end());
}

size_t ElementsOf(const DLTensor& tensor) {
  size_t count = 1;
  for (const size_t side : SidesOf(tensor)) count *= side;
  return count;
}

double ElementAt(const DLTensor& tensor, size_t place) {
  const auto* bytes = static_cast<const uint8_t*>(DataOf(tensor));
  double value = 0;
  DecodeToDoubles(tensor.dtype, bytes + place * ElementBytes(tensor.dtype), 1,
                  &value);
  return value;
}

// Elements that stand as far apart as is needed for `count` of them.
Sample TakeSample(const DLTensor& expected, const DLTensor& actual,
                  const Move& move, size_t count) {
  const std::vector<size_t> sides = SidesOf(expected);
  const size_t elements = ElementsOf(expected);
  // An odd step does not fall in with the sizes of axes.
  const size_t step = elements / count | 1;
  Sample sample;
  sample.places.resize(sides.size());
  for (size_t place = 0; place < elements; place += step) {
    size_t rest = place;
    for (size_t k = move.order.size(); k-- > 0;) {
      const size_t axis = move.order[k];
      size_t at = rest % sides[axis];
      rest /= sides[axis];
      if (move.reversed == axis) at = sides[axis] - 1 - at;
      sample.places[axis].push_back(at);
    }
    size_t from = 0;
    for (size_t axis = 0; axis < sides.size(); ++axis) {
      from = from * sides[axis] + sample.places[axis].back();
    }
    const double x = ElementAt(expected, from), y = ElementAt(actual, place);
    // No factor makes a finite number of one that is not.
    sample.is_usable &= std::isfinite(x) && std::isfinite(y);
    sample.expected.push_back(x);
    sample.actual.push_back(y);
  }
  return sample;
}

// The line through some elements that leaves the least squares.
struct Line {
  double n = 0, x = 0, y = 0;  // Means.
  double xx = 0, xy = 0, yy = 0;

  // Sums are kept about the means: those of pictures are large.
  void Add(double a, double b) {
    n += 1;
    const double dx = a - x, dy = b - y;
    x += dx / n;
    y += dy / n;
    xx += dx * (a - x);
    xy += dx * (b - y);
    yy += dy * (b - y);
  }
  double factor() const { return xx > 0 ? xy / xx : 0; }
  double offset() const { return y - factor() * x; }
  double left() const { return yy - factor() * xy; }
};

// The lines for each index of an axis, or one for all.
std::vector<Line> LinesOf(const Sample& sample, std::optional<size_t> axis,
                          size_t slices) {
  std::vector<Line> lines(slices);
  for (size_t i = 0; i < sample.expected.size(); ++i) {
    const size_t slice = axis ? sample.places[*axis][i] : 0;
    lines[slice].Add(sample.expected[i], sample.actual[i]);
  }
  return lines;
}

bool IsPlain(std::span<const Line> lines) {
  return std::ranges::all_of(lines, [](const Line& line) {
    const double spread = std::sqrt(line.yy / line.n);
    return std::fabs(line.factor() - 1) < kNearOne &&
           std::fabs(line.offset()) < kNearOne * spread;
  });
}

// A relation that has not been refuted, and the share of the variation, and the
// mean square, that it leaves.
struct Fit {
  Move move;
  TensorRelation relation = {};
  double left = 0, mean_square = 0;
};

std::optional<Fit> FitLines(const Sample& sample, const Move& move,
                            std::optional<size_t> axis, size_t slices) {
  if (!sample.is_usable) return std::nullopt;
  const std::vector<Line> lines = LinesOf(sample, axis, slices);
  double all = 0, left = 0;
  for (const Line& line : lines) {
    if (axis && line.n < double{kLeastPerSlice}) return std::nullopt;
    all += line.yy;
    left += line.left();
  }
  // A constant has no variation to explain.
  Fit fit{.move = move,
          .left = all > 0 ? left / all : 1,
          .mean_square = left / static_cast<double>(sample.actual.size())};
  if (!(fit.left < kMostLeft)) return std::nullopt;
  const bool is_moved = !std::ranges::is_sorted(move.order);
  if (is_moved) fit.relation.order = move.order;
  fit.relation.reversed = move.reversed;
  if (IsPlain(lines)) return fit;
  fit.relation.axis = axis;
  for (const Line& line : lines) {
    fit.relation.factors.push_back(line.factor());
    fit.relation.offsets.push_back(line.offset());
  }
  return fit;
}

// All orders of the axes that are longer than 1; the others stay.
std::vector<std::vector<size_t>> OrdersOf(const std::vector<size_t>& sides) {
  std::vector<size_t> all(sides.size());
  std::iota(all.begin(), all.end(), size_t{0});
  std::vector<size_t> places;
  for (const size_t axis : all) {
    if (sides[axis] > 1) places.push_back(axis);
  }
  if (places.size() > kMostMoved) return {all};
  std::vector<std::vector<size_t>> orders;
  std::vector<size_t> moved = places;
  do {
    orders.push_back(all);
    for (size_t k = 0; k < places.size(); ++k) {
      orders.back()[places[k]] = moved[k];
    }
  } while (std::ranges::next_permutation(moved).found);
  return orders;
}

std::vector<Move> MovesOf(const std::vector<size_t>& sides) {
  std::vector<Move> moves;
  for (const std::vector<size_t>& order : OrdersOf(sides)) {
    moves.push_back({order, std::nullopt});
    for (size_t axis = 0; axis < sides.size(); ++axis) {
      if (sides[axis] > 1) moves.push_back({order, axis});
    }
  }
  return moves;
}

size_t SampleSize(size_t slices, size_t least) {
  // Twice as many, since not all slices get the same share.
  return std::max(least, 2 * kLeastPerSlice * slices);
}

bool MayHaveSlices(size_t side) { return side > 1 && side <= kMostSlices; }

std::vector<Fit> UnrefutedFits(const DLTensor& expected,
                               const DLTensor& actual) {
  const std::vector<size_t> sides = SidesOf(expected);
  size_t most = 1;
  for (const size_t side : sides) {
    if (MayHaveSlices(side)) most = std::max(most, side);
  }
  std::vector<Fit> fits;
  for (const Move& move : MovesOf(sides)) {
    const Sample sample =
        TakeSample(expected, actual, move, SampleSize(most, kSampled));
    const auto add = [&](std::optional<size_t> axis, size_t slices) {
      auto fit = FitLines(sample, move, axis, slices);
      if (fit) fits.push_back(*std::move(fit));
    };
    add(std::nullopt, 1);
    for (size_t axis = 0; axis < sides.size(); ++axis) {
      if (MayHaveSlices(sides[axis])) add(axis, sides[axis]);
    }
  }
  return fits;
}

bool HasNumbers(const DLTensor& tensor) {
  double value = 0;
  return tensor.dtype.lanes == 1 && tensor.dtype.code != kDLComplex &&
         ElementBytes(tensor.dtype) > 0 &&
         DecodeToDoubles(tensor.dtype, DataOf(tensor), 1, &value);
}

// The mean square of what two tensors of one shape differ by; none if shapes
// are others.
std::optional<double> MeanSquareDifference(const DLTensor& expected,
                                           const DLTensor& actual) {
  if (ShapeOf(expected) != ShapeOf(actual)) return std::nullopt;
  Move none;
  none.order.resize(ShapeOf(expected).size());
  std::iota(none.order.begin(), none.order.end(), size_t{0});
  const Sample sample = TakeSample(expected, actual, none, kJudged);
  double sum = 0;
  for (size_t i = 0; i < sample.actual.size(); ++i) {
    const double apart = sample.actual[i] - sample.expected[i];
    sum += apart * apart;
  }
  return sum / static_cast<double>(sample.actual.size());
}

std::string FactorWords(double factor) {
  const auto is_near = [factor](double wanted) {
    return std::fabs(factor / wanted - 1) < kNearOne;
  };
  if (is_near(1)) return "";
  // As pictures of bytes are made pictures of fractions.
  for (const int whole : {255, 128, 127}) {
    if (is_near(1.0 / whole)) return fmt::format("divided by {}", whole);
    if (is_near(whole)) return fmt::format("times {}", whole);
  }
  return fmt::format("times {:.4g}", factor);
}

std::string LineWords(double factor, double offset) {
  const std::string times = FactorWords(factor);
  if (std::fabs(offset) < kNearOne) return times;
  return fmt::format("{}{}{} {:.4g}", times, times.empty() ? "" : " ",
                     offset < 0 ? "minus" : "plus", std::fabs(offset));
}

// "axis 1: times 0.229 plus 0.485; times 0.224 plus 0.456"
std::string LinesWords(const TensorRelation& relation) {
  constexpr size_t kMostShown = 4;
  if (!relation.axis) {
    return LineWords(relation.factors[0], relation.offsets[0]);
  }
  if (relation.factors.size() > kMostShown) {
    return fmt::format(
        "each of the {} slices of axis {} times a factor and plus a number of "
        "its own",
        relation.factors.size(), *relation.axis);
  }
  std::vector<std::string> lines;
  for (size_t i = 0; i < relation.factors.size(); ++i) {
    const std::string line =
        LineWords(relation.factors[i], relation.offsets[i]);
    lines.push_back(line.empty() ? "as it is" : line);
  }
  return fmt::format("each slice of axis {} on its own: {}", *relation.axis,
                     fmt::join(lines, "; "));
}

// People have names for the orders in which pictures lie.
std::string_view OrderName(std::span<const size_t> order) {
  const size_t rank = order.size();
  if (rank != 3 && rank != 4) return "";
  const size_t channels = rank - 3, last = rank - 1;
  const auto pixels = order.subspan(channels);
  const size_t to_last[] = {channels + 1, last, channels};
  const size_t to_first[] = {last, channels, channels + 1};
  if (std::ranges::equal(pixels, to_last)) return " (channels last)";
  if (std::ranges::equal(pixels, to_first)) return " (channels first)";
  return "";
}

// "a, b, and c"
std::string Listed(const std::vector<std::string>& parts) {
  std::string text = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    text += (i + 1 == parts.size() ? ", and " : ", ") + parts[i];
  }
  return text;
}

}  // namespace

size_t TensorRelation::Steps() const {
  const size_t lines = factors.empty() ? 0 : axis ? 2 : 1;
  return lines + (order.empty() ? 0 : 1) + (reversed ? 1 : 0);
}

std::optional<TensorRelation> FindRelation(const DLTensor& expected,
                                           const DLTensor& actual) {
  const size_t elements = ElementsOf(expected);
  if (elements != ElementsOf(actual) || elements < kLeastElements ||
      !HasNumbers(expected) || !HasNumbers(actual)) {
    return std::nullopt;
  }
  std::vector<Fit> fits = UnrefutedFits(expected, actual);
  std::ranges::stable_sort(fits, {}, [](const Fit& fit) {
    return std::pair(fit.relation.Steps(), fit.left);
  });
  const std::optional<double> apart = MeanSquareDifference(expected, actual);
  for (const Fit& fit : fits) {
    const size_t slices = std::max(size_t{1}, fit.relation.factors.size());
    const size_t count = SampleSize(slices, kJudged);
    const Sample sample = TakeSample(expected, actual, fit.move, count);
    auto judged = FitLines(sample, fit.move, fit.relation.axis, slices);
    if (!judged) continue;
    // Tensors that are nearly alike fit many relations, none of which says why
    // they differ.
    const bool is_noise = judged->relation.Steps() > 0 && apart &&
                          !(judged->mean_square < kMostOfApart * *apart);
    if (!is_noise) return std::move(judged->relation);
  }
  return std::nullopt;
}

std::string WordsOf(const TensorRelation& relation, const DLTensor& expected) {
  if (relation.Steps() == 0) return "what is expected";
  std::vector<std::string> parts;
  if (!relation.order.empty()) {
    parts.push_back(fmt::format("with the axes in the order {}{}",
                                fmt::join(relation.order, ", "),
                                OrderName(relation.order)));
  }
  if (relation.reversed) {
    const bool is_color = ShapeOf(expected)[*relation.reversed] == 3;
    parts.push_back(fmt::format("in reverse order along axis {}{}",
                                *relation.reversed,
                                is_color ? " (BGR for RGB)" : ""));
  }
  if (!relation.factors.empty()) parts.push_back(LinesWords(relation));
  return fmt::format("what is expected, {}", Listed(parts));
}

std::string DescribeGivenInput(const DifferenceDetails& details) {
  for (const FailurePattern& pattern : details.patterns) {
    if (pattern.shape == FailureShape::kUnwritten) {
      return pattern.words + ", as in an input that was never set";
    }
  }
  if (!details.patterns.empty()) return details.patterns[0].words;
  return "no other order of axes or channels, and no scale, relates the two";
}

}  // namespace nodewise
