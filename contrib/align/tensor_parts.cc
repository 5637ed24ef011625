// Compiled tensors that are a part of one of the network's along a side, or
// have several of them one behind the other. A compiler makes such ones where
// it divides an operation, or joins products of one input.
//
// The search goes over sides and not over ranges of elements: the sides but one
// are known, so that the size of the last one follows, and a layout of the
// tensor with that side is a layout of the part.

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "contrib/align/align_limits.h"
#include "contrib/align/tensor_match.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

bool IsInRange(const TensorFacts& part, const TensorFacts& whole) {
  for (size_t set = 0; set < part.stats.size(); ++set) {
    const TensorStats& a = part.stats[set];
    const TensorStats& b = whole.stats[set];
    if (!a.has_numbers || !b.has_numbers || a.elements == 0) return false;
    const double far =
        kFarthestKnown * std::max(std::fabs(b.max), std::fabs(b.min));
    if (a.max > b.max + far || a.min < b.min - far) return false;
  }
  return true;
}

// Returns the size that a side has in a tensor of `count` elements whose other
// sides are these; 0 if there is none.
int64_t SizeOfSide(absl::Span<const int64_t> shape, size_t side,
                   int64_t count) {
  const int64_t others = Product(shape) / shape[side];
  return count % others == 0 ? count / others : 0;
}

std::vector<int64_t> WithSide(std::vector<int64_t> shape, size_t side,
                              int64_t size) {
  shape[side] = size;
  return shape;
}

// The layouts of a tensor of `shape` that have the compiled tensor's sides: a
// side that is divided or joined is not reshaped as well.
std::vector<Layout> LayoutsWithSides(absl::Span<const int64_t> shape,
                                     absl::Span<const int64_t> compiled) {
  std::vector<Layout> layouts;
  VisitLayouts(shape, compiled, [&](const Layout& layout) {
    std::vector<int64_t> sides;
    for (const Layout::Loop& loop : layout.loops) sides.push_back(loop.count);
    if (layout.paddings.empty() &&
        SidesBeyondOne(layout.is_same_order() ? shape : sides) ==
            SidesBeyondOne(compiled)) {
      layouts.push_back(layout);
    }
    return true;
  });
  return layouts;
}

// The layout with a cut along this side of `shape`, beginning there.
Layout CutLayout(Layout layout, absl::Span<const int64_t> shape, size_t side,
                 Layout::Cut cut, const std::string& words) {
  if (layout.is_same_order()) layout.text.clear();
  cut.inner = Product(shape.subspan(side + 1));
  layout.CutTo(cut, words);
  return layout;
}

// Returns the place of the compiled tensor in one of the network: the nearest
// along the first side, and in the first layout, in which there is any.
std::optional<TensorMatch> PlaceIn(const TensorFacts& whole,
                                   const std::vector<NDArray>& tensors,
                                   const TensorMatcher& compiled) {
  const std::vector<int64_t>& shape = compiled.facts().shape;
  std::optional<TensorMatch> best;
  for (size_t side = 0; side < whole.shape.size(); ++side) {
    const int64_t size = whole.shape[side];
    const int64_t part = SizeOfSide(whole.shape, side, Product(shape));
    if (part == 0 || part >= size) continue;
    for (const Layout& layout :
         LayoutsWithSides(WithSide(whole.shape, side, part), shape)) {
      for (int64_t begin = 0; begin + part <= size; ++begin) {
        auto match = compiled.MatchIn(
            CutLayout(layout, whole.shape, side, {1, part, -begin, size},
                      fmt::format("part {}:{} of side {}", begin, begin + part,
                                  side)),
            whole, tensors);
        if (match.has_value() &&
            (!best.has_value() || match->distance < best->distance)) {
          best = std::move(match);
        }
      }
      if (best.has_value()) return best;
    }
  }
  return best;
}

// A tensor that consists of several along a side.
struct JoinedTensor {
  size_t side = 0;
  std::vector<int64_t> shape;
  Layout layout;
};

using Sources = std::vector<const SourceTensor*>;

absl::StatusOr<std::optional<EntryMatch>> PartAt(const TensorMatcher& compiled,
                                                 const Sources& sources,
                                                 const JoinedTensor& joined,
                                                 int64_t begin) {
  const int64_t size = joined.shape[joined.side];
  std::optional<EntryMatch> nearest;
  for (const SourceTensor* const source : sources) {
    const TensorFacts& facts = source->recorded.facts;
    if (facts.shape.size() != joined.shape.size() ||
        WithSide(facts.shape, joined.side, size) != joined.shape ||
        begin + facts.shape[joined.side] > size) {
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto tensors, source->recorded.Load());
    const auto match = compiled.MatchIn(
        CutLayout(joined.layout, joined.shape, joined.side,
                  {1, size, begin, facts.shape[joined.side]},
                  fmt::format("joined along side {}", joined.side)),
        facts, tensors);
    if (match.has_value() &&
        (!nearest.has_value() || match->distance < nearest->distance)) {
      nearest = {source->value, match->layout, match->distance,
                 false,         std::nullopt,  true};
    }
  }
  return nearest;
}

// None if not all of the joined tensor is known.
absl::StatusOr<std::vector<EntryMatch>> PartsOf(const TensorMatcher& compiled,
                                                const Sources& sources,
                                                const JoinedTensor& joined) {
  std::vector<EntryMatch> parts;
  for (int64_t begin = 0; begin < joined.shape[joined.side];) {
    NODEWISE_ASSIGN_OR_RETURN(auto next,
                              PartAt(compiled, sources, joined, begin));
    if (!next.has_value()) return std::vector<EntryMatch>();
    begin += next->layout.cut->to;
    parts.push_back(*std::move(next));
  }
  if (parts.size() < 2) parts.clear();
  return parts;
}

}  // namespace

absl::StatusOr<std::vector<EntryMatch>> FindWholes(
    const TensorMatcher& compiled, absl::Span<const SourceTensor> sources) {
  std::vector<EntryMatch> found;
  if (!compiled.HasManyNumbers()) return found;
  const TensorFacts& part = compiled.facts();
  for (const auto& [value, recorded] : sources) {
    if (recorded.facts.stats[0].elements <= part.stats[0].elements ||
        !IsInRange(part, recorded.facts)) {
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto tensors, recorded.Load());
    const auto match = PlaceIn(recorded.facts, tensors, compiled);
    if (match.has_value()) {
      found.push_back({value, match->layout, match->distance});
    }
  }
  std::ranges::stable_sort(found, {}, &EntryMatch::distance);
  return found;
}

absl::StatusOr<std::vector<EntryMatch>> FindParts(
    const TensorMatcher& compiled, absl::Span<const SourceTensor> sources) {
  std::vector<EntryMatch> found;
  if (!compiled.HasManyNumbers()) return found;
  const TensorFacts& whole = compiled.facts();
  Sources possible;
  for (const SourceTensor& source : sources) {
    const TensorFacts& facts = source.recorded.facts;
    if (facts.stats[0].elements < whole.stats[0].elements &&
        IsInRange(facts, whole)) {
      possible.push_back(&source);
    }
  }
  // Several tensors may be the first of the same joined one.
  std::set<std::pair<size_t, std::vector<int64_t>>> tried;
  for (const SourceTensor* const first : possible) {
    const std::vector<int64_t>& shape = first->recorded.facts.shape;
    for (size_t side = 0; side < shape.size(); ++side) {
      const int64_t size = SizeOfSide(shape, side, Product(whole.shape));
      if (size <= shape[side]) continue;
      JoinedTensor joined{side, WithSide(shape, side, size), {}};
      if (!tried.emplace(side, joined.shape).second) continue;
      for (Layout& layout : LayoutsWithSides(joined.shape, whole.shape)) {
        joined.layout = std::move(layout);
        NODEWISE_ASSIGN_OR_RETURN(found, PartsOf(compiled, possible, joined));
        if (!found.empty()) return found;
      }
    }
  }
  return found;
}

}  // namespace nodewise
