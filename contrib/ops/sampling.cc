#include "nodewise/ops/sampling.h"

#include <algorithm>
#include <cmath>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/resize_taps.h"
#include "contrib/ops/util/sum_bounds.h"
#include "contrib/ops/util/tensor_moves.h"

namespace nodewise {

using ops::Interpolation;
using ops::OutsideRule;
using ops::PlaneInterpolation;
template <>
struct Words<OutsideRule> {
  static constexpr std::pair<OutsideRule, std::string_view> kAll[] = {
      {OutsideRule::kZeros, "zeros"},
      {OutsideRule::kBorder, "border"},
      {OutsideRule::kReflection, "reflection"}};
};

template <>
struct Words<PlaneInterpolation> {
  static constexpr std::pair<PlaneInterpolation, std::string_view> kAll[] = {
      {PlaneInterpolation::kBilinear, "bilinear"},
      {PlaneInterpolation::kNearest, "nearest"},
      {PlaneInterpolation::kBicubic, "bicubic"}};
};

namespace {

struct SamplingRule {
  Interpolation mode = Interpolation::kLinear;
  OutsideRule outside = OutsideRule::kZeros;
  bool align_corners = false;
};

// The elements along one side that one place reads; an index of -1 is 0.
struct SideTaps {
  int count = 0;
  int64_t index[4];
  double weight[4];
  double slack = 0;  // How far a weight may be off in a kernel, by roundoffs.
};

// Turned back at both ends as often as it takes to be inside.
double ReflectedPlace(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  const double away = std::fmod(std::fabs(x - low), 2 * range);
  return low + (away > range ? 2 * range - away : away);
}

struct SideSampler {
  const SamplingRule& rule;
  int64_t size;

  SideTaps TapsAt(double grid) const {
    const auto n = static_cast<double>(size);
    // -1 and 1 are the centres of the first and last element if corners are
    // aligned, else half an element further out.
    double x = rule.align_corners ? (grid + 1) / 2 * (n - 1)
                                  : ((grid + 1) * n - 1) / 2;
    SideTaps taps;
    if (std::isnan(x)) return NoPlace();
    // Infinities are moved to where the rounding below is still exact and an
    // index fits.
    constexpr double kFar = 0x1p40;
    x = std::clamp(x, -kFar, kFar);
    // Kernels calculate the place in their own type, with some roundings of
    // numbers as large as the side and the place.
    taps.slack = 16 * (std::fabs(x) + n + 1);
    const double low = rule.align_corners ? 0 : -0.5;
    const double high = rule.align_corners ? n - 1 : n - 0.5;
    // Halves go to the even element.
    if (rule.mode == Interpolation::kNearest) x = std::nearbyint(x);
    if (x < low || x > high) {
      // For cubic curves, only the elements read are moved to the border.
      if (rule.outside == OutsideRule::kBorder &&
          rule.mode != Interpolation::kCubic) {
        x = std::clamp(x, 0.0, n - 1);
      }
      if (rule.outside == OutsideRule::kReflection) {
        x = ReflectedPlace(x, low, high);
      }
    }
    const double base = std::floor(x);
    if (rule.mode == Interpolation::kNearest) {
      taps.count = 1;
      taps.index[0] = IndexOf(base);
      taps.weight[0] = 1;
    } else if (rule.mode == Interpolation::kLinear) {
      taps.count = 2;
      taps.weight[0] = 1 - (x - base);
      taps.weight[1] = x - base;
      for (int i = 0; i < 2; ++i) taps.index[i] = IndexOf(base + i);
    } else {
      taps.count = 4;
      // The factor is that of ONNX.
      CubicWeights(x - base, -0.75, taps.weight);
      for (int i = 0; i < 4; ++i) taps.index[i] = IndexOf(base + i - 1);
    }
    return taps;
  }
  // For a place that is NaN: reads nothing for the nearest element, else gives
  // NaN.
  SideTaps NoPlace() const {
    SideTaps taps;
    taps.count = 1;
    const bool reads = rule.mode != Interpolation::kNearest ||
                       rule.outside != OutsideRule::kZeros;
    taps.index[0] = reads ? 0 : -1;
    taps.weight[0] = rule.mode == Interpolation::kNearest ? 1 : NAN;
    return taps;
  }
  // Returns an element that a place reads beside the nearest one; -1 for a 0.
  int64_t IndexOf(double at) const {
    const double most = static_cast<double>(size) - 1;
    if (at >= 0 && at <= most) return static_cast<int64_t>(at);
    if (rule.outside == OutsideRule::kZeros) return -1;
    if (rule.outside == OutsideRule::kBorder) return at < 0 ? 0 : size - 1;
    const double low = rule.align_corners ? 0 : -0.5;
    const double inside =
        ReflectedPlace(at, low, static_cast<double>(size) - 1 - low);
    return std::clamp<int64_t>(static_cast<int64_t>(inside), 0, size - 1);
  }
};

struct Place {
  std::vector<int64_t> offsets;
  std::vector<double> weights;
  double slack = 0;
};

// A place reads each combination of what its sides read, with the product of
// the weights; what is 0 outside of the image is left out.
void CombineSides(const std::vector<SideTaps>& sides,
                  absl::Span<const int64_t> strides, Place* place) {
  place->offsets.assign(1, 0);
  place->weights.assign(1, 1);
  place->slack = 0;
  for (size_t side = 0; side < sides.size(); ++side) {
    const SideTaps& taps = sides[side];
    place->slack += taps.slack;
    const size_t count = place->offsets.size();
    std::vector<int64_t> offsets;
    std::vector<double> weights;
    for (size_t i = 0; i < count; ++i) {
      for (int t = 0; t < taps.count; ++t) {
        if (taps.index[t] < 0) continue;
        offsets.push_back(place->offsets[i] + taps.index[t] * strides[side]);
        weights.push_back(place->weights[i] * taps.weight[t]);
      }
    }
    place->offsets = std::move(offsets);
    place->weights = std::move(weights);
  }
}

// The grid has as many sides as the data: the batch, the image's own, and one
// for the numbers of a place.
absl::Status CheckGrid(const Inputs& in, int most_rank) {
  NODEWISE_RETURN_IF_ERROR(All(RequireFloat(in, 1),
                               RequireRank(in, 0, 3, most_rank),
                               RequireRank(in, 1, 3, most_rank)));
  const auto rank = RankOf(in);
  if (!rank.has_value()) return absl::OkStatus();
  NODEWISE_RETURN_IF_ERROR(RequireRank(in, 1, *rank));
  const Dim numbers = SideOf(in, 1, static_cast<size_t>(*rank) - 1);
  if (RankOf(in, 1).has_value() && numbers.is_known() &&
      numbers.size() != *rank - 2) {
    return WrongInput(1, "has places of {} numbers, expected {}",
                      numbers.size(), *rank - 2);
  }
  if (UniteDims(SideOf(in, 0, 0), SideOf(in, 1, 0)).ok()) {
    return absl::OkStatus();
  }
  return InputError(1, "has a batch of another size than the data");
}

OutputInfos InferGrid(const Inputs& in) {
  const auto rank = RankOf(in).has_value() ? RankOf(in) : RankOf(in, 1);
  if (!rank.has_value()) return OfInputType(in);
  // The batch and the channels are those of the data, the image's sides those
  // of the grid.
  Shape shape{SideOf(in, 0, 0), SideOf(in, 0, 1)};
  for (int i = 2; i < *rank; ++i) {
    shape.push_back(SideOf(in, 1, static_cast<size_t>(i) - 1));
  }
  return OfInputType(in, std::move(shape));
}

// All channels of a place have the same taps.
struct PlaceWriter {
  const SamplingRule& rule;
  const std::vector<double>& x;
  double u;
  bool is_integer;
  std::vector<double>* values;
  Bounds* bounds;

  void Write(const Place& place, int64_t from, size_t to) const {
    double sum = 0;
    double size = 0;
    double slack = 0;
    for (size_t t = 0; t < place.offsets.size(); ++t) {
      const double weight = place.weights[t];
      // An element with a weight of 0 does not count even if it is infinite;
      // the bounds need its size, since a kernel's weight may be slightly off.
      if (weight == 0 && bounds == nullptr) continue;
      const double number = x[static_cast<size_t>(from + place.offsets[t])];
      if (weight != 0) sum += weight * number;
      size += std::fabs(weight * number);
      slack += std::fabs(number);
    }
    (*values)[to] = sum;
    if (bounds == nullptr) return;
    const auto terms = static_cast<double>(place.offsets.size());
    // A sum of a few products, whose weights are off by the slack of the place.
    // An integer may be rounded to either side.
    const bool is_exact = rule.mode == Interpolation::kNearest;
    bounds->proved[to] = is_exact ? 0
                                  : (terms + 4) * u * size +
                                        place.slack * u * slack +
                                        (is_integer ? 1 : 0);
  }
};

absl::Status SampleGrid(const SamplingRule& rule, EvalArgs& args) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
  const absl::Span<const int64_t> shape = args.shape(0);
  const absl::Span<const int64_t> sides = shape.subspan(2);
  Bounds* const bounds = args.bounds(0);
  SetAllBounds(CountOf(y), 0, bounds);
  const int64_t image = Product(sides);
  if (CountOf(y) > 0 && image == 0) return InputError(0, "is empty");
  const std::vector<double> x = ToDoubles(args.in(0));
  const std::vector<double> grid = ToDoubles(args.in(1));
  std::vector<double> values(static_cast<size_t>(CountOf(y)));
  const std::vector<int64_t> strides = StridesOf(sides);
  std::vector<SideSampler> samplers;
  for (const int64_t size : sides) samplers.push_back({rule, size});
  const int64_t channels = shape[1];
  const int64_t places = Product(y.shape().subspan(2));
  const PlaceWriter writer{
      rule, x, UnitRoundoff(y.dtype()), !IsFloat(y.dtype()), &values, bounds};
  // About as many nanoseconds: the taps of a place are found once, and used for
  // every channel.
  const double work = 200 + 20 * static_cast<double>(channels);
  ParallelFor(shape[0] * places, work, [&](int64_t begin, int64_t end) {
    std::vector<SideTaps> taps(sides.size());
    Place place;
    for (int64_t p = begin; p < end; ++p) {
      for (size_t side = 0; side < sides.size(); ++side) {
        // Places name the innermost side first.
        const size_t at = static_cast<size_t>(p + 1) * sides.size() - 1 - side;
        taps[side] = samplers[side].TapsAt(grid[at]);
      }
      CombineSides(taps, strides, &place);
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t plane = p / places * channels + c;
        writer.Write(place, plane * image,
                     static_cast<size_t>(plane * places + p % places));
      }
    }
  });
  StoreDoubles(values.data(), 0, CountOf(y), y);
  if (bounds != nullptr) bounds->expected = bounds->proved;
  return absl::OkStatus();
}

Interpolation InterpolationOf(Interpolation mode) { return mode; }
Interpolation InterpolationOf(PlaneInterpolation mode) {
  return mode == PlaneInterpolation::kNearest    ? Interpolation::kNearest
         : mode == PlaneInterpolation::kBilinear ? Interpolation::kLinear
                                                 : Interpolation::kCubic;
}

// Both versions of GridSample: in opset 16 images have two sides.
template <typename Class>
struct GridSampling : Class {
  static constexpr auto Fields() {
    return FieldList(Field<&Class::align_corners>("align_corners"),
                     Field<&Class::mode>("mode"),
                     Field<&Class::padding_mode>("padding_mode"));
  }

  absl::Status Check(const Inputs& in) const {
    if constexpr (std::is_same_v<Class, ops::GridSample16>) {
      return All(RequireRank(in, 0, 4), CheckGrid(in, 4));
    } else {
      // A place reads 4 elements along each side, so more sides read too many.
      return CheckGrid(in, 10);
    }
  }
  OutputInfos Infer(const Inputs& in) const { return InferGrid(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    return SampleGrid(
        {InterpolationOf(this->mode), this->padding_mode, this->align_corners},
        args);
  }
};

// Images have two or three sides, so each image's matrix has as many rows and
// one more column.
struct AffineGrid : ops::AffineGrid {
  static constexpr auto Fields() {
    return FieldList(Field<&AffineGrid::align_corners>("align_corners"));
  }

  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(All(RequireFloat(in, 0), RequireRank(in, 0, 3),
                                 RequireType(in, 1, kInt64),
                                 RequireRank(in, 1, 1)));
    const Dim rows = SideOf(in, 0, 1);
    const Dim sizes = SideOf(in, 1, 0);
    if (rows.is_known() && rows != Dim(2) && rows != Dim(3)) {
      return WrongInput(0, "has {} rows, expected 2 or 3", rows.size());
    }
    if (rows.is_known() && !UniteDims(SideOf(in, 0, 2), rows.size() + 1).ok()) {
      return WrongInput(0, "has no {} columns", rows.size() + 1);
    }
    if (sizes.is_known() && sizes != Dim(4) && sizes != Dim(5)) {
      return WrongInput(1, "has {} sizes, expected 4 or 5", sizes.size());
    }
    if (rows.is_known() && !UniteDims(sizes, rows.size() + 2).ok()) {
      return WrongInput(1, "has {} sizes, expected {}", sizes.size(),
                        rows.size() + 2);
    }
    return absl::OkStatus();
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const auto size = ShapeFromInput(in, 1);
    if (!size.has_value() || size->size() < 4) return OfInputType(in);
    const auto batch = UniteDims(SideOf(in, 0, 0), (*size)[0]);
    if (!batch.ok()) return AtInput(1, batch.status());
    Shape shape{*batch};
    shape.insert(shape.end(), size->begin() + 2, size->end());
    shape.emplace_back(static_cast<int64_t>(size->size()) - 2);
    NODEWISE_RETURN_IF_ERROR(AtInput(1, CheckShape(shape)));
    return OfInputType(in, std::move(shape));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    const std::vector<double> theta = ToDoubles(args.in(0));
    const absl::Span<const int64_t> sides =
        y.shape().subspan(1, y.shape().size() - 2);
    const size_t rows = sides.size();
    const int64_t places = Product(sides);
    std::vector<double> values(static_cast<size_t>(CountOf(y)));
    Bounds* const bounds = SizedBounds(args, 0, CountOf(y));
    // A place is multiplied with the first columns of its image's matrix, the
    // last column is added: the place ends with a 1.
    std::vector<double> place(rows + 1, 1);
    for (int64_t p = 0; p < y.shape()[0] * places; ++p) {
      int64_t rest = p % places;
      for (size_t side = rows; side-- > 0;) {
        place[rows - 1 - side] = PlaceOf(rest % sides[side], sides[side]);
        rest /= sides[side];
      }
      const double* matrix =
          theta.data() + static_cast<size_t>(p / places) * rows * (rows + 1);
      for (size_t row = 0; row < rows; ++row, matrix += rows + 1) {
        // The place itself is calculated in a few roundings, too.
        SumOfTerms sum;
        sum.terms = static_cast<double>(rows) + 4;
        for (size_t k = 0; k <= rows; ++k) sum.Add(matrix[k] * place[k]);
        const size_t to = static_cast<size_t>(p) * rows + row;
        values[to] = sum.result;
        if (bounds != nullptr) BoundSum(y.dtype(), sum).SetAt(to, bounds);
      }
    }
    StoreDoubles(values.data(), 0, CountOf(y), y);
    return absl::OkStatus();
  }

 private:
  // A side of 1 has its only place at 0 if corners are aligned.
  double PlaceOf(int64_t i, int64_t size) const {
    const auto n = static_cast<double>(size);
    const auto at = static_cast<double>(i);
    if (!align_corners) return (2 * at + 1) / n - 1;
    return size == 1 ? 0 : 2 * at / (n - 1) - 1;
  }
};

// The reverse of laying out what a window saw as columns: elements that several
// windows saw are added up. ShapeFromInput() gives the image's sides, of which
// some may be unknown.
struct Col2Im : ops::Col2Im {
  static constexpr auto Fields() {
    return FieldList(Field<&Col2Im::dilations>("dilations"),
                     Field<&Col2Im::pads>("pads"),
                     Field<&Col2Im::strides>("strides"));
  }

  absl::Status Check(const Inputs& in) const {
    return All(RequireRank(in, 0, 3), RequireType(in, 1, kInt64),
               RequireType(in, 2, kInt64), RequireRank(in, 1, 1),
               RequireRank(in, 2, 1));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const auto image = ShapeFromInput(in, 1);
    const auto block = in.Ints(2);
    if (!image.has_value()) return OfInputType(in);
    Shape shape{SideOf(in, 0, 0), Dim()};
    shape.insert(shape.end(), image->begin(), image->end());
    NODEWISE_RETURN_IF_ERROR(CheckShape(shape));
    if (!block.has_value()) return OfInputType(in, shape);
    NODEWISE_ASSIGN_OR_RETURN(const Plan plan, PlanOf(*image, *block));
    // A row is an element of the window in a channel, a column one place of the
    // window.
    const Dim rows = SideOf(in, 0, 1);
    const Dim columns = SideOf(in, 0, 2);
    if (rows.is_known() && rows.size() % plan.block_size != 0) {
      return WrongInput(0, "has {} rows, expected a multiple of {}",
                        rows.size(), plan.block_size);
    }
    if (columns.is_known() && plan.num_blocks.is_known() &&
        columns.size() != plan.num_blocks.size()) {
      return WrongInput(0, "has {} columns, expected {}", columns.size(),
                        plan.num_blocks.size());
    }
    if (rows.is_known()) shape[1] = rows.size() / plan.block_size;
    return CheckedOutput(in.type(0).dtype, std::move(shape));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    NODEWISE_ASSIGN_OR_RETURN(const auto block, args.Ints(2));
    const absl::Span<const int64_t> image = y.shape().subspan(2);
    NODEWISE_ASSIGN_OR_RETURN(const Plan plan,
                              PlanOf(Shape(image.begin(), image.end()), block));
    Bounds* const bounds = SizedBounds(args, 0, CountOf(y));
    if (IsInteger(y.dtype())) return AddIntegers(plan, args.in(0), y);
    const auto count = static_cast<size_t>(CountOf(y));
    const std::vector<double> x = ToDoubles(args.in(0));
    std::vector<double> sums(count, 0);
    std::vector<SumOfTerms> terms(bounds != nullptr ? count : 0);
    ForEachPair(plan, y, [&](int64_t from, int64_t to) {
      const double number = x[static_cast<size_t>(from)];
      const auto element = static_cast<size_t>(to);
      sums[element] += number;
      if (bounds == nullptr) return;
      terms[element].terms += 1;
      terms[element].Add(number);
    });
    StoreDoubles(sums.data(), 0, CountOf(y), y);
    if (bounds == nullptr) return absl::OkStatus();
    for (size_t i = 0; i < count; ++i) {
      BoundSum(y.dtype(), terms[i]).SetAt(i, bounds);
    }
    return absl::OkStatus();
  }

 private:
  struct Plan {
    Window window;
    int64_t block_size = 1;
    Dim num_blocks = 1;
    std::vector<int64_t> counts;  // Blocks by side, where the sides are known.
  };

  absl::StatusOr<Plan> PlanOf(const Shape& image,
                              const std::vector<int64_t>& block) const {
    if (block.size() != image.size() || block.empty()) {
      return WrongInput(2, "has {} sides, expected {}", block.size(),
                        image.size());
    }
    const WindowAttributes attributes{.kernel_shape = block,
                                      .strides = strides,
                                      .dilations = dilations,
                                      .pads = pads};
    Plan plan;
    NODEWISE_ASSIGN_OR_RETURN(
        plan.window, ResolveWindow(attributes, static_cast<int>(block.size())));
    NODEWISE_ASSIGN_OR_RETURN(plan.block_size, NumElements(block));
    for (size_t side = 0; side < image.size(); ++side) {
      if (!image[side].is_known()) {
        plan.num_blocks = Dim();
        plan.counts.push_back(0);
        continue;
      }
      NODEWISE_ASSIGN_OR_RETURN(plan.counts.emplace_back(),
                                WindowCount(plan.window, static_cast<int>(side),
                                            image[side].size(), false));
      plan.num_blocks = Times(plan.num_blocks, plan.counts.back());
    }
    return plan;
  }
  // Calls f(from, to) for each element of the input that belongs inside the
  // image, and the element of the output that it is added to.
  // A row of the input is one element of the window, a column one place of the
  // window in the image. Both are taken apart into a number for each side, from
  // the last side on, which together say where the element lies in the image.
  template <typename F>
  static void ForEachPair(const Plan& plan, const NDArray& y, F f) {
    const Window& window = plan.window;
    const absl::Span<const int64_t> image = y.shape().subspan(2);
    const std::vector<int64_t> image_strides = StridesOf(image);
    const int64_t image_size = Product(image);
    const int64_t planes = y.shape()[0] * y.shape()[1];
    const int64_t columns = Product(plan.counts);
    for (int64_t row = 0; row < plan.block_size; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        int64_t tap = row;
        int64_t block = column;
        int64_t element = 0;
        bool is_inside = true;
        for (size_t side = image.size(); side-- > 0;) {
          const int64_t at =
              block % plan.counts[side] * window.strides[side] +
              tap % window.kernel[side] * window.dilations[side] -
              window.pads[side];
          is_inside &= at >= 0 && at < image[side];
          element += at * image_strides[side];
          block /= plan.counts[side];
          tap /= window.kernel[side];
        }
        if (!is_inside) continue;
        for (int64_t plane = 0; plane < planes; ++plane) {
          f((plane * plan.block_size + row) * columns + column,
            plane * image_size + element);
        }
      }
    }
  }
  // Integers wrap around; sums of 64 bits do that for narrower ones too.
  static absl::Status AddIntegers(const Plan& plan, const NDArray& x,
                                  const NDArray& y) {
    return WithInteger(y.dtype(), [&](auto zero) {
      using T = decltype(zero);
      std::fill_n(y.As<T>(), CountOf(y), T{0});
      ForEachPair(plan, y, [&](int64_t from, int64_t to) {
        T& sum = y.As<T>()[to];
        sum = static_cast<T>(static_cast<uint64_t>(sum) +
                             static_cast<uint64_t>(x.As<T>()[from]));
      });
    });
  }
};

template <typename Class>
constexpr OperatorDef GridSampleRow(int since) {
  return Row<Class, GridSampling<Class>>("GridSample", since, {"X", "grid"},
                                         {"Y"}, kSum);
}

constexpr OperatorDef kSamplingRows[] = {
    GridSampleRow<ops::GridSample16>(16),
    GridSampleRow<ops::GridSample>(20),
    Row<ops::AffineGrid, AffineGrid>("AffineGrid", 20, {"theta", "size"},
                                     {"grid"}, kSum),
    Row<ops::Col2Im, Col2Im>("Col2Im", 18,
                             {"input", "image_shape", "block_shape"},
                             {"output"}, kSum),
};

}  // namespace

absl::Span<const OperatorDef> SamplingOperators() { return kSamplingRows; }

}  // namespace nodewise
