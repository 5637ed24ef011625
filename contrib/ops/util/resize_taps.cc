#include "contrib/ops/util/resize_taps.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

using ops::CoordinateRule;
using ops::Interpolation;
using ops::NearestRule;

// T is the type in which a kernel calculates places.
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

// The weight of an element this far away.
double KernelAt(const ResizeRule& rule, double distance) {
  const double x = std::fabs(distance);
  if (rule.mode == Interpolation::kLinear) return std::max(0.0, 1 - x);
  const double a = rule.cubic_coeff_a;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

void AddTap(double index, double weight, int64_t in, Taps* taps) {
  const double most = static_cast<double>(in - 1);
  taps->index.push_back(
      static_cast<int64_t>(std::clamp(index, 0.0, std::max(0.0, most))));
  taps->weight.push_back(weight);
}

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
  if (sum == 0) {
    AddTap(std::round(at), 1, side.in, taps);
    return;
  }
  for (size_t i = first; i < taps->weight.size(); ++i) taps->weight[i] /= sum;
}

bool IsSame(const ResizedSide& side, const Taps& taps) {
  if (side.in != side.out || !taps.is_outside.empty()) return false;
  for (size_t i = 0; i < taps.at.size(); ++i) {
    if (taps.at[i] != static_cast<double>(i)) return false;
  }
  return true;
}

// to = from with one side replaced, each new element f(taps of it).
template <typename T, typename F>
std::vector<T> AlongSide(const std::vector<T>& from, const AxisSplit& split,
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
  return AlongSide(
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
// the element type too.
double WeightSlack(const ResizeRule& rule, double at, double u) {
  const double steep = rule.mode == Interpolation::kLinear ? 1 : 2;
  return 8 * u * steep * (std::fabs(at) + 1);
}

struct TapWalk {
  const ResizeRule& rule;
  const std::vector<Taps>& taps;
  const std::vector<ResizedSide>& sides;
  std::vector<int64_t> shape;
};

// All sides, one after the other.
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

// Fills in what lies outside the input, for tf_crop_and_resize.
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

// Nearest elements are moved as they are.
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
      values =
          AlongSide(values, split, out,
                    [&](int64_t o, const T* plane, int64_t inner, T* to) {
                      std::copy_n(plane + index[static_cast<size_t>(o)] * inner,
                                  inner, to);
                    });
      shape[side] = out;
    }
    std::copy(values.begin(), values.end(), y.As<T>());
    return absl::OkStatus();
  });
}

// For each element along a side of the output, those of the input that kernels
// may take for the nearest. Close to a tie the place falls to either side, by
// the type and the order in which a kernel calculates; ONNX says neither.
using Choices = std::vector<std::vector<int64_t>>;

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
      if (std::count(here.begin(), here.end(), other.index[0]) == 0) {
        here.push_back(other.index[0]);
      }
    }
    choices.push_back(std::move(here));
  }
  return choices;
}

// Returns the elements of the input that element `at` of the output may be.
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

// The bound of an element is how far those are off that a kernel may take
// instead. REQUIRES: all bounds are 0.
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
    open += std::any_of(choices.back().begin(), choices.back().end(),
                        [](const auto& here) { return here.size() > 1; })
                ? 1
                : 0;
  }
  if (open == 0) return;
  if (open > kMostSides) {
    bounds->proved.assign(bounds->proved.size(),
                          std::numeric_limits<double>::quiet_NaN());
    bounds->expected = bounds->proved;
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

}  // namespace

void CubicWeights(double ratio, double a, double weights[4]) {
  ResizeRule rule;
  rule.mode = Interpolation::kCubic;
  rule.cubic_coeff_a = a;
  for (int i = 0; i < 4; ++i) weights[i] = KernelAt(rule, i - 1 - ratio);
}

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
  if (bounds != nullptr) bounds->proved.assign(count, 0);
  if (bounds != nullptr) bounds->expected = bounds->proved;
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

}  // namespace nodewise
