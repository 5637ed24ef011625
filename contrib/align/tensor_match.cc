#include "contrib/align/tensor_match.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A layout is looked at in so many elements before it is in all.
constexpr int64_t kSampled = 64;

// How far two tensors may be apart that are the same: rounding errors of a
// whole network in the shorter of both types, and faults that are so small that
// one still knows the tensor again.
double FarthestOf(DLDataType source, DLDataType compiled) {
  const double u = std::max(UnitRoundoff(source), UnitRoundoff(compiled));
  constexpr double kLeast = 0.01;
  constexpr double kMost = 0.1;
  constexpr double kRoundings = 64;
  return std::clamp(kRoundings * u, kLeast, kMost);
}

double LargestOf(const TensorStats& stats) {
  return std::max(std::fabs(stats.min), std::fabs(stats.max));
}

bool AreNear(double a, double b, double far) { return std::fabs(a - b) <= far; }

// Two tensors with the same numbers in another order have the same statistics.
bool MayBeReordered(const TensorStats& a, const TensorStats& b, double far) {
  return a.elements == b.elements && AreNear(a.min, b.min, far) &&
         AreNear(a.max, b.max, far) && AreNear(a.mean, b.mean, far) &&
         AreNear(a.l2, b.l2, far * std::sqrt(static_cast<double>(a.elements)));
}

bool MayMatch(const TensorStats& a, const TensorStats& b, double farthest) {
  if (!a.has_numbers || !b.has_numbers) return false;
  if (a.elements == 0 || b.elements < a.elements) return false;
  const double far = farthest * LargestOf(a);
  if (a.elements == b.elements) {
    if (a.nans != b.nans || a.infinities != b.infinities) return false;
  } else if (b.elements % a.elements != 0) {
    // Padding may hold anything.
    return b.max >= a.max - far && b.min <= a.min + far;
  }
  // Nothing is known of numbers that there are none of.
  if (a.nans == a.elements) return true;
  const double size_a = a.l2 / std::sqrt(static_cast<double>(a.elements));
  const double size_b = b.l2 / std::sqrt(static_cast<double>(b.elements));
  // Tensors of one distribution have nearly the same extremes, and differ in
  // their means by more than this.
  const double near = farthest * size_a;
  const bool are_alike =
      AreNear(a.max, b.max, far) && AreNear(a.min, b.min, far) &&
      AreNear(a.mean, b.mean, near) && AreNear(size_a, size_b, near);
  // A tensor of infinities alone has no mean.
  if (std::isnan(far) || std::isinf(far)) return true;
  if (are_alike || a.elements == b.elements) return are_alike;
  return b.max >= a.max - far && b.min <= a.min + far;
}

std::vector<double> NumbersOf(const NDArray& tensor) {
  std::vector<double> numbers(static_cast<size_t>(CountOf(tensor)));
  LoadDoubles(tensor, 0, CountOf(tensor), numbers.data());
  return numbers;
}

double LargestFinite(const std::vector<double>& numbers) {
  double largest = 0;
  for (const double number : numbers) {
    if (std::isfinite(number)) largest = std::max(largest, std::fabs(number));
  }
  return largest;
}

double DistanceOf(double expected, double found) {
  if (expected == found || (std::isnan(expected) && std::isnan(found))) {
    return 0;
  }
  const double distance = std::fabs(expected - found);
  return std::isnan(distance) ? kInfinity : distance;
}

double NumberAt(const NDArray& tensor, int64_t element) {
  double number = 0;
  LoadDoubles(tensor, element, element + 1, &number);
  return number;
}

// Most tensors that might match are told apart by a few of their elements, so
// no more of them is read.
bool AreSamplesNear(const Layout& layout, const NDArray& source,
                    const std::vector<double>& compiled, double far) {
  const auto count = static_cast<int64_t>(compiled.size());
  const int64_t stride = std::max<int64_t>(1, count / kSampled);
  for (int64_t i = 0; i < count; i += stride) {
    const int64_t place = PlaceOf(layout, i);
    if (place == kPaddingPlace) continue;
    if (DistanceOf(NumberAt(source, place), compiled[static_cast<size_t>(i)]) >
        far) {
      return false;
    }
  }
  return true;
}

// Returns the largest distance, or infinity as soon as one is beyond `far`.
double DistanceOf(const Layout& layout, const std::vector<double>& source,
                  const std::vector<double>& compiled, double far) {
  double largest = 0;
  const auto take = [&](size_t place, size_t element) {
    largest = std::max(largest, DistanceOf(source[place], compiled[element]));
    return largest <= far;
  };
  if (layout.is_same_order()) {
    for (size_t i = 0; i < compiled.size(); ++i) {
      if (!take(i, i)) return kInfinity;
    }
    return largest;
  }
  const std::vector<int64_t> places = PlacesOf(layout);
  for (size_t i = 0; i < compiled.size(); ++i) {
    if (places[i] == kPaddingPlace) continue;
    if (!take(static_cast<size_t>(places[i]), i)) return kInfinity;
  }
  return largest;
}

// NaN go to the end: nothing is smaller or larger than they are.
std::vector<double> Sorted(std::vector<double> numbers) {
  const auto end = std::partition(numbers.begin(), numbers.end(),
                                  [](double x) { return !std::isnan(x); });
  std::sort(numbers.begin(), end);
  return numbers;
}

double DistanceInAnyOrder(const std::vector<double>& source,
                          const std::vector<double>& compiled, double far) {
  if (source.size() != compiled.size()) return kInfinity;
  const std::vector<double> a = Sorted(source);
  const std::vector<double> b = Sorted(compiled);
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, DistanceOf(a[i], b[i]));
    if (largest > far) return kInfinity;
  }
  return largest;
}

// Returns how many different numbers there are, as far as it matters: a tensor
// of few has the numbers of many others.
bool HasManyNumbers(const std::vector<double>& source) {
  constexpr size_t kMany = 16;
  std::vector<double> seen;
  for (const double number : source) {
    if (std::find(seen.begin(), seen.end(), number) != seen.end()) continue;
    seen.push_back(number);
    if (seen.size() == kMany) return true;
  }
  return false;
}

// Returns how alike two tensors are, from -1 to 1, in some thousand elements: 1
// if one is a multiple of the other, with something added. 0 if nothing can be
// said.
double LikenessIn(const Layout& layout, const std::vector<double>& source,
                  const std::vector<double>& compiled) {
  constexpr int64_t kLooked = 4096;
  const auto count = static_cast<int64_t>(compiled.size());
  const int64_t stride = std::max<int64_t>(1, count / kLooked);
  double n = 0;
  double sum_a = 0;
  double sum_b = 0;
  double sum_aa = 0;
  double sum_bb = 0;
  double sum_ab = 0;
  for (int64_t i = 0; i < count; i += stride) {
    const int64_t place = PlaceOf(layout, i);
    if (place == kPaddingPlace) continue;
    const double a = source[static_cast<size_t>(place)];
    const double b = compiled[static_cast<size_t>(i)];
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    n += 1;
    sum_a += a;
    sum_b += b;
    sum_aa += a * a;
    sum_bb += b * b;
    sum_ab += a * b;
  }
  const double spread =
      (n * sum_aa - sum_a * sum_a) * (n * sum_bb - sum_b * sum_b);
  if (!(spread > 0)) return 0;
  return (n * sum_ab - sum_a * sum_b) / std::sqrt(spread);
}

}  // namespace

bool MayMatch(const TensorFacts& source, const TensorFacts& compiled) {
  const double farthest = FarthestOf(source.dtype, compiled.dtype);
  for (size_t set = 0; set < source.stats.size(); ++set) {
    if (!MayMatch(source.stats[set], compiled.stats[set], farthest)) {
      return false;
    }
  }
  return true;
}

bool IsAsNear(double distance, double nearest) {
  constexpr double kTimes = 2;
  constexpr double kLeast = 1e-6;
  return distance <= std::max(kTimes * nearest, kLeast);
}

TensorMatcher::TensorMatcher(TensorFacts facts,
                             absl::Span<const NDArray> tensors)
    : facts_(std::move(facts)) {
  for (const NDArray& tensor : tensors) numbers_.push_back(NumbersOf(tensor));
}

std::optional<TensorMatch> TensorMatcher::Match(
    const TensorFacts& source, absl::Span<const NDArray> tensors) const {
  std::vector<std::vector<double>> numbers(tensors.size());
  const auto numbers_of = [&](size_t set) -> const std::vector<double>& {
    if (numbers[set].empty()) numbers[set] = NumbersOf(tensors[set]);
    return numbers[set];
  };
  // What distances are relative to.
  const auto scale_of = [&](size_t set) {
    double largest = LargestOf(source.stats[set]);
    if (!std::isfinite(largest)) largest = LargestFinite(numbers_of(set));
    return largest > 0 ? largest : 1;
  };
  const double farthest = FarthestOf(source.dtype, facts_.dtype);
  // The worst of all sets, relative to the size of the numbers.
  const auto distance_of = [&](double limit, const auto& distance_in_set) {
    double worst = 0;
    for (size_t set = 0; set < tensors.size(); ++set) {
      const double scale = scale_of(set);
      worst = std::max(worst, distance_in_set(set, limit * scale) / scale);
      if (worst > limit) return kInfinity;
    }
    return worst;
  };
  std::optional<TensorMatch> best;
  VisitLayouts(source.shape, facts_.shape, [&](const Layout& layout) {
    const double limit = best.has_value() ? best->distance : farthest;
    for (size_t set = 0; set < tensors.size(); ++set) {
      if (!AreSamplesNear(layout, tensors[set], numbers_[set],
                          limit * scale_of(set))) {
        return true;
      }
    }
    const double distance = distance_of(limit, [&](size_t set, double far) {
      return DistanceOf(layout, numbers_of(set), numbers_[set], far);
    });
    if (distance <= farthest &&
        (!best.has_value() || distance < best->distance)) {
      best = TensorMatch{layout, distance, false};
    }
    return !best.has_value() || best->distance > 0;
  });
  if (best.has_value()) return best;
  // Sorting is dear, and asks for more: numbers that are only near each other
  // are so in many tensors, once they are in order.
  constexpr double kSameNumbers = 1e-5;
  for (size_t set = 0; set < tensors.size(); ++set) {
    if (!MayBeReordered(source.stats[set], facts_.stats[set],
                        kSameNumbers * scale_of(set))) {
      return best;
    }
  }
  if (!HasManyNumbers(numbers_of(0))) return best;
  const double distance =
      distance_of(kSameNumbers, [&](size_t set, double far) {
        return DistanceInAnyOrder(numbers_of(set), numbers_[set], far);
      });
  if (distance > kSameNumbers) return best;
  return TensorMatch{Layout(), distance, true};
}

std::vector<Layout> TensorMatcher::LikelyLayouts(
    const TensorFacts& source, absl::Span<const NDArray> tensors,
    size_t most) const {
  // What is usual counts as much as a moderate likeness of the numbers.
  constexpr double kUsual = 0.5;
  constexpr double kSameOrder = 0.3;
  const std::vector<double> numbers = NumbersOf(tensors[0]);
  std::vector<std::pair<double, Layout>> scored;
  VisitLayouts(source.shape, facts_.shape, [&](const Layout& layout) {
    const double form = layout.is_usual()        ? kUsual
                        : layout.is_same_order() ? kSameOrder
                                                 : 0;
    scored.emplace_back(form + LikenessIn(layout, numbers, numbers_[0]),
                        layout);
    return true;
  });
  std::stable_sort(
      scored.begin(), scored.end(),
      [](const auto& a, const auto& b) { return a.first > b.first; });
  if (scored.size() > most) scored.resize(most);
  std::vector<Layout> layouts;
  for (auto& [score, layout] : scored) layouts.push_back(std::move(layout));
  return layouts;
}

double TensorMatcher::DistanceIn(const Layout& layout,
                                 absl::Span<const NDArray> tensors) const {
  double worst = 0;
  for (size_t set = 0; set < tensors.size(); ++set) {
    const std::vector<double> numbers = NumbersOf(tensors[set]);
    const double largest = LargestFinite(numbers);
    const double distance =
        DistanceOf(layout, numbers, numbers_[set], kInfinity);
    worst = std::max(worst, distance / (largest > 0 ? largest : 1));
  }
  return worst;
}

double TensorMatcher::StepTowards(const Layout& layout,
                                  absl::Span<const NDArray> here,
                                  absl::Span<const NDArray> there) const {
  double along = 0;
  double length = 0;
  for (size_t set = 0; set < here.size(); ++set) {
    const std::vector<double> from = NumbersOf(here[set]);
    const std::vector<double> to = NumbersOf(there[set]);
    if (from.size() != to.size()) return 0;
    const std::vector<int64_t> places = PlacesOf(layout);
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i] == kPaddingPlace) continue;
      const auto place = static_cast<size_t>(places[i]);
      const double way = to[place] - from[place];
      const double left = numbers_[set][i] - from[place];
      if (!std::isfinite(way) || !std::isfinite(left)) continue;
      along += way * left;
      length += way * way;
    }
  }
  return length > 0 ? along / length : 0;
}

}  // namespace nodewise
