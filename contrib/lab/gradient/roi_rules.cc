#include <algorithm>
#include <cmath>
#include <limits>

#include "contrib/lab/gradient/rules.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/indexing.h"
#include "nodewise/ops/layout.h"
#include "nodewise/ops/logic.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/reduce.h"
#include "nodewise/ops/roi.h"

// Pools of regions, and the way back from a pool. Sides are kept apart: what
// counts in a bin is a product of what counts along height and width.

namespace nodewise::gradient {
namespace {

using ops::RoiMode;
using Sizes = std::vector<int64_t>;
using Terms = std::vector<Term>;

constexpr double kNothing = -std::numeric_limits<double>::infinity();

Term IsSame(Term a, Term b) { return a.writer().Add(ops::Equal{}, {a, b}); }
Term LargestOver(Term x, const Sizes& axes) {
  return x.writer().Add(ops::ReduceMax{}, {x, x.writer().Ints(axes)});
}

// 0, 1, ... as numbers of this type and shape.
Term Numbered(Writer& w, const Sizes& sizes, DLDataType dtype) {
  const Sizes places = Counting(0, Product(sizes));
  return w.Numbers({places.begin(), places.end()}, dtype, sizes);
}

// The points of each bin of each region along one side.
struct Points {
  Term at;        // Where they lie, [regions, bins, points, 1].
  Term is_there;  // Whether there are as many in the bin; same shape.
  Term count;     // In a bin, by region: [regions, 1, 1, 1].
  int64_t bins = 1;
  int64_t most = 1;  // Points for which there is room.
};

// How many points of a bin there must be room for along a side of the map;
// `corner` is the column of the regions' first corner. Points in a bin are as
// many as it has elements, rounded up, if no number is given. They are more
// than half an element apart then, unless there is only one, so that not many
// of them are inside the map.
int64_t RoomFor(Rule& r, size_t corner, int64_t bins, int64_t size) {
  const auto& op = r.As<ops::RoiAlign>();
  if (op.sampling_ratio > 0) return op.sampling_ratio;
  const int64_t inside = 2 * size + 5;
  const NDArray& regions =
      r.writer().network().value(r.operation().inputs[1]).data;
  if (!regions.defined()) return inside;
  const std::vector<double> corners = ToDoubles(regions);
  double most = 1;
  for (size_t i = corner; i + 2 < corners.size(); i += 4) {
    const double length = (corners[i + 2] - corners[i]) * op.spatial_scale;
    // One more for what is rounded otherwise.
    most = std::max(
        most, std::ceil(std::max(length, 1.0) / static_cast<double>(bins)) + 1);
  }
  return most < static_cast<double>(inside) ? static_cast<int64_t>(most)
                                            : inside;
}

// Points outside of the map count nothing, but there may be more than there is
// room for; the first inside of it comes first then.
Points PointsOf(const ops::RoiAlign& op, Term first, Term last, int64_t bins,
                int64_t most) {
  Writer& w = first.writer();
  const DLDataType dtype = first.dtype();
  const bool is_half =
      op.coordinate_transformation_mode == ops::RoiPixels::kHalf;
  const double offset = is_half ? 0.5 : 0;
  const double scale = op.spatial_scale;
  const Term start = first * scale - offset;
  Term length = last * scale - offset - start;
  if (!is_half) length = AtLeast(length, 1);
  const Term bin = length / static_cast<double>(bins);
  const Term begin = start + bin * Numbered(w, {1, bins, 1, 1}, dtype);
  Points points;
  points.bins = bins;
  points.most = most;
  if (op.sampling_ratio > 0) {
    const auto count = static_cast<double>(most);
    points.count = w.Number(count, dtype);
    const Term number = Numbered(w, {1, 1, most, 1}, dtype);
    points.at = begin + (number + 0.5) * bin / count;
    points.is_there = CastTo(w.Filled(1, kFloat32, {1, 1, 1, 1}), kBool);
    return points;
  }
  points.count = AtLeast(Ceil(bin), 0);
  const Term apart =
      Choose(Greater(points.count, 0), bin / AtLeast(points.count, 1), 1.0);
  const Term skipped = AtLeast(Floor((-1.0 - begin) / apart - 0.5), 0);
  const Term number = skipped + Numbered(w, {1, 1, most, 1}, dtype);
  points.at = begin + (number + 0.5) * apart;
  points.is_there = w.Add(ops::Less{}, {number, points.count});
  return points;
}

// How much the elements before and behind each point count.
struct NeighbourWeights {
  Term low;  // [regions, bins, points, size].
  Term high;
};
NeighbourWeights WeightsOf(const Points& points, int64_t size) {
  const Term at = points.at;
  Writer& w = at.writer();
  const auto n = static_cast<double>(size);
  const Term inside = AtMost(AtLeast(at, 0), n - 1);
  const Term low = Floor(inside);
  const Term part = inside - low;
  const Term elements = Numbered(w, {1, 1, 1, size}, at.dtype());
  const Term is_outside = w.Add(ops::Or{}, {Less(at, -1), Greater(at, n)});
  const Term counts = Both(points.is_there, w.Add(ops::Not{}, {is_outside}));
  const auto where = [&](Term element, Term weight) {
    return Choose(Both(counts, IsSame(element, elements)), weight, 0.0);
  };
  return {where(low, 1 - part), where(low + 1, part)};
}

// The mean's weights of the elements, [regions, 1, bins, size].
Term MeanWeights(const Points& points, int64_t size) {
  const NeighbourWeights weights = WeightsOf(points, size);
  const Term sum = SumOver(weights.low + weights.high, {2});
  return Transposed(sum / AtLeast(points.count, 1), {0, 2, 1, 3});
}

// A line of weights for each point and each of its two neighbours, [regions, 1,
// bins * points * 2, size].
Term LineWeights(const Points& points, int64_t size) {
  const NeighbourWeights weights = WeightsOf(points, size);
  const Sizes sizes = weights.low.sizes();
  if (sizes.size() != 4) return weights.low;
  const Sizes single = {sizes[0], points.bins * points.most, 1, size};
  const Term both = points.at.writer().Add(
      ops::Concat{2},
      {ReshapeTo(weights.low, single), ReshapeTo(weights.high, single)});
  return ReshapeTo(both, {sizes[0], 1, points.bins * points.most * 2, size});
}

Term Times3(Term a, Term b, Term c) {
  Writer& w = a.writer();
  return w.Add(ops::MatMul{}, {w.Add(ops::MatMul{}, {a, b}), c});
}

// Whether each of the terms of a bin is there: [regions, 1, bins, terms, 1, 1].
Term TermsThere(const Points& points, int64_t regions) {
  const Sizes room = {regions, points.bins, points.most, 2};
  const Sizes lines = {regions, 1, points.bins, points.most * 2, 1, 1};
  return ReshapeTo(ExpandTo(points.is_there, room), lines);
}

// Whether some of a bin's points have found no room, so that all of them lie
// outside: [regions, 1, bins, 1].
Term HasSkipped(const Points& points, DLDataType dtype) {
  const Term there = SumOver(CastTo(points.is_there, dtype), {2});
  return Transposed(points.at.writer().Add(ops::Less{}, {there, points.count}),
                    {0, 2, 1, 3});
}

// The largest of the terms that the mean is the sum of.
Term LargestTerm(const ops::RoiAlign& op, Term maps, const Points& y,
                 const Points& x) {
  Writer& w = maps.writer();
  const Sizes sizes = maps.sizes();
  if (sizes.size() != 4) return maps;
  const DLDataType dtype = maps.dtype();
  const Term terms = Times3(CastTo(LineWeights(y, sizes[2]), dtype), maps,
                            SwapLast(CastTo(LineWeights(x, sizes[3]), dtype)));
  const Sizes split = {sizes[0],   sizes[1], y.bins,
                       y.most * 2, x.bins,   x.most * 2};
  const Sizes pooled = {sizes[0], sizes[1], y.bins, x.bins};
  const Term by_bin = ReshapeTo(terms, split);
  if (op.sampling_ratio > 0) {
    return ReshapeTo(LargestOver(by_bin, {3, 5}), pooled);
  }
  const Term is_there =
      Both(TermsThere(y, sizes[0]),
           Transposed(TermsThere(x, sizes[0]), {0, 1, 4, 5, 2, 3}));
  const Term best = ReshapeTo(
      LargestOver(Choose(is_there, by_bin, kNothing), {3, 5}), pooled);
  // Points outside are terms of 0, and so is the result if there are no points.
  const Term is_skipped = w.Add(
      ops::Or{},
      {HasSkipped(y, x.at.dtype()), SwapLast(HasSkipped(x, x.at.dtype()))});
  const Term has_none = w.Add(ops::Or{}, {Less(y.count, 1), Less(x.count, 1)});
  return Choose(has_none, 0.0, Choose(is_skipped, AtLeast(best, 0), best));
}

// The map of each region.
Term MapsOf(Rule& r, Term batch) {
  return r.writer().Add(ops::Gather{0}, {r.x(), batch});
}

Terms DefineRoiAlign(Rule& r) {
  const auto& op = r.As<ops::RoiAlign>();
  const Sizes map = r.x().sizes();
  const Sizes rois = r.x(1).sizes();
  if (map.size() != 4 || rois.size() != 2) return {r.x()};
  // Places in short floats would be too coarse.
  const DLDataType dtype = r.x(1).dtype() == kFloat64 ? kFloat64 : kFloat32;
  const Term boxes = CastTo(r.x(1), dtype);
  const auto corner = [&](int64_t i) {
    return ReshapeTo(Part(boxes, 1, i, i + 1), {rois[0], 1, 1, 1});
  };
  const auto points = [&](size_t column, int64_t bins, int64_t size) {
    const auto first = static_cast<int64_t>(column);
    return PointsOf(op, corner(first), corner(first + 2), bins,
                    RoomFor(r, column, bins, size));
  };
  const Points x = points(0, op.output_width, map[3]);
  const Points y = points(1, op.output_height, map[2]);
  const Term maps = MapsOf(r, r.x(2));
  if (op.mode == RoiMode::kMax) return {LargestTerm(op, maps, y, x)};
  const DLDataType of_map = r.x().dtype();
  return {Times3(CastTo(MeanWeights(y, map[2]), of_map), maps,
                 SwapLast(CastTo(MeanWeights(x, map[3]), of_map)))};
}

// Which elements of a side are in each bin: [regions, bins, size]. Boxes are in
// whole elements.
Term InBins(Term first, Term last, int64_t bins, int64_t size) {
  Writer& w = first.writer();
  const DLDataType dtype = first.dtype();
  const Term step = AtLeast(last - first + 1, 1) / static_cast<double>(bins);
  const Term number = Numbered(w, {1, bins, 1}, dtype);
  const auto n = static_cast<double>(size);
  const auto cut = [&](Term at) { return AtMost(AtLeast(at + first, 0), n); };
  const Term begin = cut(Floor(step * number));
  const Term end = cut(Ceil(step * (number + 1)));
  const Term elements = Numbered(w, {1, 1, size}, dtype);
  return Both(w.Add(ops::GreaterOrEqual{}, {elements, begin}),
              w.Add(ops::Less{}, {elements, end}));
}

// The largest of each row first, then of those.
Terms DefineMaxRoiPool(Rule& r) {
  const auto& op = r.As<ops::MaxRoiPool>();
  const Sizes map = r.x().sizes();
  const Sizes rois = r.x(1).sizes();
  if (map.size() != 4 || rois.size() != 2) return {r.x()};
  // The corners are rounded; how, must not depend on other roundings.
  const Term boxes = CastTo(r.x(1), kFloat64);
  const auto column = [&](int64_t i) {
    return ReshapeTo(Part(boxes, 1, i, i + 1), {rois[0], 1, 1});
  };
  const auto corner = [&](int64_t i) {
    const Term at = column(i) * double{op.spatial_scale};
    return Sign(at) * Floor(Abs(at) + 0.5);
  };
  const int64_t rows = op.pooled_shape[0];
  const int64_t columns = op.pooled_shape[1];
  const Term in_row = ReshapeTo(InBins(corner(1), corner(3), columns, map[3]),
                                {rois[0], 1, 1, columns, map[3]});
  const Term in_column = ReshapeTo(InBins(corner(2), corner(4), rows, map[2]),
                                   {rois[0], 1, 1, rows, map[2]});
  const Term maps = MapsOf(r, ReshapeTo(CastTo(column(0), kInt64), {rois[0]}));
  const Term of_rows = LargestOver(
      Choose(in_row, ReshapeTo(maps, {rois[0], map[1], map[2], 1, map[3]}),
             kNothing),
      {4});
  const Term turned = Transposed(of_rows, {0, 1, 3, 4, 2});
  const Term best =
      ReshapeTo(LargestOver(Choose(in_column, turned, kNothing), {4}),
                {rois[0], map[1], columns, rows});
  // A bin without elements is 0.
  const auto is_any = [&](Term in) {
    return LargestOver(CastTo(in, kFloat32), {4});
  };
  const Term has_any = Both(
      Greater(Transposed(ReshapeTo(is_any(in_row), {rois[0], 1, 1, columns}),
                         {0, 1, 3, 2}),
              0.5),
      Greater(ReshapeTo(is_any(in_column), {rois[0], 1, 1, rows}), 0.5));
  return {SwapLast(Choose(has_any, best, 0.0))};
}

// Indices are places in the smallest tensor that pools to the input; in a
// larger one the same element has another place.
Term PlacesIn(Term index, const Sizes& smallest, const Sizes& larger) {
  if (smallest == larger) return index;
  Writer& w = index.writer();
  const auto number = [&](int64_t n) {
    return w.Number(static_cast<double>(n), kInt64);
  };
  Term place = number(0);
  int64_t step = 1;
  Term rest = index;
  for (size_t s = smallest.size(); s-- > 0;) {
    const Term outer = rest / number(smallest[s]);
    place = place + (rest - outer * number(smallest[s])) * number(step);
    rest = outer;
    step *= larger[s];
  }
  return place;
}

void MaxUnpoolRule(Rule& r) {
  const auto& op = r.As<ops::MaxUnpool>();
  const Sizes x = r.x().sizes();
  const Sizes larger = r.dy().sizes();
  const auto window = ResolveWindow(
      {ops::Padding::kNotset, op.kernel_shape, op.strides, {}, op.pads, false},
      static_cast<int>(op.kernel_shape.size()));
  r.writer().Fail(window.status());
  if (!r.writer().status().ok()) return;
  Sizes smallest = x;
  for (size_t s = 0; s < op.kernel_shape.size(); ++s) {
    smallest[s + 2] = (x[s + 2] - 1) * window->strides[s] + window->kernel[s] -
                      window->pads[s] -
                      window->pads[s + op.kernel_shape.size()];
  }
  r.Give(0,
         r.writer().Add(ops::Gather{0}, {Flattened(r.dy()),
                                         PlacesIn(r.x(1), smallest, larger)}));
}

constexpr Row kRoiRows[] = {
    DefinitionOf<ops::MaxRoiPool>(&DefineMaxRoiPool),
    RuleOf<ops::MaxUnpool>(&MaxUnpoolRule),
    DefinitionOf<ops::RoiAlign>(&DefineRoiAlign),
};

}  // namespace

absl::Span<const Row> RoiRows() { return kRoiRows; }

}  // namespace nodewise::gradient
