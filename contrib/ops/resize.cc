#include "nodewise/ops/resize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/resize_taps.h"
#include "contrib/ops/util/sum_bounds.h"
#include "contrib/ops/util/tensor_moves.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {

using ops::AspectRatio;
using ops::CoordinateRule;
using ops::Interpolation;
using ops::NearestRule;
template <>
struct Words<NearestRule> {
  static constexpr std::pair<NearestRule, std::string_view> kAll[] = {
      {NearestRule::kPreferFloor, "round_prefer_floor"},
      {NearestRule::kPreferCeil, "round_prefer_ceil"},
      {NearestRule::kFloor, "floor"},
      {NearestRule::kCeil, "ceil"}};
};
template <>
struct Words<CoordinateRule> {
  static constexpr std::pair<CoordinateRule, std::string_view> kAll[] = {
      {CoordinateRule::kHalfPixel, "half_pixel"},
      {CoordinateRule::kHalfPixelSymmetric, "half_pixel_symmetric"},
      {CoordinateRule::kPytorchHalfPixel, "pytorch_half_pixel"},
      {CoordinateRule::kAlignCorners, "align_corners"},
      {CoordinateRule::kAsymmetric, "asymmetric"},
      {CoordinateRule::kTfHalfPixelForNn, "tf_half_pixel_for_nn"},
      {CoordinateRule::kTfCropAndResize, "tf_crop_and_resize"}};
};
template <>
struct Words<AspectRatio> {
  static constexpr std::pair<AspectRatio, std::string_view> kAll[] = {
      {AspectRatio::kStretch, "stretch"},
      {AspectRatio::kNotLarger, "not_larger"},
      {AspectRatio::kNotSmaller, "not_smaller"}};
};

namespace {

// Resizing handles one side after the other: every element along a side of the
// output is a weighted sum of a few along that side of the input, its taps. For
// the nearest element that is one tap of weight 1, and elements are moved as
// they are, of any type. Which elements are near depends on places that
// kernels calculate in float32, so bounds ask what else a kernel may take.

struct ResizeRule {
  ops::Interpolation mode = ops::Interpolation::kNearest;
  // None: up for shrinking, down for growing.
  std::optional<ops::NearestRule> nearest = ops::NearestRule::kPreferFloor;
  ops::CoordinateRule coordinates = ops::CoordinateRule::kHalfPixel;
  double cubic_coeff_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
  double extrapolation_value = 0;
};

// One side. `length` is the length of the output before it is cut down to an
// integer. ONNX calculates places with the length as scale times size gives it,
// fraction and all, while the output has a whole number of elements.
struct ResizedSide {
  int64_t in = 0;
  int64_t out = 0;
  double scale = 1;
  double length = 0;
  double roi_begin = 0;
  double roi_end = 1;
};

using Taps = ops::SideTaps;

// T is the type in which a kernel calculates places. The names and formulas of
// the rules are ONNX's. Where a side has one element, those that divide by its
// length less one would divide by 0.
template <typename T>
T CoordinateOf(CoordinateRule rule, const ResizedSide& side, T x) {
  const auto in = static_cast<T>(side.in);
  const auto scale = static_cast<T>(side.scale);
  const auto length = static_cast<T>(side.length);
  const auto half = static_cast<T>(0.5);
  switch (rule) {
    case CoordinateRule::kHalfPixel:
      return (x + half) / scale - half;
    case CoordinateRule::kHalfPixelSymmetric: {
      const T adjustment = static_cast<T>(side.out) / length;
      return in / 2 * (1 - adjustment) + (x + half) / scale - half;
    }
    case CoordinateRule::kPytorchHalfPixel:
      return length > 1 ? (x + half) / scale - half : 0;
    case CoordinateRule::kAlignCorners:
      return length == 1 ? 0 : x * (in - 1) / (length - 1);
    case CoordinateRule::kAsymmetric:
      return x / scale;
    case CoordinateRule::kTfHalfPixelForNn:
      return (x + half) / scale;
    case CoordinateRule::kTfCropAndResize:
      break;
  }
  const auto begin = static_cast<T>(side.roi_begin);
  const auto end = static_cast<T>(side.roi_end);
  if (length > 1) {
    return begin * (in - 1) + x * (end - begin) * (in - 1) / (length - 1);
  }
  return half * (begin + end) * (in - 1);
}

// Calculates as kernels do that multiply by the inverse of the scale.
float CoordinateByInverse(CoordinateRule rule, const ResizedSide& side,
                          float x) {
  const float inverse =
      side.length == static_cast<double>(side.out)
          ? static_cast<float>(side.in) / static_cast<float>(side.out)
          : 1 / static_cast<float>(side.scale);
  if (!(side.length > 1)) return CoordinateOf<float>(rule, side, x);
  switch (rule) {
    case CoordinateRule::kHalfPixel:
    case CoordinateRule::kPytorchHalfPixel:
      return (x + 0.5F) * inverse - 0.5F;
    case CoordinateRule::kAsymmetric:
      return x * inverse;
    case CoordinateRule::kTfHalfPixelForNn:
      return (x + 0.5F) * inverse;
    default:
      return CoordinateOf<float>(rule, side, x);
  }
}

// Opset 10 had no rule: it rounded towards more of the image, up where a side
// shrinks and down where it grows.
double NearestOf(std::optional<NearestRule> rule, double at,
                 bool is_shrinking) {
  if (!rule.has_value()) return is_shrinking ? std::ceil(at) : std::floor(at);
  switch (*rule) {
    case NearestRule::kPreferFloor:
      return std::ceil(at - 0.5);
    case NearestRule::kPreferCeil:
      return std::floor(at + 0.5);
    case NearestRule::kFloor:
      return std::floor(at);
    case NearestRule::kCeil:
      break;
  }
  return std::ceil(at);
}

// The weight of an element this far away. The cubic kernel is that of Keys,
// with the parameter a; its two pieces meet at 1 and end at 2.
double KernelAt(const ResizeRule& rule, double distance) {
  const double x = std::fabs(distance);
  if (rule.mode == Interpolation::kLinear) return std::max(0.0, 1 - x);
  const double a = rule.cubic_coeff_a;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// Elements beyond the ends are those at the ends.
void AddTap(double index, double weight, int64_t in, Taps* taps) {
  const double most = static_cast<double>(in - 1);
  taps->index.push_back(
      static_cast<int64_t>(std::clamp(index, 0.0, std::max(0.0, most))));
  taps->weight.push_back(weight);
}

// Weights are divided by their sum, which is 1 but for roundings unless some of
// them were left out.
void AddKernel(const ResizeRule& rule, const ResizedSide& side, double at,
               Taps* taps) {
  // When shrinking, the kernel is stretched over all that one element stands
  // for.
  const double stretch = rule.antialias ? std::min(side.scale, 1.0) : 1.0;
  const double reach =
      (rule.mode == Interpolation::kLinear ? 1.0 : 2.0) / stretch;
  const auto in = static_cast<double>(side.in);
  // Elements beyond the ends equal those at the ends; far out all of them do.
  const double low = std::max(std::ceil(at - reach), -reach - 1);
  const double high = std::min(std::floor(at + reach), in + reach + 1);
  const size_t first = taps->weight.size();
  double sum = 0;
  for (double i = low; i <= high; ++i) {
    double weight = KernelAt(rule, (i - at) * stretch);
    if (rule.exclude_outside && (i < 0 || i >= in)) weight = 0;
    AddTap(i, weight, side.in, taps);
    sum += weight;
  }
  // Nothing of the kernel lies inside: the nearest element stands in for it.
  if (sum == 0) {
    AddTap(std::round(at), 1, side.in, taps);
    return;
  }
  for (size_t i = first; i < taps->weight.size(); ++i) taps->weight[i] /= sum;
}

// Sides that stay are skipped, mostly batch and channels.
bool IsSame(const ResizedSide& side, const Taps& taps) {
  if (side.in != side.out || !taps.is_outside.empty()) return false;
  for (size_t i = 0; i < taps.at.size(); ++i) {
    if (taps.at[i] != static_cast<double>(i)) return false;
  }
  return true;
}

// to = from with one side replaced, each new element f(taps of it). Rows of
// neighbours are handled together, which for all sides but the last makes the
// inner loop long.
template <typename T, typename F>
std::vector<T> MapAlongSide(const std::vector<T>& from, const AxisSplit& split,
                            int64_t out, F f) {
  std::vector<T> to(static_cast<size_t>(split.outer * out * split.inner));
  ParallelFor(split.outer * out, 4 * static_cast<double>(split.inner) + 4,
              [&](int64_t begin, int64_t end) {
                for (int64_t row = begin; row < end; ++row) {
                  const T* const plane =
                      from.data() + row / out * split.size * split.inner;
                  f(row % out, plane, split.inner,
                    to.data() + row * split.inner);
                }
              });
  return to;
}

// Sums with the weights that `weight_of(tap, output element)` gives.
template <typename F>
std::vector<double> Summed(const std::vector<double>& from,
                           const AxisSplit& split, const Taps& taps,
                           F weight_of) {
  const auto out = static_cast<int64_t>(taps.at.size());
  return MapAlongSide(
      from, split, out,
      [&](int64_t o, const double* plane, int64_t inner, double* to) {
        std::fill(to, to + inner, 0.0);
        const auto element = static_cast<size_t>(o);
        for (size_t t = taps.begin[element]; t < taps.begin[element + 1]; ++t) {
          const double weight = weight_of(t, element);
          // Infinities with a weight of 0 must not become NaN.
          if (weight == 0) continue;
          const double* const row = plane + taps.index[t] * inner;
          for (int64_t i = 0; i < inner; ++i) to[i] += weight * row[i];
        }
      });
}

// How far a weight may be off, since a kernel calculates places and weights in
// the element type too. A place is off by a few roundings of its own size, and
// the kernel changes by at most 1 or 2 between neighbours.
double WeightSlack(const ResizeRule& rule, double at, double u) {
  const double steep = rule.mode == Interpolation::kLinear ? 1 : 2;
  return 8 * u * steep * (std::fabs(at) + 1);
}

// Summing up side by side reads each element once a side, where all taps of all
// sides together would be their product.
struct TapWalk {
  const ResizeRule& rule;
  const std::vector<Taps>& taps;
  const std::vector<ResizedSide>& sides;
  std::vector<int64_t> shape;
};

template <typename F>
std::vector<double> SummedAlong(TapWalk walk, std::vector<double> values,
                                F weight_of) {
  for (size_t side = 0; side < walk.sides.size(); ++side) {
    if (IsSame(walk.sides[side], walk.taps[side])) continue;
    const Taps& taps = walk.taps[side];
    const AxisSplit split = SplitAt(walk.shape, static_cast<int>(side));
    values = Summed(values, split, taps, [&](size_t tap, size_t element) {
      return weight_of(taps, tap, element);
    });
    walk.shape[side] = walk.sides[side].out;
  }
  return values;
}

// Two more passes over the sides: with the sizes of the weights, and with those
// sizes plus how far each may be off. Their difference is the effect of wrong
// weights, the rest roundings.
void WriteBounds(const TapWalk& walk, std::vector<double> values,
                 DLDataType dtype, Bounds* bounds) {
  for (double& value : values) value = std::fabs(value);
  const double u = UnitRoundoff(dtype);
  size_t most = 0;
  for (const Taps& taps : walk.taps) {
    for (size_t i = 0; i < taps.at.size(); ++i) {
      most = std::max(most, taps.begin[i + 1] - taps.begin[i]);
    }
  }
  const std::vector<double> sums =
      SummedAlong(walk, values, [](const Taps& taps, size_t tap, size_t) {
        return std::fabs(taps.weight[tap]);
      });
  bounds->proved = SummedAlong(
      walk, values, [&](const Taps& taps, size_t tap, size_t element) {
        return std::fabs(taps.weight[tap]) +
               WeightSlack(walk.rule, taps.at[element], u);
      });
  const double steps = static_cast<double>(most * walk.taps.size() + 1);
  // Results of integer types are cut off, and may fall to either side of an
  // integer.
  const double step = IsFloat(dtype) ? 0 : 1;
  for (size_t i = 0; i < sums.size(); ++i) {
    double& bound = bounds->proved[i];
    bound = bound - sums[i] + steps * u * bound + step;
  }
}

// Fills in what lies outside the input, for tf_crop_and_resize. One side
// outside is enough for an element to be outside.
void Extrapolate(const TapWalk& walk, double value,
                 absl::Span<const int64_t> out, std::vector<double>* values,
                 Bounds* bounds) {
  const std::vector<int64_t> strides = StridesOf(out);
  for (size_t side = 0; side < walk.taps.size(); ++side) {
    const std::vector<bool>& is_outside = walk.taps[side].is_outside;
    if (is_outside.empty()) continue;
    for (size_t i = 0; i < values->size(); ++i) {
      const auto at = static_cast<int64_t>(i) / strides[side] % out[side];
      if (!is_outside[static_cast<size_t>(at)]) continue;
      (*values)[i] = value;
      if (bounds != nullptr) bounds->proved[i] = 0;
    }
  }
}

// Elements are moved by their size alone, so that types which nothing
// calculates with can be resized as well.
absl::Status MoveNearest(const std::vector<Taps>& taps, const NDArray& x,
                         const NDArray& y) {
  return WithSize(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::vector<int64_t> shape(x.shape().begin(), x.shape().end());
    std::vector<T> values(x.As<T>(), x.As<T>() + CountOf(x));
    for (size_t side = 0; side < taps.size(); ++side) {
      const std::vector<int64_t>& index = taps[side].index;
      const auto out = static_cast<int64_t>(index.size());
      const AxisSplit split = SplitAt(shape, static_cast<int>(side));
      values = MapAlongSide(
          values, split, out,
          [&](int64_t o, const T* plane, int64_t inner, T* to) {
            std::copy_n(plane + index[static_cast<size_t>(o)] * inner, inner,
                        to);
          });
      shape[side] = out;
    }
    std::copy(values.begin(), values.end(), y.As<T>());
  });
}

// For each element along a side of the output, those of the input that kernels
// may take for the nearest. Close to a tie the place falls to either side, by
// the type and the order in which a kernel calculates; ONNX says neither.
using Choices = std::vector<std::vector<int64_t>>;

// The element of the reference comes first in each list.
Choices ChoicesOf(const ResizeRule& rule, const ResizedSide& side,
                  const Taps& taps) {
  Choices choices;
  for (int64_t o = 0; o < side.out; ++o) {
    std::vector<int64_t> here = {taps.index[static_cast<size_t>(o)]};
    const auto x = static_cast<float>(o);
    for (const float at : {CoordinateOf<float>(rule.coordinates, side, x),
                           CoordinateByInverse(rule.coordinates, side, x)}) {
      if (!std::isfinite(at)) continue;
      Taps other;
      AddTap(NearestOf(rule.nearest, static_cast<double>(at), side.scale < 1),
             1, side.in, &other);
      if (std::ranges::find(here, other.index[0]) == here.end()) {
        here.push_back(other.index[0]);
      }
    }
    choices.push_back(std::move(here));
  }
  return choices;
}

// Returns the elements of the input that element `at` of the output may be.
// Each side chooses by itself, so all combinations are possible.
std::vector<int64_t> ElementsAt(const std::vector<Choices>& choices,
                                absl::Span<const int64_t> in_strides,
                                absl::Span<const int64_t> out_strides,
                                int64_t at) {
  std::vector<int64_t> elements = {0};
  for (size_t side = 0; side < choices.size(); ++side) {
    const auto place = static_cast<size_t>(at / out_strides[side]);
    at %= out_strides[side];
    std::vector<int64_t> more;
    for (const int64_t element : elements) {
      for (const int64_t choice : choices[side][place]) {
        more.push_back(element + choice * in_strides[side]);
      }
    }
    elements = std::move(more);
  }
  return elements;
}

// The bound of an element is its distance from the furthest of those that a
// kernel may take instead. REQUIRES: all bounds are 0.
void BoundByNeighbours(const ResizeRule& rule,
                       const std::vector<ResizedSide>& sides,
                       const std::vector<Taps>& taps, const NDArray& x,
                       const NDArray& y, Bounds* bounds) {
  // A few sides are resized; more than that would take too long.
  constexpr size_t kMostSides = 4;
  std::vector<Choices> choices;
  size_t open = 0;
  for (size_t side = 0; side < sides.size(); ++side) {
    choices.push_back(ChoicesOf(rule, sides[side], taps[side]));
    open +=
        std::ranges::any_of(choices.back(),
                            [](const auto& here) { return here.size() > 1; })
            ? 1
            : 0;
  }
  if (open == 0) return;
  if (open > kMostSides) {
    SetAllBounds(CountOf(y), kUnknownError, bounds);
    return;
  }
  const std::vector<double> from = ToDoubles(x);
  const std::vector<int64_t> in_strides = StridesOf(x.shape());
  const std::vector<int64_t> out_strides = StridesOf(y.shape());
  for (size_t i = 0; i < bounds->proved.size(); ++i) {
    const std::vector<int64_t> elements =
        ElementsAt(choices, in_strides, out_strides, static_cast<int64_t>(i));
    const double taken = from[static_cast<size_t>(elements[0])];
    for (const int64_t element : elements) {
      const double other = from[static_cast<size_t>(element)];
      if (other == taken) continue;
      bounds->proved[i] = std::max(bounds->proved[i], std::fabs(other - taken));
    }
  }
  bounds->expected = bounds->proved;
}

// A place that is not finite, which a region of NaN makes, is treated as the
// first element.
Taps MakeTaps(const ResizeRule& rule, const ResizedSide& side) {
  Taps taps;
  bool is_any_outside = false;
  for (int64_t o = 0; o < side.out; ++o) {
    const double at =
        CoordinateOf<double>(rule.coordinates, side, static_cast<double>(o));
    taps.begin.push_back(taps.index.size());
    taps.at.push_back(at);
    const bool is_outside =
        rule.coordinates == CoordinateRule::kTfCropAndResize &&
        !(at >= 0 && at <= static_cast<double>(side.in - 1));
    taps.is_outside.push_back(is_outside);
    is_any_outside |= is_outside;
    if (rule.mode == Interpolation::kNearest || !std::isfinite(at)) {
      const double nearest = NearestOf(rule.nearest, at, side.scale < 1);
      AddTap(std::isnan(nearest) ? 0 : nearest, 1, side.in, &taps);
    } else {
      AddKernel(rule, side, at, &taps);
    }
  }
  taps.begin.push_back(taps.index.size());
  if (!is_any_outside) taps.is_outside.clear();
  return taps;
}

absl::Status ResizeSides(const ResizeRule& rule,
                         const std::vector<ResizedSide>& sides,
                         EvalArgs& args) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
  const NDArray& x = args.in(0);
  Bounds* const bounds = args.bounds(0);
  const auto count = static_cast<size_t>(CountOf(y));
  SetAllBounds(CountOf(y), 0, bounds);
  if (count == 0) return absl::OkStatus();
  if (CountOf(x) == 0) return InputError(0, "is empty, but the output is not");
  std::vector<Taps> taps;
  bool is_extrapolated = false;
  for (const ResizedSide& side : sides) {
    taps.push_back(MakeTaps(rule, side));
    is_extrapolated |= !taps.back().is_outside.empty();
  }
  if (rule.mode == Interpolation::kNearest && !is_extrapolated) {
    if (bounds != nullptr) BoundByNeighbours(rule, sides, taps, x, y, bounds);
    return MoveNearest(taps, x, y);
  }
  const TapWalk walk{rule, taps, sides, {x.shape().begin(), x.shape().end()}};
  const std::vector<double> from = ToDoubles(x);
  std::vector<double> values =
      SummedAlong(walk, from, [](const Taps& of_side, size_t tap, size_t) {
        return of_side.weight[tap];
      });
  if (bounds != nullptr && rule.mode != Interpolation::kNearest) {
    WriteBounds(walk, from, y.dtype(), bounds);
  }
  Extrapolate(walk, rule.extrapolation_value, y.shape(), &values, bounds);
  StoreDoubles(values.data(), 0, CountOf(y), y);
  if (bounds != nullptr) bounds->expected = bounds->proved;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> LengthOf(double length) {
  constexpr double kMost = 0x1p62;
  if (length >= 0 && length < kMost) return static_cast<int64_t>(length);
  return InvalidArgument("makes a side of {:g} elements", length);
}

// Calculates a side as exporters and shape inference do: the product is a
// float, so that 0.7 of 10 is 7. `share` is the part of the side that a region
// covers.
absl::StatusOr<ResizedSide> ScaledSide(int64_t size, double scale,
                                       double share) {
  if (!(scale > 0)) {
    return InvalidArgument("a scale of {:g}, expected one above 0", scale);
  }
  ResizedSide side{.in = size, .scale = scale};
  const float length = static_cast<float>(size) * static_cast<float>(share) *
                       static_cast<float>(scale);
  side.length = static_cast<double>(length);
  NODEWISE_ASSIGN_OR_RETURN(side.out, LengthOf(std::floor(side.length)));
  return side;
}

ResizedSide SameSide(int64_t size) {
  return {.in = size, .out = size, .length = static_cast<double>(size)};
}

// Sides by scales alone: Upsample, and Resize in opset 10. There is one scale
// for each side of the tensor, batch and channels included.
absl::StatusOr<std::vector<ResizedSide>> ScaledSides(
    absl::Span<const int64_t> shape, absl::Span<const double> numbers) {
  if (numbers.size() != shape.size()) {
    return WrongInput(1, "has {} scales for {} sides", numbers.size(),
                      shape.size());
  }
  std::vector<ResizedSide> sides;
  for (size_t i = 0; i < shape.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(sides.emplace_back(),
                              ScaledSide(shape[i], numbers[i], 1));
  }
  return sides;
}

// Without constant scales only the rank is known. A side that is not known
// stays itself where its scale is 1.
absl::StatusOr<OutputInfos> InferScaled(const Inputs& in) {
  const auto rank = RankOf(in);
  if (!rank.has_value()) return OfInputType(in);
  const NDArray* const scales = in[1].constant;
  if (scales == nullptr) return OfInputType(in, UnknownShape(*rank));
  const std::vector<double> numbers = ToDoubles(*scales);
  if (numbers.size() != static_cast<size_t>(*rank)) {
    return WrongInput(1, "has {} scales for {} sides", numbers.size(), *rank);
  }
  Shape shape = *in.type(0).shape;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!shape[i].is_known()) {
      if (numbers[i] != 1) shape[i] = Dim();
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(const ResizedSide side,
                              ScaledSide(shape[i].size(), numbers[i], 1));
    shape[i] = side.out;
  }
  return CheckedOutput(in.type(0).dtype, std::move(shape));
}

ResizeRule RuleOfScales(Interpolation mode) {
  return {.mode = mode,
          .nearest = std::nullopt,
          .coordinates = CoordinateRule::kAsymmetric};
}

// Code generators ask for the same taps that the reference uses.
std::vector<ops::SideTaps> TapsOfSides(const ResizeRule& rule,
                                       const std::vector<ResizedSide>& sides) {
  std::vector<ops::SideTaps> taps;
  for (const ResizedSide& side : sides) taps.push_back(MakeTaps(rule, side));
  return taps;
}

// The scales were an attribute until opset 9. Cubic interpolation has a
// parameter, which these versions have no attribute for.
template <typename Class>
struct Scaled : Class {
  using Class::mode;
  static constexpr auto Fields() {
    return FieldList(Field<&Class::mode>("mode"));
  }

  absl::Status Check(const Inputs& in) const {
    if (mode == Interpolation::kCubic) {
      return AttributeError("mode", "is cubic, which came with opset 11");
    }
    return All(RequireType(in, 1, kFloat32), RequireRank(in, 1, 1));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return InferScaled(in);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(
        const auto sides, ScaledSides(args.shape(0), ToDoubles(args.in(1))));
    return ResizeSides(RuleOfScales(mode), sides, args);
  }
};

// antialias, axes and keep_aspect_ratio_policy came with opset 18. Inputs that
// are given as empty tensors count as not given: exporters have no other way to
// skip one in the middle.
struct Resize : ops::Resize {
  static constexpr auto Fields() {
    return FieldList(
        Field<&Resize::antialias>("antialias"), Field<&Resize::axes>("axes"),
        Field<&Resize::coordinate_transformation_mode>(
            "coordinate_transformation_mode"),
        Field<&Resize::cubic_coeff_a>("cubic_coeff_a"),
        Field<&Resize::exclude_outside>("exclude_outside"),
        Field<&Resize::extrapolation_value>("extrapolation_value"),
        Field<&Resize::keep_aspect_ratio_policy>("keep_aspect_ratio_policy"),
        Field<&Resize::mode>("mode"),
        Field<&Resize::nearest_mode>("nearest_mode"));
  }

  absl::Status Check(const Inputs& in) const {
    return All(RequireFloat(in, 1), RequireType(in, 2, kFloat32),
               RequireType(in, 3, kInt64), RequireRank(in, 1, 1),
               RequireRank(in, 2, 1), RequireRank(in, 3, 1));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const DLDataType dtype = in.type(0).dtype;
    const auto rank = RankOf(in);
    if (!rank.has_value()) return OfInputType(in);
    Shape shape = *in.type(0).shape;
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<int> all,
                              AxesOrAll(axes, *rank));
    const auto sizes = ShapeFromInput(in, 3);
    const bool crops =
        coordinate_transformation_mode == CoordinateRule::kTfCropAndResize;
    const bool is_plain =
        keep_aspect_ratio_policy == AspectRatio::kStretch && !crops;
    // Sizes are the answer, even if those of the data are not known.
    if (is_plain && sizes.has_value() && sizes->size() == all.size() &&
        !all.empty()) {
      for (size_t i = 0; i < all.size(); ++i) {
        shape[static_cast<size_t>(all[i])] = (*sizes)[i];
      }
      return CheckedOutput(dtype, std::move(shape));
    }
    ops::ResizeTargets given;
    if (in[1].constant != nullptr) given.roi = ToDoubles(*in[1].constant);
    if (in[2].constant != nullptr) given.scales = ToDoubles(*in[2].constant);
    if (const auto ints = in.Ints(3)) given.sizes = *ints;
    const bool is_known = (!crops || in[1].constant != nullptr) &&
                          (!in.has(2) || in[2].constant != nullptr) &&
                          (!in.has(3) || in.Ints(3).has_value());
    std::vector<int64_t> known;
    for (const Dim& side : shape) {
      known.push_back(side.is_known() ? side.size() : 1);
    }
    if (!is_known) {
      for (const int axis : all) shape[static_cast<size_t>(axis)] = Dim();
      return OneOutput(dtype, std::move(shape));
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto sides, Sides(known, given));
    // With a ratio kept, each side depends on all others.
    const bool is_static = in.type(0).is_static();
    for (const int axis : all) {
      const auto at = static_cast<size_t>(axis);
      const bool is_told = is_static || (shape[at].is_known() && is_plain);
      const bool stays = is_plain && sides[at].scale == 1;
      if (is_told) {
        shape[at] = sides[at].out;
      } else if (!stays) {
        shape[at] = Dim();
      }
    }
    return CheckedOutput(dtype, std::move(shape));
  }
  ResizeRule Rule() const {
    return {mode,
            nearest_mode,
            coordinate_transformation_mode,
            static_cast<double>(cubic_coeff_a),
            exclude_outside,
            antialias,
            static_cast<double>(extrapolation_value)};
  }
  absl::Status Evaluate(EvalArgs& args) const {
    ops::ResizeTargets given;
    if (args.has(1)) given.roi = ToDoubles(args.in(1));
    if (args.has(2)) given.scales = ToDoubles(args.in(2));
    if (args.has(3)) {
      NODEWISE_ASSIGN_OR_RETURN(given.sizes, args.Ints(3));
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto sides, Sides(args.shape(0), given));
    return ResizeSides(Rule(), sides, args);
  }
  // Either scales or sizes are given, for all axes or for those that an
  // attribute names; the other sides stay. A region cuts each side down before
  // it is scaled.
  absl::StatusOr<std::vector<ResizedSide>> Sides(
      absl::Span<const int64_t> shape, const ops::ResizeTargets& given) const {
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<int> all,
                              AxesOrAll(axes, static_cast<int>(shape.size())));
    if (given.scales.empty() == given.sizes.empty() && !all.empty()) {
      return InvalidArgument("needs either scales or sizes, and not both");
    }
    const size_t count =
        given.sizes.empty() ? given.scales.size() : given.sizes.size();
    if (count != all.size()) {
      return WrongInput(given.sizes.empty() ? 2 : 3,
                        "has {} numbers for {} axes", count, all.size());
    }
    const bool crops =
        coordinate_transformation_mode == CoordinateRule::kTfCropAndResize;
    if (crops && given.roi.size() != 2 * all.size()) {
      return WrongInput(1, "has {} numbers for {} axes", given.roi.size(),
                        all.size());
    }
    std::vector<ResizedSide> sides;
    for (const int64_t size : shape) sides.push_back(SameSide(size));
    for (size_t i = 0; i < all.size(); ++i) {
      ResizedSide& side = sides[static_cast<size_t>(all[i])];
      const double begin = crops ? given.roi[i] : 0;
      const double end = crops ? given.roi[i + all.size()] : 1;
      if (given.sizes.empty()) {
        const auto scaled = ScaledSide(side.in, given.scales[i], end - begin);
        if (!scaled.ok()) {
          return AtInput(2, scaled.status());
        }
        side = *scaled;
      }
      side.roi_begin = begin;
      side.roi_end = end;
    }
    if (!given.sizes.empty()) {
      NODEWISE_RETURN_IF_ERROR(SizedSides(all, given, &sides));
    }
    return sides;
  }

 private:
  // With a ratio to keep, the sizes are limits: one scale is chosen for all
  // axes, the smallest or the largest of those that the sizes ask for.
  absl::Status SizedSides(absl::Span<const int> all,
                          const ops::ResizeTargets& given,
                          std::vector<ResizedSide>* sides) const {
    double scale = 0;
    const bool is_smaller = keep_aspect_ratio_policy == AspectRatio::kNotLarger;
    for (size_t i = 0; i < all.size(); ++i) {
      ResizedSide& side = (*sides)[static_cast<size_t>(all[i])];
      side.out = given.sizes[i];
      if (side.out < 0) return WrongInput(3, "has a size of {}", side.out);
      side.length = static_cast<double>(side.out);
      side.scale =
          side.length / static_cast<double>(std::max<int64_t>(side.in, 1));
      if (i == 0 || (side.scale < scale) == is_smaller) scale = side.scale;
    }
    if (keep_aspect_ratio_policy == AspectRatio::kStretch) {
      return absl::OkStatus();
    }
    for (const int axis : all) {
      ResizedSide& side = (*sides)[static_cast<size_t>(axis)];
      side.scale = scale;
      side.length = scale * static_cast<double>(side.in);
      NODEWISE_ASSIGN_OR_RETURN(side.out,
                                LengthOf(std::floor(side.length + 0.5)));
    }
    return absl::OkStatus();
  }
};

constexpr OperatorDef kResizeRows[] = {
    Row<ops::Upsample, Scaled<ops::Upsample>>({.name = "Upsample",
                                               .since = 7,
                                               .inputs = {"X", "scales"},
                                               .outputs = {"Y"},
                                               .moved = {{"scales", 1, 9}},
                                               .bound = kSum}),
    Row<ops::Resize10, Scaled<ops::Resize10>>("Resize", 10, {"X", "scales"},
                                              {"Y"}, kSum),
    Row<ops::Resize, Resize>(
        "Resize", 11,
        {"X", Optional("roi"), Optional("scales"), Optional("sizes")}, {"Y"},
        kSum),
};

}  // namespace

void CubicWeights(double ratio, double a, double weights[4]) {
  const ResizeRule rule{.mode = Interpolation::kCubic, .cubic_coeff_a = a};
  for (int i = 0; i < 4; ++i) weights[i] = KernelAt(rule, i - 1 - ratio);
}

namespace ops {

absl::StatusOr<std::vector<SideTaps>> TapsOf(const Resize& op,
                                             absl::Span<const int64_t> shape,
                                             const ResizeTargets& targets) {
  nodewise::Resize rules;
  static_cast<Resize&>(rules) = op;
  NODEWISE_ASSIGN_OR_RETURN(const auto sides, rules.Sides(shape, targets));
  return TapsOfSides(rules.Rule(), sides);
}

absl::StatusOr<std::vector<SideTaps>> TapsOfScales(
    Interpolation mode, absl::Span<const int64_t> shape,
    absl::Span<const double> scales) {
  NODEWISE_ASSIGN_OR_RETURN(const auto sides, ScaledSides(shape, scales));
  return TapsOfSides(RuleOfScales(mode), sides);
}

}  // namespace ops

absl::Span<const OperatorDef> ResizeOperators() { return kResizeRows; }

}  // namespace nodewise
