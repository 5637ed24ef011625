// Which layouts there are between two shapes.
//
// A layout is a nest of loops, so that most of what compilers do is one of two
// things: the loops in another order, or a loop that is divided into two. All
// combinations are tried that give the compiled shape as many elements; how its
// sides are cut does not matter, since compilers join and split sides freely.

#include "nodewise/align/layout.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "contrib/align/align_limits.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/check.h"

namespace nodewise {
namespace {

// A side of the network's tensor, or a part of one.
struct Side {
  size_t axis = 0;  // An axis of the network's tensor.
  int64_t count = 1;
  int64_t step = 1;
};

std::vector<Side> SidesOf(absl::Span<const int64_t> shape) {
  std::vector<Side> sides;
  const std::vector<int64_t> steps = StridesOf(shape);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] != 1) sides.push_back({axis, shape[axis], steps[axis]});
  }
  return sides;
}

void AddLoops(const std::vector<Side>& sides, const std::vector<size_t>& order,
              std::vector<Layout::Loop>* loops, std::vector<size_t>* axes) {
  for (const size_t i : order) {
    loops->push_back({sides[i].count, sides[i].step});
    axes->push_back(sides[i].axis);
  }
}

std::vector<size_t> FirstOrder(size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

// Two neighbouring loops are one where the inner one ends where the outer one's
// next step begins. So equal orders have equal loops.
std::vector<Layout::Loop> Joined(const std::vector<Layout::Loop>& loops) {
  std::vector<Layout::Loop> joined;
  for (const Layout::Loop& loop : loops) {
    if (loop.count == 1) continue;
    if (!joined.empty() && joined.back().step == loop.count * loop.step) {
      joined.back() = {joined.back().count * loop.count, loop.step};
    } else {
      joined.push_back(loop);
    }
  }
  return joined;
}

// Tries layouts, each order of elements once.
struct LayoutVisit {
  const absl::Span<const int64_t> source;
  const absl::Span<const int64_t> compiled;
  const absl::FunctionRef<bool(const Layout&)> visit;
  const std::vector<Side> sides = SidesOf(source);
  std::set<std::vector<std::pair<int64_t, int64_t>>> seen = {};

  void Run() {
    if (Product(source) == 0 || Product(compiled) == 0) return;
    if (Product(source) == Product(compiled)) {
      if (!Try(Layout::SameOrder(source, compiled))) return;
      if (!TryTranspositions()) return;
    } else if (!TryBroadcast()) {
      return;
    }
    for (const auto& block : BlockSizes()) {
      if (!TryBlocks(block)) return;
    }
  }

  // Returns false when there has been enough.
  // Different ways of dividing and ordering sides may come to one order of
  // elements, which is not to be compared twice. Padding is not seen in the
  // loops alone, and such layouts are few.
  bool Try(const Layout& layout) {
    if (layout.paddings.empty()) {
      std::vector<std::pair<int64_t, int64_t>> key;
      for (const Layout::Loop& loop : Joined(layout.loops)) {
        key.emplace_back(loop.count, loop.step);
      }
      if (!seen.insert(std::move(key)).second) return true;
    }
    return visit(layout);
  }

  bool TryTranspositions() {
    if (sides.size() < 2 || sides.size() > kMostTransposedSides) return true;
    std::vector<size_t> order = FirstOrder(sides.size());
    while (std::ranges::next_permutation(order).found) {
      Layout layout;
      std::vector<size_t> axes;
      AddLoops(sides, order, &layout.loops, &axes);
      layout.text = fmt::format("sides in the order {}", fmt::join(axes, " "));
      if (!Try(layout)) return false;
    }
    return true;
  }

  // As NumPy does it, with sides of 1 put in front or repeated.
  bool TryBroadcast() {
    if (source.size() > compiled.size()) return true;
    Layout layout;
    const size_t more = compiled.size() - source.size();
    int64_t step = Product(source);
    for (size_t i = 0; i < compiled.size(); ++i) {
      const int64_t size = i < more ? 1 : source[i - more];
      if (size != compiled[i] && size != 1) return true;
      step /= size;
      layout.loops.push_back({compiled[i], size == 1 ? 0 : step});
    }
    layout.text = "repeated";
    return Try(layout);
  }

  // The last one or two sides of what was compiled may be blocks of others.
  std::vector<std::vector<int64_t>> BlockSizes() const {
    std::vector<std::vector<int64_t>> sizes;
    const size_t rank = compiled.size();
    if (rank >= 2 && compiled[rank - 1] > 1) {
      sizes.push_back({compiled[rank - 1]});
    }
    if (rank >= 4 && compiled[rank - 1] > 1 && compiled[rank - 2] > 1) {
      sizes.push_back({compiled[rank - 2], compiled[rank - 1]});
    }
    return sizes;
  }

  // Divides one side of the network's tensor for each block, in all ways.
  bool TryBlocks(const std::vector<int64_t>& blocks) {
    std::vector<size_t> divided(blocks.size());
    return TryBlocksOf(blocks, 0, &divided);
  }
  bool TryBlocksOf(const std::vector<int64_t>& blocks, size_t next,
                   std::vector<size_t>* divided) {
    if (next == blocks.size()) return TryDivided(blocks, *divided);
    for (size_t i = 0; i < sides.size(); ++i) {
      const auto end = divided->begin() + static_cast<std::ptrdiff_t>(next);
      if (std::find(divided->begin(), end, i) != end) continue;
      (*divided)[next] = i;
      if (!TryBlocksOf(blocks, next + 1, divided)) return false;
    }
    return true;
  }

  // Tries the sides that are left outside of the blocks in all orders. The
  // blocks come last, as they do in every compiled tensor that has any.
  bool TryDivided(const std::vector<int64_t>& blocks,
                  const std::vector<size_t>& divided) {
    std::vector<Side> outer = sides;
    std::vector<Side> inner;
    std::string text;
    for (size_t b = 0; b < blocks.size(); ++b) {
      Side& side = outer[divided[b]];
      inner.push_back({side.axis, blocks[b], side.step});
      text += fmt::format("{}side {} in blocks of {}", b == 0 ? "" : ", ",
                          side.axis, blocks[b]);
      side = {side.axis, (side.count + blocks[b] - 1) / blocks[b],
              side.step * blocks[b]};
    }
    int64_t count = Product(blocks);
    for (const Side& side : outer) count *= side.count;
    if (count != Product(compiled)) return true;
    std::vector<size_t> order = FirstOrder(outer.size());
    do {
      Layout layout;
      std::vector<size_t> axes;
      AddLoops(outer, order, &layout.loops, &axes);
      for (const Side& side : inner) {
        layout.loops.push_back({side.count, side.step});
      }
      layout.text = text;
      if (std::ranges::is_sorted(axes)) {
        layout.MakeUsual();
      } else {
        layout.text +=
            fmt::format(", sides in the order {}", fmt::join(axes, " "));
      }
      for (size_t b = 0; b < blocks.size(); ++b) {
        const Side& side = sides[divided[b]];
        if (side.count % blocks[b] == 0) continue;
        // A tensor that has no side for the blocks is not divided into them.
        if (compiled.size() < source.size() + blocks.size()) return true;
        const auto place = std::ranges::find(order, divided[b]);
        layout.paddings.push_back({static_cast<size_t>(place - order.begin()),
                                   outer.size() + b, side.count});
        layout.text += fmt::format(", filled up from {}", side.count);
      }
      if (!Try(layout)) return false;
    } while (order.size() <= kMostTransposedBlocks &&
             std::ranges::next_permutation(order).found);
    return true;
  }
};

// Where a place lies in the network's tensor if the loops go over a tensor that
// is longer or shorter along one side.
int64_t PlaceAfter(const Layout::Cut& cut, int64_t place) {
  const int64_t outer = place / (cut.from * cut.inner);
  const int64_t step = place / cut.inner % cut.from - cut.begin;
  if (step < 0 || step >= cut.to) return kPaddingPlace;
  return (outer * cut.to + step) * cut.inner + place % cut.inner;
}

}  // namespace

int64_t Layout::count() const {
  int64_t product = 1;
  for (const Loop& loop : loops) product *= loop.count;
  return product;
}

Layout Layout::SameOrder(absl::Span<const int64_t> source,
                         absl::Span<const int64_t> compiled) {
  NODEWISE_CHECK(Product(source) == Product(compiled));
  Layout layout;
  layout.loops = {{Product(source), 1}};
  layout.is_same_order_ = true;
  layout.is_usual_ = source == compiled;
  if (source != compiled) layout.text = "reshaped";
  return layout;
}

void Layout::Quantise(const Quantisation& how) {
  quantisation = how;
  text += fmt::format("{}quantised, scale {:.4g}, zero point {:.0f}",
                      text.empty() ? "" : ", ", how.scale, how.zero_point);
}

void Layout::CutTo(const Cut& how, const std::string& words) {
  cut = how;
  text = text.empty() ? words : words + ", " + text;
  is_same_order_ = false;
}

int64_t PlaceOf(const Layout& layout, int64_t element) {
  int64_t place = 0;
  std::vector<int64_t> steps(layout.loops.size());
  for (size_t i = layout.loops.size(); i > 0; --i) {
    const Layout::Loop& loop = layout.loops[i - 1];
    steps[i - 1] = element % loop.count;
    element /= loop.count;
    place += steps[i - 1] * loop.step;
  }
  for (const Layout::Padding& padding : layout.paddings) {
    const int64_t at =
        steps[padding.outer] * layout.loops[padding.inner].count +
        steps[padding.inner];
    if (at >= padding.size) return kPaddingPlace;
  }
  return layout.cut.has_value() ? PlaceAfter(*layout.cut, place) : place;
}

std::vector<int64_t> PlacesOf(const Layout& layout) {
  std::vector<int64_t> places = {0};
  // From the outermost loop inwards, each place becomes as many as the next
  // loop has steps.
  for (const Layout::Loop& loop : layout.loops) {
    std::vector<int64_t> next;
    next.reserve(places.size() * static_cast<size_t>(loop.count));
    for (const int64_t place : places) {
      for (int64_t step = 0; step < loop.count; ++step) {
        next.push_back(place + step * loop.step);
      }
    }
    places = std::move(next);
  }
  if (layout.cut.has_value()) {
    for (int64_t& place : places) place = PlaceAfter(*layout.cut, place);
  }
  if (layout.paddings.empty()) return places;
  for (size_t i = 0; i < places.size(); ++i) {
    if (PlaceOf(layout, static_cast<int64_t>(i)) == kPaddingPlace) {
      places[i] = kPaddingPlace;
    }
  }
  return places;
}

std::vector<int64_t> SidesBeyondOne(absl::Span<const int64_t> shape) {
  std::vector<int64_t> sides(shape.begin(), shape.end());
  std::erase(sides, 1);
  return sides;
}

void VisitLayouts(absl::Span<const int64_t> source,
                  absl::Span<const int64_t> compiled,
                  absl::FunctionRef<bool(const Layout& layout)> visit) {
  LayoutVisit{source, compiled, visit}.Run();
}

std::vector<Layout> LayoutsOfWrongSize(absl::Span<const int64_t> source,
                                       absl::Span<const int64_t> compiled) {
  std::vector<Layout> layouts;
  const auto add = [&](std::vector<int64_t> shape) {
    VisitLayouts(shape, compiled, [&](const Layout& layout) {
      if (!layout.is_usual()) return true;
      layouts.push_back(layout);
      layouts.back().other_shape = shape;
      layouts.back().text +=
          fmt::format("{}of the wrong size", layout.text.empty() ? "" : ", ");
      return false;
    });
  };
  // Another shape with as many elements is a matter of the usual layouts.
  if (Product(source) == Product(compiled)) return layouts;
  if (source.size() == compiled.size()) {
    add({compiled.begin(), compiled.end()});
  } else if (source.size() + 1 == compiled.size()) {
    for (size_t side = 0; side < source.size(); ++side) {
      std::vector<int64_t> shape(compiled.begin(), compiled.end() - 1);
      shape[side] *= compiled.back();
      // A tensor that has the wrong size still has a side that is right.
      const auto differ =
          std::inner_product(shape.begin(), shape.end(), source.begin(),
                             size_t{0}, std::plus<>(), std::not_equal_to<>());
      if (differ < shape.size()) add(std::move(shape));
    }
  }
  return layouts;
}

}  // namespace nodewise
