// Patterns in where wrong elements are.

#include <numeric>
#include <random>
#include <vector>

#include "contrib/compare/tensor_pair.h"
#include "fmt/format.h"

namespace nodewise {
namespace {

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
    for (const int64_t side : pair.shape()) {
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
      return !pair_.IsWrong(x, y) || Take(i);
    });
  }
  // Returns whether some elements, in their order, leave a pattern possible.
  bool MayFind() {
    const size_t step = pair_.elements() / kSample;
    if (step < 2) return true;
    std::minstd_rand random;
    for (size_t i = 0; i + step <= pair_.elements(); i += step) {
      // At random, since a fixed distance would be found again.
      const size_t place = i + random() % step;
      const bool is_wrong =
          pair_.IsWrong(pair_.Expected(place), pair_.Actual(place));
      if (is_wrong && !Take(place)) return false;
    }
    return true;
  }

  void Report(DifferenceDetails* details) const {
    if (wrong_ == 0 || AddLastLanes(details) || AddSlice(details)) return;
    if (AddEveryNth(details)) return;
    AddBorder(details);
  }

 private:
  // Two neighbouring axes of which the inside has no wrong elements so far.
  struct Border {
    size_t axis = 0;
    bool is_refuted = false;
  };

  // Returns whether there may be a pattern still.
  bool Take(size_t place) {
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
    for (const AxisRange& range : axes_) {
      may_be = may_be || !range.is_refuted();
    }
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

  static void Add(FailureShape shape, std::string words,
                  DifferenceDetails* details) {
    details->patterns.push_back({shape, std::move(words)});
  }

  // A loop whose length is not a multiple of the lanes: along the last axis, or
  // over all elements.
  bool AddLastLanes(DifferenceDetails* details) const {
    const size_t n = pair_.elements();
    const size_t side = axes_.empty() ? 1 : axes_.back().side;
    const size_t least = axes_.empty() ? 0 : axes_.back().least;
    for (const size_t lanes : kLanes) {
      for (const size_t length : {side, n}) {
        const size_t rest = length % lanes;
        const size_t from = length == n ? first_ : least;
        if (rest == 0 || length < lanes || from < length - rest) continue;
        const double share =
            static_cast<double>(rest) / static_cast<double>(length);
        if (!IsTelling(wrong_, share)) continue;
        Add(FailureShape::kLastLanes,
            fmt::format("only in the last {} of {} {}, behind the last whole "
                        "vector of {}",
                        rest, length,
                        length == n ? "elements" : "along the last axis",
                        lanes),
            details);
        return true;
      }
    }
    return false;
  }

  bool AddSlice(DifferenceDetails* details) const {
    std::string words;
    for (size_t axis = 0; axis < axes_.size(); ++axis) {
      const AxisRange& range = axes_[axis];
      if (range.is_refuted() || !IsTelling(wrong_, range.share())) continue;
      words += words.empty() ? "only at " : " and ";
      words += range.least == range.most
                   ? fmt::format("index {}", range.least)
                   : fmt::format("indices {} to {}", range.least, range.most);
      words += fmt::format(" of axis {} (of {})", axis, range.side);
    }
    if (words.empty()) return false;
    Add(FailureShape::kOneSlice, words, details);
    return true;
  }

  bool AddEveryNth(DifferenceDetails* details) const {
    if (distance_ < 2 || distance_ > kMostDistance) return false;
    if (!IsTelling(wrong_, 1 / static_cast<double>(distance_))) return false;
    Add(FailureShape::kEveryNth,
        fmt::format("only at every {}th element, from {} on", distance_,
                    first_ % distance_),
        details);
    return true;
  }

  void AddBorder(DifferenceDetails* details) const {
    for (const Border& border : borders_) {
      if (border.is_refuted) continue;
      const auto a = static_cast<double>(axes_[border.axis].side);
      const auto b = static_cast<double>(axes_[border.axis + 1].side);
      if (!IsTelling(wrong_, 1 - (a - 2) * (b - 2) / (a * b))) continue;
      return Add(FailureShape::kBorder,
                 fmt::format("only at the border of axes {} and {}",
                             border.axis, border.axis + 1),
                 details);
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

}  // namespace

void AddPlacePatterns(const TensorPair& pair, DifferenceDetails* details) {
  // Noise all over a tensor is seen in a part of it.
  if (!PlaceFinder(pair).MayFind()) return;
  PlaceFinder finder(pair);
  finder.Find();
  finder.Report(details);
}

}  // namespace nodewise
