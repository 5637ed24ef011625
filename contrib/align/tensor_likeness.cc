#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "contrib/align/pair_sums.h"
#include "contrib/align/quantised.h"
#include "contrib/align/tensor_match.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {

double LargestFinite(const std::vector<double>& numbers) {
  double largest = 0;
  for (const double number : numbers) {
    if (std::isfinite(number)) largest = std::max(largest, std::fabs(number));
  }
  return largest;
}

double NumberDistance(const Layout& layout, double expected, double found) {
  if (layout.quantisation.has_value()) {
    return DistanceBeyondRounding(*layout.quantisation, expected, found);
  }
  if (expected == found || (std::isnan(expected) && std::isnan(found))) {
    return 0;
  }
  const double distance = std::fabs(expected - found);
  return std::isnan(distance) ? std::numeric_limits<double>::infinity()
                              : distance;
}

double LikenessIn(const Layout& layout, const std::vector<double>& source,
                  const std::vector<double>& compiled) {
  constexpr int64_t kLooked = 4096;
  const auto count = static_cast<int64_t>(compiled.size());
  const int64_t stride = std::max<int64_t>(1, count / kLooked);
  PairSums sums;
  for (int64_t i = 0; i < count; i += stride) {
    const int64_t place = PlaceOf(layout, i);
    if (place == kPaddingPlace) continue;
    const double a = source[static_cast<size_t>(place)];
    const double b = compiled[static_cast<size_t>(i)];
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    sums.Add(a, b);
  }
  return sums.Likeness();
}

std::vector<Layout> TensorMatcher::LikelyLayouts(
    const TensorFacts& source, absl::Span<const NDArray> tensors,
    size_t most) const {
  // A usual layout counts as much as a moderate likeness of the numbers.
  constexpr double kUsual = 0.5;
  constexpr double kSameOrder = 0.3;
  const std::vector<double> numbers = NumbersOf(tensors[0]);
  std::vector<std::pair<double, Layout>> scored;
  VisitLayouts(source.shape, facts_.shape, [&](const Layout& layout) {
    const double form = layout.is_usual()        ? kUsual
                        : layout.is_same_order() ? kSameOrder
                                                 : 0;
    // Numbers with the other sign are as much alike.
    const double likeness = LikenessIn(layout, numbers, numbers_[0]);
    scored.emplace_back(form + std::fabs(likeness), layout);
    return true;
  });
  std::stable_sort(
      scored.begin(), scored.end(),
      [](const auto& a, const auto& b) { return a.first > b.first; });
  if (scored.size() > most) scored.resize(most);
  std::vector<Layout> layouts;
  const bool is_quantised = IsFloat(source.dtype) && IsInteger(facts_.dtype);
  const std::vector<std::vector<double>> all =
      is_quantised ? NumbersOf(tensors) : std::vector<std::vector<double>>();
  for (auto& [score, layout] : scored) {
    if (is_quantised) {
      const auto how = FitQuantisation(layout, all, facts_, numbers_, 0);
      if (how.has_value()) layout.Quantise(*how);
    }
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

double TensorMatcher::FiniteDistanceIn(
    const Layout& layout, absl::Span<const NDArray> tensors) const {
  double worst = 0;
  const std::vector<int64_t> places = PlacesOf(layout);
  for (size_t set = 0; set < tensors.size(); ++set) {
    const std::vector<double> numbers = NumbersOf(tensors[set]);
    const double largest = LargestFinite(numbers);
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i] == kPaddingPlace) continue;
      const double expected = numbers[static_cast<size_t>(places[i])];
      const double found = numbers_[set][i];
      if (!std::isfinite(expected) || !std::isfinite(found)) continue;
      worst = std::max(worst, NumberDistance(layout, expected, found) /
                                  (largest > 0 ? largest : 1));
    }
  }
  return worst;
}

Difference TensorMatcher::DifferenceIn(
    const Layout& layout, absl::Span<const NDArray> tensors) const {
  Difference worst;
  const std::vector<int64_t> places = PlacesOf(layout);
  for (size_t set = 0; set < tensors.size(); ++set) {
    const std::vector<double> numbers = NumbersOf(tensors[set]);
    double largest = 0;
    double squares = 0;
    double count = 0;
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i] == kPaddingPlace) continue;
      const double distance = NumberDistance(
          layout, numbers[static_cast<size_t>(places[i])], numbers_[set][i]);
      largest = std::max(largest, distance);
      squares += distance * distance;
      count += 1;
    }
    const double size = LargestFinite(numbers);
    const double scale = size > 0 ? size : 1;
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
    const std::vector<double> from = NumbersOf(here[set]);
    const std::vector<double> to = NumbersOf(there[set]);
    if (from.size() != to.size()) return 0;
    const std::vector<int64_t> places = PlacesOf(layout);
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i] == kPaddingPlace) continue;
      const auto place = static_cast<size_t>(places[i]);
      const double way = to[place] - from[place];
      const double found = numbers_[set][i];
      const double left =
          (layout.quantisation.has_value() ? layout.quantisation->Number(found)
                                           : found) -
          from[place];
      if (!std::isfinite(way) || !std::isfinite(left)) continue;
      along += way * left;
      length += way * way;
    }
  }
  return length > 0 ? along / length : 0;
}

}  // namespace nodewise
