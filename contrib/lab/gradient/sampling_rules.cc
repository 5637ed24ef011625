#include "contrib/lab/gradient/rules.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/indexing.h"
#include "nodewise/ops/layout.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/sampling.h"
#include "nodewise/ops/unary.h"

// Operators that read images at places between the elements: as weighted sums
// of elements that are gathered. Places have derivatives by the weights.

namespace nodewise::gradient {
namespace {

using ops::Interpolation;
using ops::OutsideRule;
using Sizes = std::vector<int64_t>;
using Terms = std::vector<Term>;

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

// Thrown back at both ends, as often as needed.
Term Mirrored(Term x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return x.writer().Filled(low, x.dtype(), x.sizes());
  const Term from_low = x - low;
  const Term far = Choose(Less(from_low, 0), -from_low, from_low);
  const Term away = far - Floor(far / (2 * range)) * (2 * range);
  return Choose(Greater(away, range), 2 * range - away, away) + low;
}

double LowEnd(const SamplingWay& way) { return way.align_corners ? 0 : -0.5; }

// Where a grid's place lies among `n` elements.
Term AmongElements(Term grid, const SamplingWay& way, int64_t count) {
  const auto n = static_cast<double>(count);
  Term at =
      way.align_corners ? (grid + 1) / 2 * (n - 1) : ((grid + 1) * n - 1) / 2;
  const bool is_nearest = way.mode == Interpolation::kNearest;
  if (is_nearest) at = at.writer().Add(ops::Round{}, {at});
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
struct PlaceTaps {
  Term index;
  Term weight;
};

PlaceTaps TapsOf(Term at, const SamplingWay& way, int64_t count) {
  Writer& w = at.writer();
  const Term base = Floor(at);
  const Term part = at - base;
  std::vector<double> steps = {0};
  PlaceTaps taps{base, w.Filled(1, at.dtype(), at.sizes())};
  if (way.mode == Interpolation::kLinear) {
    steps = {0, 1};
    taps.weight = w.Add(ops::Concat{2}, {1 - part, part});
  } else if (way.mode == Interpolation::kCubic) {
    steps = {-1, 0, 1, 2};
    taps.weight = w.Add(ops::Concat{2}, CubicWeights(part));
  }
  const auto n = static_cast<double>(count);
  Term element =
      base + w.Numbers(steps, at.dtype(), {static_cast<int64_t>(steps.size())});
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

// The taps along one more side, for all that there are along those before it.
PlaceTaps Crossed(const PlaceTaps& outer, const PlaceTaps& inner,
                  int64_t side) {
  const Sizes a = outer.weight.sizes();
  const Sizes b = inner.weight.sizes();
  if (a.size() != 3 || b.size() != 3) return outer;
  const Sizes left = {a[0], a[1], a[2], 1};
  const Sizes right = {b[0], b[1], 1, b[2]};
  const Sizes both = {a[0], a[1], a[2] * b[2]};
  const Term step =
      outer.index.writer().Number(static_cast<double>(side), kInt64);
  return {
      ReshapeTo(
          ReshapeTo(outer.index * step, left) + ReshapeTo(inner.index, right),
          both),
      ReshapeTo(ReshapeTo(outer.weight, left) * ReshapeTo(inner.weight, right),
                both)};
}

// Reads images, [batch, channels, sides...], at places, one tensor of [batch,
// places, 1] for each side. Returns [batch, places, channels].
Term SampledAt(Term images, const Terms& places, const SamplingWay& way) {
  Writer& w = images.writer();
  const Sizes sizes = images.sizes();
  if (sizes.size() < 3) return images;
  PlaceTaps taps = TapsOf(places[0], way, sizes[2]);
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
  const Term index = taps.index + ReshapeTo(w.Ints(first), {sizes[0], 1, 1});
  const Term read = w.Add(ops::Gather{0}, {rows, index});
  const Term weights = ReshapeTo(CastTo(taps.weight, images.dtype()),
                                 {found[0], found[1], 1, found[2]});
  return ReshapeTo(w.Add(ops::MatMul{}, {weights, read}),
                   {found[0], found[1], sizes[1]});
}

Terms DefineGridSample(Rule& r, const SamplingWay& way) {
  const Sizes x = r.x().sizes();
  const Sizes y = r.y().sizes();
  if (y.size() < 3 || !r.writer().status().ok()) return {r.x()};
  const int64_t sides = static_cast<int64_t>(x.size()) - 2;
  const int64_t count = Product(absl::MakeConstSpan(y).subspan(2));
  const Term grid =
      ReshapeTo(CastTo(r.x(1), PlaceType(r.x(1))), {y[0], count, sides});
  Terms places;
  for (int64_t side = 0; side < sides; ++side) {
    // Places name the innermost side first.
    const int64_t at = sides - 1 - side;
    places.push_back(AmongElements(Part(grid, 2, at, at + 1), way,
                                   x[static_cast<size_t>(side) + 2]));
  }
  return {ReshapeTo(Transposed(SampledAt(r.x(), places, way), {0, 2, 1}), y)};
}

Terms DefineGridSample16(Rule& r) {
  using ops::PlaneInterpolation;
  const auto& op = r.As<ops::GridSample16>();
  const Interpolation mode =
      op.mode == PlaneInterpolation::kNearest    ? Interpolation::kNearest
      : op.mode == PlaneInterpolation::kBilinear ? Interpolation::kLinear
                                                 : Interpolation::kCubic;
  return DefineGridSample(r, {mode, op.padding_mode, op.align_corners});
}

// Where a grid's element lies along a side, from -1 to 1.
double GridPlace(int64_t i, int64_t size, bool align_corners) {
  const auto n = static_cast<double>(size);
  const auto at = static_cast<double>(i);
  if (!align_corners) return (2 * at + 1) / n - 1;
  return size == 1 ? 0 : 2 * at / (n - 1) - 1;
}

// All places, each with a 1 behind it, multiplied with the matrix.
Terms DefineAffineGrid(Rule& r) {
  const bool align_corners = r.As<ops::AffineGrid>().align_corners;
  const Sizes y = r.y().sizes();
  if (y.size() < 3 || !r.writer().status().ok()) return {r.x()};
  const Sizes sides(y.begin() + 1, y.end() - 1);
  const size_t rank = sides.size();
  const int64_t count = Product(sides);
  std::vector<double> places;
  for (int64_t place = 0; place < count; ++place) {
    std::vector<double> at(rank + 1, 1);
    int64_t rest = place;
    for (size_t side = rank; side-- > 0; rest /= sides[side]) {
      at[rank - 1 - side] =
          GridPlace(rest % sides[side], sides[side], align_corners);
    }
    places.insert(places.end(), at.begin(), at.end());
  }
  Writer& w = r.writer();
  const Term matrix =
      w.Numbers(places, r.x().dtype(), {count, static_cast<int64_t>(rank) + 1});
  return {ReshapeTo(w.Add(ops::MatMul{}, {matrix, SwapLast(r.x())}), y)};
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
Terms DefineDeformConv(Rule& r) {
  const auto& op = r.As<ops::DeformConv>();
  Writer& w = r.writer();
  const Sizes x = r.x().sizes();
  const Sizes weights = r.x(1).sizes();
  const Sizes y = r.y().sizes();
  if (!w.status().ok()) return {r.x()};
  const Sizes kernel(weights.begin() + 2, weights.end());
  const Sizes output(y.begin() + 2, y.end());
  const auto window = ResolveWindow(
      {ops::Padding::kNotset, kernel, op.strides, op.dilations, op.pads, false},
      static_cast<int>(kernel.size()));
  w.Fail(window.status());
  if (!window.ok()) return {r.x()};
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
        w.Numbers(TapPlaces(*window, output, static_cast<size_t>(side)),
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
  Term made = ReshapeTo(w.Add(ops::MatMul{}, {by_group, columns}), y);
  Sizes line(y.size(), 1);
  line[1] = weights[0];
  if (r.has(3)) made = made + ReshapeTo(r.x(3), line);
  return {made};
}

constexpr Row kSamplingRows[] = {
    DefinitionOf<ops::AffineGrid>(&DefineAffineGrid),
    DefinitionOf<ops::DeformConv>(&DefineDeformConv),
    DefinitionOf<ops::GridSample>([](Rule& r) {
      const auto& op = r.As<ops::GridSample>();
      return DefineGridSample(r, {op.mode, op.padding_mode, op.align_corners});
    }),
    DefinitionOf<ops::GridSample16>(&DefineGridSample16),
};

}  // namespace

absl::Span<const Row> SamplingRows() { return kSamplingRows; }

}  // namespace nodewise::gradient
