#include "contrib/align/tensor_match.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "contrib/align/precision.h"
#include "contrib/align/quantised.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A layout is looked at in so many elements before it is in all.
constexpr int64_t kSampled = 64;

// How far two tensors may be apart that are the same: rounding errors of a
// whole network in the shorter of both types, and faults that are so small that
// one still knows the tensor again.
double FarthestOf(double roundoff) {
  constexpr double kLeast = 0.01;
  constexpr double kMost = 0.1;
  constexpr double kRoundings = 64;
  return std::clamp(kRoundings * roundoff, kLeast, kMost);
}
double FarthestOf(DLDataType source, DLDataType compiled) {
  return FarthestOf(std::max(UnitRoundoff(source), UnitRoundoff(compiled)));
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

bool MayMatchWithin(double farthest, const TensorFacts& source,
                    const TensorFacts& compiled) {
  for (size_t set = 0; set < source.stats.size(); ++set) {
    if (!MayMatch(source.stats[set], compiled.stats[set], farthest)) {
      return false;
    }
  }
  return true;
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
    if (NumberDistance(layout, NumberAt(source, place),
                       compiled[static_cast<size_t>(i)]) > far) {
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
    largest = std::max(
        largest, NumberDistance(layout, source[place], compiled[element]));
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
    largest = std::max(largest, NumberDistance(Layout(), a[i], b[i]));
    if (largest > far) return kInfinity;
  }
  return largest;
}

// Returns how many different numbers there are, as far as it matters: a tensor
// of few has the numbers of many others.
bool AreMany(const std::vector<double>& source) {
  constexpr size_t kMany = 16;
  std::vector<double> seen;
  for (const double number : source) {
    if (std::find(seen.begin(), seen.end(), number) != seen.end()) continue;
    seen.push_back(number);
    if (seen.size() == kMany) return true;
  }
  return false;
}

}  // namespace

std::vector<double> NumbersOf(const NDArray& tensor) {
  std::vector<double> numbers(static_cast<size_t>(CountOf(tensor)));
  LoadDoubles(tensor, 0, CountOf(tensor), numbers.data());
  return numbers;
}

std::vector<std::vector<double>> NumbersOf(absl::Span<const NDArray> tensors) {
  std::vector<std::vector<double>> numbers;
  for (const NDArray& tensor : tensors) numbers.push_back(NumbersOf(tensor));
  return numbers;
}

bool MayMatch(const TensorFacts& source, const TensorFacts& compiled) {
  return MayMatchWithin(FarthestOf(source.dtype, compiled.dtype), source,
                        compiled);
}

bool IsAsNear(double distance, double nearest) {
  constexpr double kTimes = 2;
  constexpr double kLeast = 1e-6;
  return distance <= std::max(kTimes * nearest, kLeast);
}

TensorMatcher::TensorMatcher(TensorFacts facts,
                             absl::Span<const NDArray> tensors)
    : facts_(std::move(facts)), numbers_(NumbersOf(tensors)) {}

std::optional<TensorMatch> TensorMatcher::Match(
    const TensorFacts& source, absl::Span<const NDArray> tensors) const {
  return MatchWithin(FarthestOf(source.dtype, facts_.dtype), source, tensors);
}

double TensorMatcher::Roundoff() const {
  if (!roundoff_.has_value()) {
    roundoff_ = RoundoffOfNumbers(facts_.dtype, numbers_);
  }
  return *roundoff_;
}

double TensorMatcher::FarthestRounded(DLDataType source) const {
  return FarthestOf(std::max(UnitRoundoff(source), Roundoff()));
}

void TensorMatcher::AllowRoundoff(double roundoff) {
  roundoff_ = std::max(Roundoff(), roundoff);
}

bool TensorMatcher::MayMatchRounded(const TensorFacts& source) const {
  if (IsInteger(facts_.dtype)) return MayBeQuantised(source, facts_);
  const double farthest = FarthestRounded(source.dtype);
  return farthest > FarthestOf(source.dtype, facts_.dtype) &&
         MayMatchWithin(farthest, source, facts_);
}

std::optional<TensorMatch> TensorMatcher::MatchRounded(
    const TensorFacts& source, absl::Span<const NDArray> tensors) const {
  if (IsInteger(facts_.dtype)) return MatchQuantised(source, tensors);
  return MatchWithin(FarthestRounded(source.dtype), source, tensors);
}

std::optional<TensorMatch> TensorMatcher::MatchIn(
    const Layout& layout, const TensorFacts& source,
    absl::Span<const NDArray> tensors) const {
  const double farthest = std::max(FarthestOf(source.dtype, facts_.dtype),
                                   FarthestRounded(source.dtype));
  std::vector<double> scales;
  for (size_t set = 0; set < tensors.size(); ++set) {
    const double largest = LargestOf(source.stats[set]);
    const bool is_size = std::isfinite(largest) && largest > 0;
    scales.push_back(is_size ? largest : 1);
    if (!AreSamplesNear(layout, tensors[set], numbers_[set],
                        farthest * scales[set])) {
      return std::nullopt;
    }
  }
  double worst = 0;
  for (size_t set = 0; set < tensors.size(); ++set) {
    const double far = farthest * scales[set];
    const double distance =
        DistanceOf(layout, NumbersOf(tensors[set]), numbers_[set], far);
    if (distance > far) return std::nullopt;
    worst = std::max(worst, distance / scales[set]);
  }
  return TensorMatch{layout, worst, false};
}

bool TensorMatcher::HasManyNumbers() const { return AreMany(numbers_[0]); }

bool TensorMatcher::IsOneNumber() const {
  return std::all_of(
      numbers_.begin(), numbers_.end(), [&](const std::vector<double>& set) {
        return std::all_of(set.begin(), set.end(), [&](double number) {
          return number == numbers_[0][0];
        });
      });
}

std::optional<TensorMatch> TensorMatcher::MatchQuantised(
    const TensorFacts& source, absl::Span<const NDArray> tensors) const {
  // Numbers that were made of eight bits are that coarse, whichever integers
  // hold them.
  constexpr double kFarthest = 0.1;
  constexpr double kAlike = 0.95;
  const std::vector<std::vector<double>> numbers = NumbersOf(tensors);
  std::optional<TensorMatch> best;
  VisitLayouts(source.shape, facts_.shape, [&](const Layout& layout) {
    if (LikenessIn(layout, numbers[0], numbers_[0]) < kAlike) return true;
    const auto how = FitQuantisation(layout, numbers, facts_, numbers_, kAlike);
    if (!how.has_value()) return true;
    Layout quantised = layout;
    quantised.Quantise(*how);
    const double distance = DistanceIn(quantised, tensors);
    if (distance <= (best.has_value() ? best->distance : kFarthest)) {
      best = TensorMatch{std::move(quantised), distance, false};
    }
    return !best.has_value() || best->distance > 0;
  });
  return best;
}

std::optional<TensorMatch> TensorMatcher::MatchWithin(
    double farthest, const TensorFacts& source,
    absl::Span<const NDArray> tensors) const {
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
  if (!AreMany(numbers_of(0))) return best;
  const double distance =
      distance_of(kSameNumbers, [&](size_t set, double far) {
        return DistanceInAnyOrder(numbers_of(set), numbers_[set], far);
      });
  if (distance > kSameNumbers) return best;
  return TensorMatch{Layout(), distance, true};
}

double TensorMatcher::DistanceIn(const Layout& layout,
                                 absl::Span<const NDArray> tensors) const {
  double worst = 0;
  for (size_t set = 0; set < tensors.size(); ++set) {
    worst = std::max(worst, DistanceInSet(layout, tensors[set], set));
  }
  return worst;
}

double TensorMatcher::DistanceInSet(const Layout& layout, const NDArray& tensor,
                                    size_t set) const {
  const std::vector<double> numbers = NumbersOf(tensor);
  const double largest = LargestFinite(numbers);
  return DistanceOf(layout, numbers, numbers_[set], kInfinity) /
         (largest > 0 ? largest : 1);
}

}  // namespace nodewise
