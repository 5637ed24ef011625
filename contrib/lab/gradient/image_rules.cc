#include <algorithm>
#include <cmath>
#include <limits>

#include "contrib/lab/gradient/rules.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/resize.h"
#include "nodewise/ops/roi.h"
#include "nodewise/ops/sampling.h"
#include "nodewise/support/status.h"

// Operators that read images at places between the elements: resizes, samples
// at given places, and pools of regions. All are sums of elements with weights,
// and places have derivatives by the weights.

namespace nodewise::gradient {
namespace {

absl::StatusOr<NDArray> ListOf(double number, DLDataType dtype) {
  NODEWISE_ASSIGN_OR_RETURN(NDArray list, NDArray::Empty({1}, dtype, kCpu));
  StoreDoubles(&number, 0, 1, list);
  return list;
}

// What a Resize does along one side, as a matrix: what it makes of the rows of
// the identity, one by one, since a second side might be moved as well.
// `scale` is 0 where sizes are given.
absl::StatusOr<std::vector<double>> MatrixOf(ops::Resize op, int64_t from,
                                             int64_t to, double scale) {
  op.axes = Sizes{0};
  const OpAttrs attrs =
      OpAttrs::From(AllOperators().FindType(&kTypeTag<ops::Resize>), op);
  Tensors inputs(4);
  if (scale != 0) {
    NODEWISE_ASSIGN_OR_RETURN(inputs[2], ListOf(scale, kFloat32));
  } else {
    NODEWISE_ASSIGN_OR_RETURN(inputs[3],
                              ListOf(static_cast<double>(to), kInt64));
  }
  std::vector<double> matrix(static_cast<size_t>(to * from));
  for (int64_t column = 0; column < from; ++column) {
    NODEWISE_ASSIGN_OR_RETURN(inputs[0],
                              NDArray::Empty({from}, kFloat64, kCpu));
    for (int64_t i = 0; i < from; ++i) {
      inputs[0].As<double>()[i] = i == column ? 1 : 0;
    }
    const bool wanted[] = {true};
    NODEWISE_ASSIGN_OR_RETURN(const auto made, Evaluate(attrs, inputs, wanted));
    for (int64_t row = 0; row < to; ++row) {
      matrix[static_cast<size_t>(row * from + column)] =
          made.outputs[0].As<double>()[row];
    }
  }
  return matrix;
}

// The scales by side, from an input; 0 where sizes are given instead.
std::vector<double> ScalesOf(const Rule& r, size_t input, const ops::Resize& op,
                             size_t rank) {
  std::vector<double> scales(rank, 0);
  if (!r.has(input)) return scales;
  const NDArray& data = r.DataOf(input);
  if (!data.defined()) {
    r.Refuse("unless its scales are constant");
    return scales;
  }
  const std::vector<double> given = ToDoubles(data);
  if (given.empty()) return scales;
  const Sizes axes = op.axes.value_or(Counting(0, static_cast<int64_t>(rank)));
  scales.assign(rank, 1);
  for (size_t i = 0; i < std::min(given.size(), axes.size()); ++i) {
    const int64_t axis = FromFront(axes[i], static_cast<int64_t>(rank));
    scales[static_cast<size_t>(axis)] = given[i];
  }
  return scales;
}

// Multiplies one side after the other by its matrix. For that the sides before
// it are joined to one, and so are those behind it.
Terms BySides(Rule& r, const ops::Resize& op, size_t scales_at) {
  Term y = r.x();
  Writer& w = r.writer;
  const Sizes to = r.y().sizes();
  const std::vector<double> scales = ScalesOf(r, scales_at, op, to.size());
  // With this rule a side that keeps its size does not keep its elements.
  const bool moves_all = op.coordinate_transformation_mode ==
                         ops::CoordinateRule::kTfHalfPixelForNn;
  for (size_t side = 0; side < to.size(); ++side) {
    if (!w.status().ok()) return {y};
    Sizes sizes = y.sizes();
    const int64_t from = sizes[side];
    const bool is_same =
        scales[side] == 1 || (scales[side] == 0 && from == to[side]);
    if (is_same && !moves_all) continue;
    const auto matrix = MatrixOf(op, from, to[side], scales[side]);
    w.Fail(matrix.status());
    if (!matrix.ok()) return {y};
    const Term weights = w.Numbers(*matrix, y.dtype(), {to[side], from});
    const auto all = absl::MakeConstSpan(sizes);
    const Term rows = ReshapeTo(
        y, {Product(all.first(side)), from, Product(all.subspan(side + 1))});
    sizes[side] = to[side];
    y = ReshapeTo(Times(weights, rows), sizes);
  }
  return {y};
}

Terms DefineResize(Rule& r, const ops::Resize& op) {
  if (op.coordinate_transformation_mode ==
      ops::CoordinateRule::kTfCropAndResize) {
    r.Refuse("with a crop");
  }
  if (op.keep_aspect_ratio_policy != ops::AspectRatio::kStretch) {
    r.Refuse("unless it stretches");
  }
  if (!r.writer.status().ok()) return {r.x()};
  return BySides(r, op, 2);
}

// An old name for a Resize, with the rules of its time.
Terms DefineUpsample(Rule& r) {
  ops::Resize op;
  op.mode = r.As<ops::Upsample>().mode;
  op.coordinate_transformation_mode = ops::CoordinateRule::kAsymmetric;
  op.nearest_mode = ops::NearestRule::kFloor;
  return BySides(r, op, 1);
}

using ops::Interpolation;
using ops::OutsideRule;

// DeformConv reads as these defaults say.
struct SamplingWay {
  Interpolation mode = Interpolation::kLinear;
  OutsideRule outside = OutsideRule::kZeros;
  bool align_corners = false;
};

// Places in short floats would be too coarse to say between which elements they
// are.
DLDataType PlaceType(Term x) {
  return x.dtype() == kFloat64 ? kFloat64 : kFloat32;
}

Term Within(Term x, double least, double most) {
  return AtMost(AtLeast(x, least), most);
}

// Places outside are mirrored at both ends, as often as needed.
Term Mirrored(Term x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return x.writer().Filled(low, x.dtype(), x.sizes());
  const Term from_low = x - low;
  const Term far = Choose(Less(from_low, 0), -from_low, from_low);
  const Term away = far - Floor(far / (2 * range)) * (2 * range);
  return Choose(Greater(away, range), 2 * range - away, away) + low;
}

double LowEnd(const SamplingWay& way) { return way.align_corners ? 0 : -0.5; }

Term ElementCoordinate(Term grid, const SamplingWay& way, int64_t count) {
  const auto n = static_cast<double>(count);
  Term at =
      way.align_corners ? (grid + 1) / 2 * (n - 1) : ((grid + 1) * n - 1) / 2;
  if (way.mode == Interpolation::kNearest) at = Apply(ops::Round{}, at);
  // For cubic curves, only the elements read are moved to the border.
  if (way.outside == OutsideRule::kBorder &&
      way.mode != Interpolation::kCubic) {
    return Within(at, 0, n - 1);
  }
  if (way.outside != OutsideRule::kReflection) return at;
  return Mirrored(at, LowEnd(way), n - 1 - LowEnd(way));
}

// The weights of the four elements around places that are `part` after the
// second.
Terms CubicWeights(Term part) {
  // The slope at the neighbours, which ONNX fixes for samples.
  constexpr double kA = -0.75;
  const auto inner = [](Term d) {
    return ((d * (kA + 2) - (kA + 3)) * d) * d + 1;
  };
  const auto outer = [](Term d) {
    return ((d * kA - 5 * kA) * d + 8 * kA) * d - 4 * kA;
  };
  return {outer(part + 1), inner(part), inner(1 - part), outer(2 - part)};
}

// For each place, [batch, places, 1], the elements that it reads and their
// weights, [batch, places, taps] both.
struct Taps {
  Term index, weight;
};

Taps TapsOf(Term at, const SamplingWay& way, int64_t count) {
  const Term base = Floor(at);
  const Term part = at - base;
  std::vector<double> steps = {0};
  Taps taps{base, at.writer().Filled(1, at.dtype(), at.sizes())};
  if (way.mode == Interpolation::kLinear) {
    steps = {0, 1};
    taps.weight = Joined({1 - part, part}, 2);
  } else if (way.mode == Interpolation::kCubic) {
    steps = {-1, 0, 1, 2};
    taps.weight = Joined(CubicWeights(part), 2);
  }
  const auto n = static_cast<double>(count);
  Term element =
      base + at.writer().Numbers(steps, at.dtype(), {std::ssize(steps)});
  if (way.outside == OutsideRule::kZeros) {
    const Term is_inside = Both(Greater(element, -0.5), Less(element, n - 0.5));
    taps.weight = Choose(is_inside, taps.weight, 0.0);
  }
  if (way.outside == OutsideRule::kReflection) {
    element = Mirrored(element, LowEnd(way), n - 1 - LowEnd(way));
  }
  taps.index = CastTo(Within(element, 0, n - 1), kInt64);
  return taps;
}

// Combines each of the taps along the sides before with each of those along one
// more side.
Taps Crossed(const Taps& outer, const Taps& inner, int64_t side) {
  const Sizes a = outer.weight.sizes();
  const Sizes b = inner.weight.sizes();
  if (a.size() != 3 || b.size() != 3) return outer;
  const Sizes left = {a[0], a[1], a[2], 1};
  const Sizes right = {b[0], b[1], 1, b[2]};
  const Sizes both = {a[0], a[1], a[2] * b[2]};
  const Term index = outer.index * outer.index.writer().Int(side);
  return {
      ReshapeTo(ReshapeTo(index, left) + ReshapeTo(inner.index, right), both),
      ReshapeTo(ReshapeTo(outer.weight, left) * ReshapeTo(inner.weight, right),
                both)};
}

// Reads images, [batch, channels, sides...], at places, one tensor of [batch,
// places, 1] for each side. Returns [batch, places, channels].
Term SampledAt(Term images, const Terms& places, const SamplingWay& way) {
  const Sizes sizes = images.sizes();
  if (sizes.size() < 3) return images;
  Taps taps = TapsOf(places[0], way, sizes[2]);
  for (size_t side = 1; side < places.size(); ++side) {
    const int64_t count = sizes[2 + side];
    taps = Crossed(taps, TapsOf(places[side], way, count), count);
  }
  const Sizes found = taps.weight.sizes();
  if (found.size() != 3) return images;
  const int64_t elements = Product(absl::MakeConstSpan(sizes).subspan(2));
  Sizes first;
  for (int64_t i = 0; i < sizes[0]; ++i) first.push_back(i * elements);
  const Term rows = ReshapeTo(
      Transposed(ReshapeTo(images, {sizes[0], sizes[1], elements}), {0, 2, 1}),
      {sizes[0] * elements, sizes[1]});
  const Term index =
      taps.index + ReshapeTo(images.writer().Ints(first), {sizes[0], 1, 1});
  const Term read = Gathered(rows, 0, index);
  const Term weights = ReshapeTo(CastTo(taps.weight, images.dtype()),
                                 {found[0], found[1], 1, found[2]});
  return ReshapeTo(Times(weights, read), {found[0], found[1], sizes[1]});
}

// The modes by their names in opset 16, and by those of today.
Interpolation ModeOf(ops::PlaneInterpolation mode) {
  using Old = ops::PlaneInterpolation;
  return mode == Old::kNearest    ? Interpolation::kNearest
         : mode == Old::kBilinear ? Interpolation::kLinear
                                  : Interpolation::kCubic;
}
Interpolation ModeOf(Interpolation mode) { return mode; }

template <typename Class>
Terms DefineGridSample(Rule& r, const Class& op) {
  const SamplingWay way{ModeOf(op.mode), op.padding_mode, op.align_corners};
  const Sizes x = r.x().sizes();
  const Sizes y = r.y().sizes();
  if (y.size() < 3 || !r.writer.status().ok()) return {r.x()};
  const int64_t sides = static_cast<int64_t>(x.size()) - 2;
  const int64_t count = Product(absl::MakeConstSpan(y).subspan(2));
  const Term grid =
      ReshapeTo(CastTo(r.x(1), PlaceType(r.x(1))), {y[0], count, sides});
  Terms places;
  for (int64_t side = 0; side < sides; ++side) {
    // Places name the innermost side first.
    const int64_t at = sides - 1 - side;
    places.push_back(ElementCoordinate(Part(grid, 2, at, at + 1), way,
                                       x[static_cast<size_t>(side) + 2]));
  }
  return {ReshapeTo(Transposed(SampledAt(r.x(), places, way), {0, 2, 1}), y)};
}

// Where a grid's element lies along a side, from -1 to 1.
double GridPlace(int64_t i, int64_t size, bool align_corners) {
  const auto n = static_cast<double>(size);
  const auto at = static_cast<double>(i);
  if (!align_corners) return (2 * at + 1) / n - 1;
  return size == 1 ? 0 : 2 * at / (n - 1) - 1;
}

// All places, each with a 1 behind it, multiplied with the matrix.
Terms DefineAffineGrid(Rule& r, const ops::AffineGrid& op) {
  const Sizes y = r.y().sizes();
  if (y.size() < 3 || !r.writer.status().ok()) return {r.x()};
  const Sizes sides(y.begin() + 1, y.end() - 1);
  const size_t rank = sides.size();
  const int64_t count = Product(sides);
  std::vector<double> places;
  for (int64_t place = 0; place < count; ++place) {
    std::vector<double> at(rank + 1, 1);
    int64_t rest = place;
    for (size_t side = rank; side-- > 0; rest /= sides[side]) {
      at[rank - 1 - side] =
          GridPlace(rest % sides[side], sides[side], op.align_corners);
    }
    places.insert(places.end(), at.begin(), at.end());
  }
  const Term matrix = r.writer.Numbers(places, r.x().dtype(),
                                       {count, static_cast<int64_t>(rank) + 1});
  return {ReshapeTo(Times(matrix, SwapLast(r.x())), y)};
}

// Where the taps of a window lie along one side without their offsets: for each
// tap the places of all windows.
std::vector<double> TapPlaces(const Window& window, const Sizes& output,
                              size_t side) {
  std::vector<double> at;
  for (int64_t tap = 0; tap < Product(window.kernel); ++tap) {
    for (int64_t place = 0; place < Product(output); ++place) {
      int64_t tap_here = tap;
      int64_t place_here = place;
      for (size_t s = output.size(); s-- > side + 1;) {
        tap_here /= window.kernel[s];
        place_here /= output[s];
      }
      at.push_back(static_cast<double>(
          place_here % output[side] * window.strides[side] - window.pads[side] +
          tap_here % window.kernel[side] * window.dilations[side]));
    }
  }
  return at;
}

// The elements that the taps read, in columns as those of a convolution, and
// the product of the weights and them.
Terms DefineDeformConv(Rule& r, const ops::DeformConv& op) {
  Writer& w = r.writer;
  const Sizes x = r.x().sizes();
  const Sizes weights = r.x(1).sizes();
  const Sizes y = r.y().sizes();
  if (!w.status().ok()) return {r.x()};
  const Sizes kernel(weights.begin() + 2, weights.end());
  const Sizes output(y.begin() + 2, y.end());
  const Window window = Resolved(w, op, kernel, kernel.size());
  if (!w.status().ok()) return {r.x()};
  const int64_t parts = op.offset_group;
  const int64_t batch = x[0] * parts;
  const int64_t taps = Product(kernel);
  const int64_t count = Product(output);
  const auto sides = static_cast<int64_t>(output.size());
  const Term offsets =
      ReshapeTo(CastTo(r.x(2), PlaceType(r.x(2))), {batch, taps, sides, count});
  Terms places;
  for (int64_t side = 0; side < sides; ++side) {
    const Term fixed =
        w.Numbers(TapPlaces(window, output, static_cast<size_t>(side)),
                  offsets.dtype(), {1, taps * count, 1});
    const Term moved =
        ReshapeTo(Part(offsets, 2, side, side + 1), {batch, taps * count, 1});
    places.push_back(fixed + moved);
  }
  Sizes image = {batch, x[1] / parts};
  image.insert(image.end(), x.begin() + 2, x.end());
  Term read = SampledAt(ReshapeTo(r.x(), image), places, SamplingWay());
  if (r.has(4)) read = read * ReshapeTo(r.x(4), {batch, taps * count, 1});
  const Term columns = ReshapeTo(
      Transposed(ReshapeTo(read, {x[0], parts, taps, count, x[1] / parts}),
                 {0, 1, 4, 2, 3}),
      {x[0], op.group, weights[1] * taps, count});
  const Term by_group = ReshapeTo(
      r.x(1), {1, op.group, weights[0] / op.group, weights[1] * taps});
  Term made = ReshapeTo(Times(by_group, columns), y);
  if (r.has(3)) {
    made = made + ReshapeTo(r.x(3), LineAlong(y.size(), 1, weights[0]));
  }
  return {made};
}

constexpr double kNothing = -std::numeric_limits<double>::infinity();

Term Numbered(Writer& w, const Sizes& sizes, DLDataType dtype) {
  const Sizes places = Counting(0, Product(sizes));
  return w.Numbers({places.begin(), places.end()}, dtype, sizes);
}

Term ColumnOf(Term boxes, int64_t i, const Sizes& shape) {
  return ReshapeTo(Part(boxes, 1, i, i + 1), shape);
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
// than half an element apart then, unless there is only one, so that fewer
// than 2 * size + 5 lie between -1 and `size`, where points count.
int64_t RoomFor(const Rule& r, size_t corner, int64_t bins, int64_t size) {
  const auto& op = r.As<ops::RoiAlign>();
  if (op.sampling_ratio > 0) return op.sampling_ratio;
  const int64_t room = 2 * size + 5;
  const NDArray& regions = r.DataOf(1);
  if (!regions.defined()) return room;
  const std::vector<double> corners = ToDoubles(regions);
  double most = 1;
  for (size_t i = corner; i + 2 < corners.size(); i += 4) {
    const double length = (corners[i + 2] - corners[i]) * op.spatial_scale;
    // One more, since a runtime may round the length in another way.
    most = std::max(
        most, std::ceil(std::max(length, 1.0) / static_cast<double>(bins)) + 1);
  }
  return most < static_cast<double>(room) ? static_cast<int64_t>(most) : room;
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
  points.is_there = Less(number, points.count);
  return points;
}

// How much the elements before and behind each point count.
struct NeighbourWeights {
  Term low, high;  // [regions, bins, points, size].
};
NeighbourWeights WeightsOf(const Points& points, int64_t size) {
  const Term at = points.at;
  const auto n = static_cast<double>(size);
  const Term inside = Within(at, 0, n - 1);
  const Term low = Floor(inside);
  const Term part = inside - low;
  const Term elements = Numbered(at.writer(), {1, 1, 1, size}, at.dtype());
  const Term is_outside = Either(Less(at, -1), Greater(at, n));
  const Term counts = Both(points.is_there, Not(is_outside));
  const auto where = [&](Term element, Term weight) {
    return Choose(Both(counts, Equal(element, elements)), weight, 0.0);
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
  const Term both = Joined(
      {ReshapeTo(weights.low, single), ReshapeTo(weights.high, single)}, 2);
  return ReshapeTo(both, {sizes[0], 1, points.bins * points.most * 2, size});
}

Term Weighted(Term of_rows, Term maps, Term of_columns) {
  const DLDataType dtype = maps.dtype();
  return Times(Times(CastTo(of_rows, dtype), maps),
               SwapLast(CastTo(of_columns, dtype)));
}

// Whether each of the terms of a bin is there: [regions, 1, bins, terms, 1, 1].
Term TermPresence(const Points& points, int64_t regions) {
  const Sizes room = {regions, points.bins, points.most, 2};
  const Sizes lines = {regions, 1, points.bins, points.most * 2, 1, 1};
  return ReshapeTo(ExpandTo(points.is_there, room), lines);
}

// Whether some of a bin's points have found no room, so that all of them lie
// outside: [regions, 1, bins, 1].
Term HasSkipped(const Points& points, DLDataType dtype) {
  const Term there = SumOver(CastTo(points.is_there, dtype), {2});
  return Transposed(Less(there, points.count), {0, 2, 1, 3});
}

// The largest of the terms that the mean is the sum of.
Term LargestTerm(const ops::RoiAlign& op, Term maps, const Points& y,
                 const Points& x) {
  const Sizes sizes = maps.sizes();
  if (sizes.size() != 4) return maps;
  const Term terms =
      Weighted(LineWeights(y, sizes[2]), maps, LineWeights(x, sizes[3]));
  const Sizes split = {sizes[0],   sizes[1], y.bins,
                       y.most * 2, x.bins,   x.most * 2};
  const Sizes pooled = {sizes[0], sizes[1], y.bins, x.bins};
  const Term by_bin = ReshapeTo(terms, split);
  if (op.sampling_ratio > 0) {
    return ReshapeTo(MaxOver(by_bin, {3, 5}), pooled);
  }
  const Term is_there =
      Both(TermPresence(y, sizes[0]),
           Transposed(TermPresence(x, sizes[0]), {0, 1, 4, 5, 2, 3}));
  const Term best =
      ReshapeTo(MaxOver(Choose(is_there, by_bin, kNothing), {3, 5}), pooled);
  // Points outside are terms of 0, and so is the result if there are no points.
  const DLDataType dtype = x.at.dtype();
  const Term is_skipped =
      Either(HasSkipped(y, dtype), SwapLast(HasSkipped(x, dtype)));
  const Term has_none = Either(Less(y.count, 1), Less(x.count, 1));
  return Choose(has_none, 0.0, Choose(is_skipped, AtLeast(best, 0), best));
}

Terms DefineRoiAlign(Rule& r, const ops::RoiAlign& op) {
  const Sizes map = r.x().sizes();
  const Sizes rois = r.x(1).sizes();
  if (map.size() != 4 || rois.size() != 2) return {r.x()};
  const Term boxes = CastTo(r.x(1), PlaceType(r.x(1)));
  const Sizes by_region = {rois[0], 1, 1, 1};
  const auto points = [&](int64_t column, int64_t bins, int64_t size) {
    return PointsOf(op, ColumnOf(boxes, column, by_region),
                    ColumnOf(boxes, column + 2, by_region), bins,
                    RoomFor(r, static_cast<size_t>(column), bins, size));
  };
  const Points x = points(0, op.output_width, map[3]);
  const Points y = points(1, op.output_height, map[2]);
  const Term maps = Gathered(r.x(), 0, r.x(2));
  if (op.mode == ops::RoiMode::kMax) return {LargestTerm(op, maps, y, x)};
  return {Weighted(MeanWeights(y, map[2]), maps, MeanWeights(x, map[3]))};
}

// Which elements of a side are in each bin: [regions, bins, size]. Boxes are in
// whole elements.
Term InBins(Term first, Term last, int64_t bins, int64_t size) {
  const DLDataType dtype = first.dtype();
  const Term step = AtLeast(last - first + 1, 1) / static_cast<double>(bins);
  const Term number = Numbered(first.writer(), {1, bins, 1}, dtype);
  const auto n = static_cast<double>(size);
  const auto cut = [&](Term at) { return Within(at + first, 0, n); };
  const Term begin = cut(Floor(step * number));
  const Term end = cut(Ceil(step * (number + 1)));
  const Term elements = Numbered(first.writer(), {1, 1, size}, dtype);
  return Both(Apply(ops::GreaterOrEqual{}, elements, begin),
              Less(elements, end));
}

// Takes the largest of each row first, and then the largest of these.
Terms DefineMaxRoiPool(Rule& r, const ops::MaxRoiPool& op) {
  const Sizes map = r.x().sizes();
  const Sizes rois = r.x(1).sizes();
  if (map.size() != 4 || rois.size() != 2) return {r.x()};
  // The corners are rounded; how, must not depend on other roundings.
  const Term boxes = CastTo(r.x(1), kFloat64);
  const auto corner = [&](int64_t i) {
    const Term at =
        ColumnOf(boxes, i, {rois[0], 1, 1}) * double{op.spatial_scale};
    return Sign(at) * Floor(Abs(at) + 0.5);
  };
  const int64_t rows = op.pooled_shape[0];
  const int64_t columns = op.pooled_shape[1];
  const Term in_row = ReshapeTo(InBins(corner(1), corner(3), columns, map[3]),
                                {rois[0], 1, 1, columns, map[3]});
  const Term in_column = ReshapeTo(InBins(corner(2), corner(4), rows, map[2]),
                                   {rois[0], 1, 1, rows, map[2]});
  const Term batch = CastTo(ColumnOf(boxes, 0, {rois[0]}), kInt64);
  const Term maps = Gathered(r.x(), 0, batch);
  const Term of_rows = MaxOver(
      Choose(in_row, ReshapeTo(maps, {rois[0], map[1], map[2], 1, map[3]}),
             kNothing),
      {4});
  const Term turned = Transposed(of_rows, {0, 1, 3, 4, 2});
  const Term best = ReshapeTo(MaxOver(Choose(in_column, turned, kNothing), {4}),
                              {rois[0], map[1], columns, rows});
  // A bin without elements is 0.
  const auto is_any = [&](Term in) {
    return MaxOver(CastTo(in, kFloat32), {4});
  };
  const Term has_any = Both(
      Greater(Transposed(ReshapeTo(is_any(in_row), {rois[0], 1, 1, columns}),
                         {0, 1, 3, 2}),
              0.5),
      Greater(ReshapeTo(is_any(in_column), {rois[0], 1, 1, rows}), 0.5));
  return {SwapLast(Choose(has_any, best, 0.0))};
}

constexpr Row kImageRows[] = {
    DefinitionOf<ops::AffineGrid, &DefineAffineGrid>(),
    DefinitionOf<ops::DeformConv, &DefineDeformConv>(),
    DefinitionOf<ops::GridSample, &DefineGridSample>(),
    DefinitionOf<ops::GridSample16, &DefineGridSample>(),
    DefinitionOf<ops::MaxRoiPool, &DefineMaxRoiPool>(),
    DefinitionOf<ops::Resize, &DefineResize>(),
    DefinitionOf<ops::RoiAlign, &DefineRoiAlign>(),
    DefinitionOf<ops::Upsample>(&DefineUpsample),
};

}  // namespace

absl::Span<const Row> ImageRows() { return kImageRows; }

}  // namespace nodewise::gradient
