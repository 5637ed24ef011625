#include "nodewise/ops/sampling.h"

#include <algorithm>
#include <cmath>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/resize_taps.h"
#include "contrib/ops/util/sum_bounds.h"
#include "contrib/ops/util/tensor_moves.h"
#include "fmt/format.h"
#include "nodewise/op/op_row.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

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

double Reflected(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  const double away = std::fmod(std::fabs(x - low), 2 * range);
  return low + (away > range ? 2 * range - away : away);
}

class SideSampler {
 public:
  SideSampler(const SamplingRule& rule, int64_t size)
      : rule_(rule), size_(size) {}

  SideTaps TapsAt(double grid) const {
    const auto n = static_cast<double>(size_);
    double x = rule_.align_corners ? (grid + 1) / 2 * (n - 1)
                                   : ((grid + 1) * n - 1) / 2;
    SideTaps taps;
    if (std::isnan(x)) return NoPlace();
    constexpr double kFar = 0x1p40;
    x = std::clamp(x, -kFar, kFar);
    taps.slack = 16 * (std::fabs(x) + n + 1);
    const double low = rule_.align_corners ? 0 : -0.5;
    const double high = rule_.align_corners ? n - 1 : n - 0.5;
    if (rule_.mode == Interpolation::kNearest) x = std::nearbyint(x);
    if (x < low || x > high) {
      // For cubic curves, only the elements read are moved to the border.
      if (rule_.outside == OutsideRule::kBorder &&
          rule_.mode != Interpolation::kCubic) {
        x = std::clamp(x, 0.0, n - 1);
      }
      if (rule_.outside == OutsideRule::kReflection) {
        x = Reflected(x, low, high);
      }
    }
    const double base = std::floor(x);
    if (rule_.mode == Interpolation::kNearest) {
      taps.count = 1;
      taps.index[0] = IndexOf(base);
      taps.weight[0] = 1;
    } else if (rule_.mode == Interpolation::kLinear) {
      taps.count = 2;
      taps.weight[0] = 1 - (x - base);
      taps.weight[1] = x - base;
      for (int i = 0; i < 2; ++i) taps.index[i] = IndexOf(base + i);
    } else {
      taps.count = 4;
      CubicWeights(x - base, -0.75, taps.weight);
      for (int i = 0; i < 4; ++i) taps.index[i] = IndexOf(base + i - 1);
    }
    return taps;
  }

 private:
  // For a place that is NaN: reads nothing for the nearest element, else gives
  // NaN.
  SideTaps NoPlace() const {
    SideTaps taps;
    taps.count = 1;
    const bool reads = rule_.mode != Interpolation::kNearest ||
                       rule_.outside != OutsideRule::kZeros;
    taps.index[0] = reads ? 0 : -1;
    taps.weight[0] = rule_.mode == Interpolation::kNearest ? 1 : NAN;
    return taps;
  }
  int64_t IndexOf(double at) const {
    const double most = static_cast<double>(size_) - 1;
    if (at >= 0 && at <= most) return static_cast<int64_t>(at);
    if (rule_.outside == OutsideRule::kZeros) return -1;
    if (rule_.outside == OutsideRule::kBorder) return at < 0 ? 0 : size_ - 1;
    const double low = rule_.align_corners ? 0 : -0.5;
    const double inside =
        Reflected(at, low, static_cast<double>(size_) - 1 - low);
    return std::clamp<int64_t>(static_cast<int64_t>(inside), 0, size_ - 1);
  }

  SamplingRule rule_;
  int64_t size_;
};

// One place: where its elements lie in a channel, and their weights.
struct Place {
  std::vector<int64_t> offsets;
  std::vector<double> weights;
  double slack = 0;
};

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
    place->offsets.swap(offsets);
    place->weights.swap(weights);
  }
}

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
    return InputError(1, fmt::format("has places of {} numbers, expected "
                                     "{}",
                                     numbers.size(), *rank - 2));
  }
  if (UniteDims(SideOf(in, 0, 0), SideOf(in, 1, 0)).ok()) {
    return absl::OkStatus();
  }
  return InputError(1, "has a batch of another size than the data");
}

OutputInfos InferGrid(const Inputs& in) {
  const DLDataType dtype = in.type(0).dtype;
  const auto rank = RankOf(in).has_value() ? RankOf(in) : RankOf(in, 1);
  if (!rank.has_value()) return OneOutput(dtype, std::nullopt);
  Shape shape{SideOf(in, 0, 0), SideOf(in, 0, 1)};
  for (int i = 2; i < *rank; ++i) {
    shape.push_back(SideOf(in, 1, static_cast<size_t>(i) - 1));
  }
  return OneOutput(dtype, std::move(shape));
}

// All channels of one place.
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
      if (weight == 0 && bounds == nullptr) continue;
      const double number = x[static_cast<size_t>(from + place.offsets[t])];
      if (weight != 0) sum += weight * number;
      size += std::fabs(weight * number);
      slack += std::fabs(number);
    }
    (*values)[to] = sum;
    if (bounds == nullptr) return;
    const auto terms = static_cast<double>(place.offsets.size());
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
  if (bounds != nullptr) {
    bounds->proved.assign(static_cast<size_t>(CountOf(y)), 0);
  }
  const int64_t image = Product(sides);
  if (CountOf(y) > 0 && image == 0) return InputError(0, "is empty");
  const std::vector<double> x = ToDoubles(args.in(0));
  const std::vector<double> grid = ToDoubles(args.in(1));
  std::vector<double> values(static_cast<size_t>(CountOf(y)));
  const std::vector<int64_t> strides = StridesOf(sides);
  std::vector<SideSampler> samplers;
  for (const int64_t size : sides) samplers.emplace_back(rule, size);
  const int64_t channels = shape[1];
  const int64_t places = Product(y.shape().subspan(2));
  const PlaceWriter writer{
      rule, x, UnitRoundoff(y.dtype()), !IsFloat(y.dtype()), &values, bounds};
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

struct GridSample16 : ops::GridSample16 {
  static constexpr auto Fields() {
    return FieldList(Field<&GridSample16::align_corners>("align_corners"),
                     Field<&GridSample16::mode>("mode"),
                     Field<&GridSample16::padding_mode>("padding_mode"));
  }

  absl::Status Check(const Inputs& in) const {
    return All(RequireRank(in, 0, 4), CheckGrid(in, 4));
  }
  OutputInfos Infer(const Inputs& in) const { return InferGrid(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    const Interpolation of_sides =
        mode == PlaneInterpolation::kNearest    ? Interpolation::kNearest
        : mode == PlaneInterpolation::kBilinear ? Interpolation::kLinear
                                                : Interpolation::kCubic;
    return SampleGrid({of_sides, padding_mode, align_corners}, args);
  }
};

struct GridSample : ops::GridSample {
  static constexpr auto Fields() {
    return FieldList(Field<&GridSample::align_corners>("align_corners"),
                     Field<&GridSample::mode>("mode"),
                     Field<&GridSample::padding_mode>("padding_mode"));
  }

  absl::Status Check(const Inputs& in) const {
    // A place reads 4 elements along each side, so more sides read too many.
    return CheckGrid(in, 10);
  }
  OutputInfos Infer(const Inputs& in) const { return InferGrid(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    return SampleGrid({mode, padding_mode, align_corners}, args);
  }
};

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
      return InputError(
          0, fmt::format("has {} rows, expected 2 or 3", rows.size()));
    }
    if (rows.is_known() && !UniteDims(SideOf(in, 0, 2), rows.size() + 1).ok()) {
      return InputError(0, fmt::format("has no {} columns", rows.size() + 1));
    }
    if (sizes.is_known() && sizes != Dim(4) && sizes != Dim(5)) {
      return InputError(
          1, fmt::format("has {} sizes, expected 4 or 5", sizes.size()));
    }
    if (rows.is_known() && !UniteDims(sizes, rows.size() + 2).ok()) {
      return InputError(1, fmt::format("has {} sizes, expected {}",
                                       sizes.size(), rows.size() + 2));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const DLDataType dtype = in.type(0).dtype;
    const auto size = ShapeFromInput(in, 1);
    if (!size.has_value() || size->size() < 4) {
      return OneOutput(dtype, std::nullopt);
    }
    const auto batch = UniteDims(SideOf(in, 0, 0), (*size)[0]);
    if (!batch.ok())
      return InputError(1, std::string(MessageOf(batch.status())));
    Shape shape{*batch};
    shape.insert(shape.end(), size->begin() + 2, size->end());
    shape.emplace_back(static_cast<int64_t>(size->size()) - 2);
    const absl::Status status = CheckShape(shape);
    if (!status.ok()) return InputError(1, std::string(MessageOf(status)));
    return OneOutput(dtype, std::move(shape));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    const std::vector<double> theta = ToDoubles(args.in(0));
    const absl::Span<const int64_t> sides =
        y.shape().subspan(1, y.shape().size() - 2);
    const size_t rows = sides.size();
    const int64_t places = Product(sides);
    std::vector<double> values(static_cast<size_t>(CountOf(y)));
    Bounds* const bounds = args.bounds(0);
    if (bounds != nullptr) {
      bounds->proved.resize(values.size());
      bounds->expected.resize(values.size());
    }
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
        SumOfTerms sum;
        sum.terms = static_cast<double>(rows) + 4;
        for (size_t k = 0; k <= rows; ++k) {
          const double term = matrix[k] * place[k];
          sum.result += term;
          sum.absolute += std::fabs(term);
          sum.squares += term * term;
        }
        const size_t to = static_cast<size_t>(p) * rows + row;
        values[to] = sum.result;
        if (bounds == nullptr) continue;
        const SumBound bound = BoundSum(y.dtype(), sum);
        bounds->proved[to] = bound.proved;
        bounds->expected[to] = bound.expected;
      }
    }
    StoreDoubles(values.data(), 0, CountOf(y), y);
    return absl::OkStatus();
  }

 private:
  double PlaceOf(int64_t i, int64_t size) const {
    const auto n = static_cast<double>(size);
    const auto at = static_cast<double>(i);
    if (!align_corners) return (2 * at + 1) / n - 1;
    return size == 1 ? 0 : 2 * at / (n - 1) - 1;
  }
};

constexpr OperatorDef kSamplingRows[] = {
    Row<ops::GridSample16, GridSample16>({.name = "GridSample",
                                          .since = 16,
                                          .inputs = {"X", "grid"},
                                          .outputs = {"Y"},
                                          .bound = kSum}),
    Row<ops::GridSample, GridSample>({.name = "GridSample",
                                      .since = 20,
                                      .inputs = {"X", "grid"},
                                      .outputs = {"Y"},
                                      .bound = kSum}),
    Row<ops::AffineGrid, AffineGrid>({.name = "AffineGrid",
                                      .since = 20,
                                      .inputs = {"theta", "size"},
                                      .outputs = {"grid"},
                                      .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> SamplingOperators() { return kSamplingRows; }

}  // namespace nodewise
