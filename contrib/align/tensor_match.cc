// Whether a compiled tensor holds the numbers of one of the network's.
//
// Statistics come first: they are known without reading anything, and exclude
// nearly all pairs. Then every layout that compilers use is tried, each in some
// elements before it is compared in all, and the nearest one that is near with
// every set of inputs is the match. What matches in no layout is compared
// sorted, which says that the numbers are there in an order that is not known.
// Integers are laid against floats by the line that fits both best.

#include "contrib/align/tensor_match.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "contrib/align/align_limits.h"
#include "contrib/align/precision.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

using Numbers = std::vector<double>;

// Sums over pairs of numbers, and what they say of how the two go together.
struct PairSums {
  double n = 0, a = 0, b = 0, aa = 0, bb = 0, ab = 0;

  void Add(double one, double other) {
    if (!std::isfinite(one) || !std::isfinite(other)) return;
    n += 1;
    a += one;
    b += other;
    aa += one * one;
    bb += other * other;
    ab += one * other;
  }
  double spread_a() const { return n * aa - a * a; }
  double spread_b() const { return n * bb - b * b; }
  double together() const { return n * ab - a * b; }
  // 1 where the pairs lie on one line; 0 where one side is all the same.
  double Likeness() const {
    const double spread = spread_a() * spread_b();
    return spread > 0 ? together() / std::sqrt(spread) : 0;
  }
};

std::optional<RecordedTensor> FindRecorded(
    absl::Span<const RecordedPair> pairs,
    std::unique_ptr<TensorSpool> RecordedPair::*side, const TensorKey& key) {
  RecordedTensor recorded;
  TensorFacts& facts = recorded.facts;
  for (const RecordedPair& pair : pairs) {
    const TensorSpool& spool = *(pair.*side);
    const auto place = spool.Find(key);
    if (!place.ok()) return std::nullopt;
    const TensorSpool::Kept& kept = spool.kept()[*place];
    if (recorded.places.empty()) {
      facts.shape = kept.shape;
      facts.dtype = kept.dtype;
    } else if (facts.shape != kept.shape || facts.dtype != kept.dtype) {
      return std::nullopt;
    }
    facts.stats.push_back(kept.stats);
    recorded.spools.push_back(&spool);
    recorded.places.push_back(*place);
  }
  return recorded;
}

// Returns what distances are relative to. A tensor of zeros has no size of its
// own.
double ScaleFor(double largest) { return largest > 0 ? largest : 1; }

// How far two tensors may be apart that are the same: rounding errors of a
// whole network in the shorter of both types, and faults that are so small that
// one still knows the tensor again.
double MatchTolerance(double roundoff) {
  return std::clamp(kRecognisedRoundings * roundoff, kRecognisedLeast,
                    kFarthestKnown);
}
double MatchTolerance(DLDataType source, DLDataType compiled) {
  return MatchTolerance(std::max(UnitRoundoff(source), UnitRoundoff(compiled)));
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
  const bool is_in_range = b.max >= a.max - far && b.min <= a.min + far;
  if (a.elements == b.elements) {
    if (a.nans != b.nans || a.infinities != b.infinities) return false;
  } else if (b.elements % a.elements != 0) {
    // Padding may hold anything.
    return is_in_range;
  }
  // Where all is NaN, there are no numbers whose sizes could exclude a match.
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
  if (!std::isfinite(far)) return true;
  return are_alike || (a.elements != b.elements && is_in_range);
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

// Returns how far a number is from what an integer stands for, beyond the half
// step that rounding takes. An end of the range stands for all beyond it.
double DistanceBeyondRounding(const Layout::Quantisation& how, double expected,
                              double found) {
  const double number = how.Number(found);
  if (found <= how.low && expected < number) return 0;
  if (found >= how.high && expected > number) return 0;
  const double distance = std::fabs(expected - number);
  if (std::isnan(distance)) return kInfinity;
  return std::max(0.0, distance - kHalfStep * how.scale);
}

// Returns how far a number of the compiled tensor is from the one that it
// should be. Infinite if one of them alone is not finite.
double NumberDistance(const Layout& layout, double expected, double found) {
  if (layout.quantisation.has_value()) {
    return DistanceBeyondRounding(*layout.quantisation, expected, found);
  }
  if (expected == found || (std::isnan(expected) && std::isnan(found))) {
    return 0;
  }
  const double distance = std::fabs(expected - found);
  return std::isnan(distance) ? kInfinity : distance;
}

// Calls `take` with the place in the network's tensor and the element of about
// so many of the compiled tensor's elements, until it returns false. Padding is
// passed over.
template <typename Take>
bool ForSamples(const Layout& layout, size_t elements, int64_t most,
                const Take& take) {
  const auto count = static_cast<int64_t>(elements);
  const int64_t stride = std::max<int64_t>(1, count / most);
  for (int64_t i = 0; i < count; i += stride) {
    const int64_t place = PlaceOf(layout, i);
    if (place == kPaddingPlace) continue;
    if (!take(place, static_cast<size_t>(i))) return false;
  }
  return true;
}

// Visits all elements as ForSamples() visits some.
template <typename Take>
bool ForAll(const Layout& layout, size_t count, const Take& take) {
  if (layout.is_same_order()) {
    for (size_t i = 0; i < count; ++i) {
      if (!take(i, i)) return false;
    }
    return true;
  }
  const std::vector<int64_t> places = PlacesOf(layout);
  for (size_t i = 0; i < count; ++i) {
    if (places[i] == kPaddingPlace) continue;
    if (!take(static_cast<size_t>(places[i]), i)) return false;
  }
  return true;
}

// No more than the samples is read: the network's tensor may lie on the disk.
bool AreSamplesNear(const Layout& layout, const NDArray& source,
                    const Numbers& compiled, double far) {
  return ForSamples(layout, compiled.size(), kSampledElements,
                    [&](int64_t place, size_t element) {
                      double number = 0;
                      LoadDoubles(source, place, place + 1, &number);
                      return NumberDistance(layout, number,
                                            compiled[element]) <= far;
                    });
}

// Returns the largest distance, or infinity as soon as one is beyond `far`.
double DistanceOf(const Layout& layout, const Numbers& source,
                  const Numbers& compiled, double far) {
  double largest = 0;
  const bool is_near =
      ForAll(layout, compiled.size(), [&](size_t place, size_t element) {
        largest = std::max(
            largest, NumberDistance(layout, source[place], compiled[element]));
        return largest <= far;
      });
  return is_near ? largest : kInfinity;
}

// NaN go to the end: nothing is smaller or larger than they are.
Numbers Sorted(Numbers numbers) {
  const auto end = std::partition(numbers.begin(), numbers.end(),
                                  [](double x) { return !std::isnan(x); });
  std::sort(numbers.begin(), end);
  return numbers;
}

double DistanceInAnyOrder(const Numbers& source, const Numbers& compiled,
                          double far) {
  if (source.size() != compiled.size()) return kInfinity;
  const auto count = static_cast<int64_t>(source.size());
  return DistanceOf(Layout::SameOrder({&count, 1}, {&count, 1}), Sorted(source),
                    Sorted(compiled), far);
}

// Returns whether there are many different numbers, of which a few are enough.
// NaN, which are in no order, count each.
bool HasManyDistinct(const Numbers& source) {
  Numbers seen;
  for (const double number : source) {
    if (std::ranges::find(seen, number) != seen.end()) continue;
    seen.push_back(number);
    if (seen.size() == kManyNumbers) return true;
  }
  return false;
}

// Returns how alike two tensors are, from -1 to 1: 1 if one is a multiple of
// the other, with something added. 0 if nothing can be said.
double LikenessIn(const Layout& layout, const Numbers& source,
                  const Numbers& compiled) {
  PairSums sums;
  ForSamples(layout, compiled.size(), kLikenessElements,
             [&](int64_t place, size_t element) {
               sums.Add(source[static_cast<size_t>(place)], compiled[element]);
               return true;
             });
  return sums.Likeness();
}

double VarianceOf(const TensorStats& stats) {
  const double square =
      stats.l2 * stats.l2 / static_cast<double>(stats.elements);
  return std::max(0.0, square - stats.mean * stats.mean);
}

// Returns whether the compiled tensor has integers that may stand for the
// floats of the network's, by their statistics: one step is as long with each
// set of inputs.
bool MayBeQuantised(const TensorFacts& source, const TensorFacts& compiled) {
  if (!IsFloat(source.dtype) || !IsInteger(compiled.dtype) ||
      ElementBytes(compiled.dtype) > kMostQuantisedBytes) {
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
    if (std::fabs(step - first) > kStepsDiffer * first) return false;
  }
  return true;
}

// Whether clipping to a range of integers ends here: at 127, -128 and -127, and
// likewise for other numbers of bits; or at 0.
bool IsEndOfRange(double q) {
  if (q == 0) return true;
  const double size = std::fabs(q);
  const auto is_power = [](double x) { return std::exp2(std::ilogb(x)) == x; };
  return size + 1 >= kLeastRangeEnd &&
         (is_power(size + 1) || (q < 0 && is_power(size)));
}

// Sums over pairs of an integer and the float that it stands for. A clipped
// number says nothing.
PairSums SumOver(const Layout& layout, absl::Span<const Numbers> source,
                 absl::Span<const Numbers> compiled,
                 const Layout::Quantisation& ends) {
  PairSums sums;
  for (size_t set = 0; set < compiled.size(); ++set) {
    ForAll(layout, compiled[set].size(), [&](size_t place, size_t element) {
      const double q = compiled[set][element];
      if (q > ends.low && q < ends.high) sums.Add(q, source[set][place]);
      return true;
    });
  }
  return sums;
}

// Returns the scale and zero point with which the integers in that layout are
// nearest to the floats, by least squares over all sets; none if the likeness
// of the two (1: all pairs lie on one line) is below `least_likeness`. `source`
// and `compiled` have the numbers of each set of inputs.
std::optional<Layout::Quantisation> FitQuantisation(
    const Layout& layout, absl::Span<const Numbers> source,
    const TensorFacts& compiled_facts, absl::Span<const Numbers> compiled,
    double least_likeness) {
  Layout::Quantisation how{1, 0, -kInfinity, kInfinity};
  double low = kInfinity;
  double high = -kInfinity;
  for (const TensorStats& stats : compiled_facts.stats) {
    low = std::min(low, stats.min);
    high = std::max(high, stats.max);
  }
  if (IsEndOfRange(low)) how.low = low;
  if (IsEndOfRange(high)) how.high = high;
  const PairSums sums = SumOver(layout, source, compiled, how);
  if (sums.n < kFewestPairs || !(sums.spread_a() > 0) ||
      !(sums.spread_b() > 0) || sums.Likeness() < least_likeness) {
    return std::nullopt;
  }
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

}  // namespace

absl::StatusOr<std::vector<NDArray>> RecordedTensor::Load() const {
  std::vector<NDArray> tensors;
  for (size_t set = 0; set < spools.size(); ++set) {
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, spools[set]->Load(places[set]));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::optional<RecordedTensor> RecordedEntry(
    const GraphIndex& index, absl::Span<const RecordedPair> pairs,
    EntryId entry) {
  return FindRecorded(
      pairs, &RecordedPair::compiled,
      {index.KeyOf(index.NodeOf(entry)), index.OutputOf(entry)});
}

std::optional<RecordedTensor> RecordedValue(
    const Network& network, absl::Span<const RecordedPair> pairs, ValueId id) {
  return FindRecorded(pairs, &RecordedPair::network, {network.value(id).name});
}

std::vector<Numbers> NumbersOf(absl::Span<const NDArray> tensors) {
  std::vector<Numbers> numbers;
  for (const NDArray& tensor : tensors) numbers.push_back(ToDoubles(tensor));
  return numbers;
}

double LargestFinite(const Numbers& numbers) {
  double largest = 0;
  for (const double number : numbers) {
    if (std::isfinite(number)) largest = std::max(largest, std::fabs(number));
  }
  return largest;
}

bool MayMatch(const TensorFacts& source, const TensorFacts& compiled) {
  return MayMatchWithin(MatchTolerance(source.dtype, compiled.dtype), source,
                        compiled);
}

bool IsEquallyNear(double distance, double nearest) {
  return distance <= std::max(kAsNearTimes * nearest, kAsNearLeast);
}

TensorMatcher::TensorMatcher(TensorFacts facts,
                             absl::Span<const NDArray> tensors)
    : facts_(std::move(facts)), numbers_(NumbersOf(tensors)) {}

absl::StatusOr<TensorMatcher> TensorMatcher::Create(
    const RecordedTensor& compiled) {
  NODEWISE_ASSIGN_OR_RETURN(const auto tensors, compiled.Load());
  return TensorMatcher(compiled.facts, tensors);
}

std::optional<TensorMatch> TensorMatcher::Match(
    const TensorFacts& source, absl::Span<const NDArray> tensors) const {
  return MatchWithin(MatchTolerance(source.dtype, facts_.dtype), source,
                     tensors);
}

double TensorMatcher::Roundoff() const {
  if (!roundoff_.has_value()) {
    roundoff_ = RoundoffOfNumbers(facts_.dtype, numbers_);
  }
  return *roundoff_;
}

double TensorMatcher::FarthestRounded(DLDataType source) const {
  return MatchTolerance(std::max(UnitRoundoff(source), Roundoff()));
}

void TensorMatcher::AllowRoundoff(double roundoff) {
  roundoff_ = std::max(Roundoff(), roundoff);
}

bool TensorMatcher::MayMatchRounded(const TensorFacts& source) const {
  if (IsInteger(facts_.dtype)) return MayBeQuantised(source, facts_);
  const double farthest = FarthestRounded(source.dtype);
  return farthest > MatchTolerance(source.dtype, facts_.dtype) &&
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
  const double farthest = std::max(MatchTolerance(source.dtype, facts_.dtype),
                                   FarthestRounded(source.dtype));
  Numbers scales;
  for (size_t set = 0; set < tensors.size(); ++set) {
    const double largest = LargestOf(source.stats[set]);
    scales.push_back(std::isfinite(largest) ? ScaleFor(largest) : 1);
    if (!AreSamplesNear(layout, tensors[set], numbers_[set],
                        farthest * scales[set])) {
      return std::nullopt;
    }
  }
  double worst = 0;
  for (size_t set = 0; set < tensors.size(); ++set) {
    const double far = farthest * scales[set];
    const double distance =
        DistanceOf(layout, ToDoubles(tensors[set]), numbers_[set], far);
    if (distance > far) return std::nullopt;
    worst = std::max(worst, distance / scales[set]);
  }
  return TensorMatch{layout, worst, false};
}

bool TensorMatcher::HasManyNumbers() const {
  return HasManyDistinct(numbers_[0]);
}

bool TensorMatcher::IsOneNumber() const {
  return std::ranges::all_of(numbers_, [&](const Numbers& set) {
    return std::ranges::all_of(
        set, [&](double number) { return number == numbers_[0][0]; });
  });
}

// The likeness of the first set is cheap, and excludes most layouts before a
// line is fitted. Numbers that were made of eight bits are coarse, whichever
// integers hold them, so that any distance counts that a tensor may have at
// all.
std::optional<TensorMatch> TensorMatcher::MatchQuantised(
    const TensorFacts& source, absl::Span<const NDArray> tensors) const {
  const std::vector<Numbers> numbers = NumbersOf(tensors);
  std::optional<TensorMatch> best;
  VisitLayouts(source.shape, facts_.shape, [&](const Layout& layout) {
    if (LikenessIn(layout, numbers[0], numbers_[0]) < kQuantisedLikeness) {
      return true;
    }
    const auto how =
        FitQuantisation(layout, numbers, facts_, numbers_, kQuantisedLikeness);
    if (!how.has_value()) return true;
    Layout quantised = layout;
    quantised.Quantise(*how);
    const double distance = DistanceIn(quantised, tensors);
    if (distance <= (best.has_value() ? best->distance : kFarthestKnown)) {
      best = TensorMatch{std::move(quantised), distance, false};
    }
    return !best.has_value() || best->distance > 0;
  });
  return best;
}

std::optional<TensorMatch> TensorMatcher::MatchWithin(
    double farthest, const TensorFacts& source,
    absl::Span<const NDArray> tensors) const {
  std::vector<Numbers> numbers(tensors.size());
  const auto numbers_of = [&](size_t set) -> const Numbers& {
    if (numbers[set].empty()) numbers[set] = ToDoubles(tensors[set]);
    return numbers[set];
  };
  const auto scale_of = [&](size_t set) {
    const double largest = LargestOf(source.stats[set]);
    return ScaleFor(std::isfinite(largest) ? largest
                                           : LargestFinite(numbers_of(set)));
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
  for (size_t set = 0; set < tensors.size(); ++set) {
    if (!MayBeReordered(source.stats[set], facts_.stats[set],
                        kSameWhenSorted * scale_of(set))) {
      return best;
    }
  }
  if (!HasManyDistinct(numbers_of(0))) return best;
  const double distance =
      distance_of(kSameWhenSorted, [&](size_t set, double far) {
        return DistanceInAnyOrder(numbers_of(set), numbers_[set], far);
      });
  if (distance > kSameWhenSorted) return best;
  return TensorMatch{Layout(), distance, true};
}

std::vector<Layout> TensorMatcher::LikelyLayouts(
    const TensorFacts& source, absl::Span<const NDArray> tensors,
    size_t most) const {
  const Numbers numbers = ToDoubles(tensors[0]);
  std::vector<std::pair<double, Layout>> scored;
  VisitLayouts(source.shape, facts_.shape, [&](const Layout& layout) {
    const double form = layout.is_usual()        ? kUsualLayoutBonus
                        : layout.is_same_order() ? kSameOrderBonus
                                                 : 0;
    // Numbers with the other sign are as much alike.
    const double likeness = LikenessIn(layout, numbers, numbers_[0]);
    scored.emplace_back(form + std::fabs(likeness), layout);
    return true;
  });
  std::ranges::stable_sort(scored, std::greater(),
                           &std::pair<double, Layout>::first);
  if (scored.size() > most) scored.resize(most);
  std::vector<Layout> layouts;
  const bool is_quantised = IsFloat(source.dtype) && IsInteger(facts_.dtype);
  const std::vector<Numbers> all =
      is_quantised ? NumbersOf(tensors) : std::vector<Numbers>();
  for (auto& [score, layout] : scored) {
    if (is_quantised) {
      const auto how = FitQuantisation(layout, all, facts_, numbers_, 0);
      if (how.has_value()) layout.Quantise(*how);
    }
    layouts.push_back(std::move(layout));
  }
  return layouts;
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
  const Numbers numbers = ToDoubles(tensor);
  return DistanceOf(layout, numbers, numbers_[set], kInfinity) /
         ScaleFor(LargestFinite(numbers));
}

Difference TensorMatcher::DifferenceIn(const Layout& layout,
                                       absl::Span<const NDArray> tensors,
                                       bool finite_alone) const {
  Difference worst;
  for (size_t set = 0; set < tensors.size(); ++set) {
    const Numbers numbers = ToDoubles(tensors[set]);
    double largest = 0;
    double squares = 0;
    double count = 0;
    ForAll(layout, numbers_[set].size(), [&](size_t place, size_t element) {
      const double expected = numbers[place];
      const double found = numbers_[set][element];
      if (finite_alone && !(std::isfinite(expected) && std::isfinite(found))) {
        return true;
      }
      const double distance = NumberDistance(layout, expected, found);
      largest = std::max(largest, distance);
      squares += distance * distance;
      count += 1;
      return true;
    });
    const double scale = ScaleFor(LargestFinite(numbers));
    worst.largest = std::max(worst.largest, largest / scale);
    worst.root_mean_square =
        std::max(worst.root_mean_square,
                 std::sqrt(squares / std::max(count, 1.0)) / scale);
  }
  return worst;
}

double TensorMatcher::StepTowards(const Layout& layout,
                                  absl::Span<const NDArray> here,
                                  absl::Span<const NDArray> there) const {
  double along = 0;
  double length = 0;
  for (size_t set = 0; set < here.size(); ++set) {
    const Numbers from = ToDoubles(here[set]);
    const Numbers to = ToDoubles(there[set]);
    if (from.size() != to.size()) return 0;
    ForAll(layout, numbers_[set].size(), [&](size_t place, size_t element) {
      const double found = numbers_[set][element];
      const double way = to[place] - from[place];
      const double left =
          (layout.quantisation.has_value() ? layout.quantisation->Number(found)
                                           : found) -
          from[place];
      if (!std::isfinite(way) || !std::isfinite(left)) return true;
      along += way * left;
      length += way * way;
      return true;
    });
  }
  return length > 0 ? along / length : 0;
}

}  // namespace nodewise
