#include "contrib/align/tensor_parts.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "nodewise/align/layout.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

using LoadTensors =
    absl::FunctionRef<absl::StatusOr<std::vector<NDArray>>(size_t place)>;

// A tensor that lies far outside of the other's range cannot be in it.
constexpr double kFarOutside = 0.1;

int64_t SizeOf(absl::Span<const int64_t> shape) {
  int64_t size = 1;
  for (const int64_t side : shape) size *= side;
  return size;
}

// The product of the sides behind one.
int64_t StepAlong(absl::Span<const int64_t> shape, size_t side) {
  return SizeOf(shape.subspan(side + 1));
}

// Whether the numbers of `part` lie in the range of those of `whole`, with
// every set of inputs.
bool IsInRange(const TensorFacts& part, const TensorFacts& whole) {
  for (size_t set = 0; set < part.stats.size(); ++set) {
    const TensorStats& a = part.stats[set];
    const TensorStats& b = whole.stats[set];
    if (!a.has_numbers || !b.has_numbers || a.elements == 0) return false;
    const double far =
        kFarOutside * std::max(std::fabs(b.max), std::fabs(b.min));
    if (a.max > b.max + far || a.min < b.min - far) return false;
  }
  return true;
}

// Returns the size that a side has in a tensor of `count` elements whose other
// sides are these; 0 if there is none.
int64_t SizeOfSide(absl::Span<const int64_t> shape, size_t side,
                   int64_t count) {
  const int64_t others = SizeOf(shape) / shape[side];
  return count % others == 0 ? count / others : 0;
}

std::vector<int64_t> WithSide(std::vector<int64_t> shape, size_t side,
                              int64_t size) {
  shape[side] = size;
  return shape;
}

// Whether the sides of the compiled tensor are those that the layout makes of
// `shape`: a side that is divided or joined is not reshaped as well.
bool HasItsSides(const Layout& layout, absl::Span<const int64_t> shape,
                 absl::Span<const int64_t> compiled) {
  if (!layout.paddings.empty()) return false;
  std::vector<int64_t> sides;
  for (const Layout::Loop& loop : layout.loops) sides.push_back(loop.count);
  return SidesBeyondOne(layout.is_same_order() ? shape : sides) ==
         SidesBeyondOne(compiled);
}

// Looks for the place of one compiled tensor in one of the network.
class WholeSearch {
 public:
  WholeSearch(const TensorMatcher& compiled, const TensorFacts& whole,
              const std::vector<NDArray>& tensors)
      : compiled_(compiled), whole_(whole), tensors_(tensors) {}

  std::optional<TensorMatch> Run() {
    const int64_t count = SizeOf(compiled_.facts().shape);
    for (size_t side = 0; side < whole_.shape.size(); ++side) {
      const int64_t part = SizeOfSide(whole_.shape, side, count);
      if (part == 0 || part >= whole_.shape[side]) continue;
      const std::vector<int64_t> shape = WithSide(whole_.shape, side, part);
      const std::vector<int64_t>& compiled = compiled_.facts().shape;
      VisitLayouts(shape, compiled, [&](const Layout& layout) {
        if (HasItsSides(layout, shape, compiled)) TryAlong(side, part, layout);
        return !best_.has_value();
      });
      if (best_.has_value()) break;
    }
    return best_;
  }

 private:
  void TryAlong(size_t side, int64_t part, const Layout& layout) {
    const int64_t size = whole_.shape[side];
    for (int64_t begin = 0; begin + part <= size; ++begin) {
      Layout cut = layout;
      if (layout.is_same_order()) cut.text.clear();
      cut.CutTo(
          {StepAlong(whole_.shape, side), part, -begin, size},
          fmt::format("part {}:{} of side {}", begin, begin + part, side));
      auto match = compiled_.MatchIn(cut, whole_, tensors_);
      if (!match.has_value()) continue;
      if (!best_.has_value() || match->distance < best_->distance) {
        best_ = std::move(match);
      }
    }
  }

  const TensorMatcher& compiled_;
  const TensorFacts& whole_;
  const std::vector<NDArray>& tensors_;
  std::optional<TensorMatch> best_;
};

// Looks for tensors of the network that lie behind each other in one compiled.
class PartsSearch {
 public:
  PartsSearch(const TensorMatcher& compiled,
              absl::Span<const PartCandidate> candidates, LoadTensors load)
      : compiled_(compiled), candidates_(candidates), load_(load) {}

  absl::StatusOr<std::vector<PartMatch>> Run() {
    const int64_t count = SizeOf(compiled_.facts().shape);
    std::set<std::pair<size_t, std::vector<int64_t>>> tried;
    for (const PartCandidate& first : candidates_) {
      const std::vector<int64_t>& shape = first.facts->shape;
      for (size_t side = 0; side < shape.size(); ++side) {
        const int64_t size = SizeOfSide(shape, side, count);
        if (size <= shape[side]) continue;
        const std::vector<int64_t> joined = WithSide(shape, side, size);
        if (!tried.emplace(side, joined).second) continue;
        NODEWISE_RETURN_IF_ERROR(TryJoined(side, joined));
        if (!found_.empty()) return std::move(found_);
      }
    }
    return std::move(found_);
  }

 private:
  absl::Status TryJoined(size_t side, const std::vector<int64_t>& joined) {
    std::vector<Layout> layouts;
    VisitLayouts(joined, compiled_.facts().shape, [&](const Layout& layout) {
      if (HasItsSides(layout, joined, compiled_.facts().shape)) {
        layouts.push_back(layout);
      }
      return true;
    });
    for (const Layout& layout : layouts) {
      std::vector<PartMatch> parts;
      int64_t begin = 0;
      while (begin < joined[side]) {
        NODEWISE_ASSIGN_OR_RETURN(auto next,
                                  PartAt(side, joined, layout, begin));
        if (!next.has_value()) break;
        begin += next->second;
        parts.push_back(std::move(next->first));
      }
      if (begin == joined[side] && parts.size() > 1) {
        found_ = std::move(parts);
        return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  }

  // Returns the nearest tensor that begins there, and how long it is.
  absl::StatusOr<std::optional<std::pair<PartMatch, int64_t>>> PartAt(
      size_t side, const std::vector<int64_t>& joined, const Layout& layout,
      int64_t begin) const {
    std::optional<std::pair<PartMatch, int64_t>> nearest;
    for (const PartCandidate& candidate : candidates_) {
      const std::vector<int64_t>& shape = candidate.facts->shape;
      if (shape.size() != joined.size() ||
          WithSide(shape, side, joined[side]) != joined ||
          begin + shape[side] > joined[side]) {
        continue;
      }
      Layout cut = layout;
      if (layout.is_same_order()) cut.text.clear();
      cut.CutTo({StepAlong(joined, side), joined[side], begin, shape[side]},
                fmt::format("joined along side {}", side));
      NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> tensors,
                                load_(candidate.place));
      auto match = compiled_.MatchIn(cut, *candidate.facts, tensors);
      if (!match.has_value() ||
          (nearest.has_value() &&
           match->distance >= nearest->first.match.distance)) {
        continue;
      }
      nearest = {PartMatch{candidate.place, *std::move(match)}, shape[side]};
    }
    return nearest;
  }

  const TensorMatcher& compiled_;
  const absl::Span<const PartCandidate> candidates_;
  const LoadTensors load_;
  std::vector<PartMatch> found_;
};

}  // namespace

absl::StatusOr<std::vector<PartMatch>> FindWholes(
    const TensorMatcher& compiled, absl::Span<const PartCandidate> candidates,
    LoadTensors load) {
  std::vector<PartMatch> found;
  if (!compiled.HasManyNumbers()) return found;
  for (const PartCandidate& candidate : candidates) {
    if (candidate.facts->stats[0].elements <=
            compiled.facts().stats[0].elements ||
        !IsInRange(compiled.facts(), *candidate.facts)) {
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> tensors,
                              load(candidate.place));
    auto match = WholeSearch(compiled, *candidate.facts, tensors).Run();
    if (match.has_value()) {
      found.push_back({candidate.place, *std::move(match)});
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const PartMatch& a, const PartMatch& b) {
                     return a.match.distance < b.match.distance;
                   });
  return found;
}

absl::StatusOr<std::vector<PartMatch>> FindParts(
    const TensorMatcher& compiled, absl::Span<const PartCandidate> candidates,
    LoadTensors load) {
  if (!compiled.HasManyNumbers()) return std::vector<PartMatch>();
  std::vector<PartCandidate> possible;
  for (const PartCandidate& candidate : candidates) {
    if (candidate.facts->stats[0].elements <
            compiled.facts().stats[0].elements &&
        IsInRange(*candidate.facts, compiled.facts())) {
      possible.push_back(candidate);
    }
  }
  return PartsSearch(compiled, possible, load).Run();
}

}  // namespace nodewise
