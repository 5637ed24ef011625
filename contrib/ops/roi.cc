#include "nodewise/ops/roi.h"

#include <cmath>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/field_lists.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/sum_bounds.h"
#include "contrib/ops/util/window_rules.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// The pools take regions of a map, given as boxes in units of the image, and
// make bins of equal number out of each; MaxUnpool goes the other way, from the
// result of a pool back to its place. All are moved or picked element by
// element, except for the points of RoiAlign, which lie between four elements.

struct MaxUnpool : ops::MaxUnpool {
  static constexpr auto Fields() {
    return FieldList(RequiredField<&MaxUnpool::kernel_shape>("kernel_shape"),
                     Field<&MaxUnpool::pads>("pads"),
                     Field<&MaxUnpool::strides>("strides"));
  }
  absl::Status Check(const Inputs& in) const {
    return All(
        RequireFloat(in, 0), RequireType(in, 1, kInt64),
        RequireType(in, 2, kInt64), RequireRank(in, 0, 3, INT_MAX),
        RequireRank(in, 2, 1),
        ResolveWindow(Attributes(), static_cast<int>(kernel_shape.size()))
            .status());
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    TensorType type(in.type(0).dtype);
    if (in.type(0).has_rank()) {
      NODEWISE_ASSIGN_OR_RETURN(type.shape, Unpooled(*in.type(0).shape));
    }
    if (in.has(2)) {
      std::optional<Shape> told = ShapeFromInput(in, 2);
      if (told.has_value() && type.has_rank() &&
          told->size() != type.shape->size()) {
        return WrongInput(2, "has {} elements, expected {}", told->size(),
                          type.shape->size());
      }
      type.shape = std::move(told);
    }
    return Countable(OutputInfos{std::move(type)});
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const auto x_shape = args.shape(0);
    if (args.shape(1) != x_shape) {
      return InputError(1, "is of another shape than input 0");
    }
    NODEWISE_ASSIGN_OR_RETURN(const Shape unpooled,
                              Unpooled(Shape(x_shape.begin(), x_shape.end())));
    const std::vector<int64_t> inner = *TensorType({}, unpooled).sizes();
    NODEWISE_ASSIGN_OR_RETURN(const int64_t count, NumElements(inner));
    std::vector<int64_t> shape = inner;
    if (args.has(2)) {
      NODEWISE_ASSIGN_OR_RETURN(shape, args.Ints(2));
      for (size_t s = 0; s < shape.size(); ++s) {
        if (shape[s] >= inner[s]) continue;
        return WrongInput(2, "is {} at {}, expected {} or more", shape[s], s,
                          inner[s]);
      }
    }
    NODEWISE_ASSIGN_OR_RETURN(const NDArray out,
                              args.MakeOutput(0, shape, args.dtype(0)));
    const std::vector<int64_t> strides = StridesOf(shape);
    const auto* const indices = args.in(1).As<int64_t>();
    return WithSize(args.dtype(0), [&](auto zero) -> absl::Status {
      using T = decltype(zero);
      const T* const x = args.in(0).As<T>();
      T* const y = out.As<T>();
      std::fill_n(y, CountOf(out), T{0});
      for (int64_t i = 0; i < CountOf(args.in(0)); ++i) {
        int64_t rest = indices[i];
        if (rest < 0 || rest >= count) {
          return WrongInput(1, "has {}, expected 0 to {}", rest, count - 1);
        }
        int64_t at = 0;
        for (size_t s = inner.size(); s-- > 0;) {
          at += rest % inner[s] * strides[s];
          rest /= inner[s];
        }
        y[at] = x[i];
      }
      return absl::OkStatus();
    });
  }

 private:
  WindowAttributes Attributes() const {
    return {ops::Padding::kNotset, kernel_shape, strides, {}, pads, false};
  }
  // The smallest shape that pools to this one. Several shapes pool to the same
  // one, which is why output_shape may name a larger one; indices are still
  // those of the smallest.
  absl::StatusOr<Shape> Unpooled(const Shape& input) const {
    NODEWISE_ASSIGN_OR_RETURN(
        const Window window,
        ResolveWindow(Attributes(), static_cast<int>(input.size()) - 2));
    Shape shape = input;
    for (size_t s = 0; s < kernel_shape.size(); ++s) {
      const Dim& side = input[s + 2];
      if (!side.is_known()) {
        shape[s + 2] = Dim();
        continue;
      }
      // Strides are at most 2^31.
      constexpr int64_t kLongest = int64_t{1} << 30;
      const int64_t size = side.size() > kLongest
                               ? -1
                               : (side.size() - 1) * window.strides[s] +
                                     window.kernel[s] - window.pads[s] -
                                     window.pads[s + kernel_shape.size()];
      if (size < 0) {
        return InvalidArgument("spatial side {} of {} cannot be unpooled", s,
                               side.size());
      }
      shape[s + 2] = size;
    }
    return shape;
  }
};

// Regions count as images do, channels stay.
absl::StatusOr<OutputInfos> InferRois(const Inputs& in, int64_t height,
                                      int64_t width) {
  return Countable(OutputInfos{
      TensorType(in.type(0).dtype,
                 Shape{SideOf(in, 1, 0), SideOf(in, 0, 1), height, width})});
}

// A box is four numbers, two corners; MaxRoiPool has the number of the image in
// front of them.
absl::Status CheckRois(const Inputs& in, int64_t columns) {
  NODEWISE_RETURN_IF_ERROR(All(RequireFloat(in, 0), RequireFloat(in, 1),
                               RequireRank(in, 0, 4), RequireRank(in, 1, 2)));
  const Dim found = SideOf(in, 1, 1);
  if (!found.is_known() || found.size() == columns) return absl::OkStatus();
  return WrongInput(1, "has {} columns, expected {}", found.size(), columns);
}

// MaxRoiPool has the image in the box, as a float, and RoiAlign as an integer
// of its own. NaN fails, too.
absl::Status CheckBatch(double batch, int64_t batches, int64_t roi) {
  if (batch >= 0 && batch < static_cast<double>(batches)) {
    return absl::OkStatus();
  }
  return InvalidArgument("region {}: is of image {:g}, expected 0 to {}", roi,
                         batch, batches - 1);
}

struct Bin {
  int64_t begin;
  int64_t end;
};
// Both ends of a region belong to it, so one that ends where it begins is 1
// long. Bins overlap where the sides do not divide evenly: their ends are
// rounded outwards.
Bin BinOf(double first, double last, int64_t bin, int64_t bins, int64_t size) {
  const double length = std::max(last - first + 1, 1.0);
  const double step = length / static_cast<double>(bins);
  const auto cut = [&](double at) {
    return static_cast<int64_t>(
        std::clamp(at + first, 0.0, static_cast<double>(size)));
  };
  return {cut(std::floor(static_cast<double>(bin) * step)),
          cut(std::ceil(static_cast<double>(bin + 1) * step))};
}

// Regions are rounded to whole elements, so nothing but a choice is made and
// results are exact. A bin without elements gives 0.
struct MaxRoiPool : ops::MaxRoiPool {
  static constexpr auto Fields() {
    return FieldList(RequiredField<&MaxRoiPool::pooled_shape>("pooled_shape"),
                     Field<&MaxRoiPool::spatial_scale>("spatial_scale"));
  }
  absl::Status Check(const Inputs& in) const {
    if (pooled_shape.size() != 2 || pooled_shape[0] < 1 ||
        pooled_shape[1] < 1) {
      return AttributeError("pooled_shape",
                            "is not a pair of sides of 1 or more");
    }
    return All(CheckRois(in, 5), RequireSameType(in));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return InferRois(in, pooled_shape[0], pooled_shape[1]);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const auto x_shape = args.shape(0);
    const int64_t rois = args.shape(1)[0];
    const int64_t shape[] = {rois, x_shape[1], pooled_shape[0],
                             pooled_shape[1]};
    NODEWISE_ASSIGN_OR_RETURN(const NDArray out,
                              args.MakeOutput(0, shape, args.dtype(0)));
    const std::vector<double> boxes = ToDoubles(args.in(1));
    // What is not finite cannot be rounded to an element.
    for (const double number : boxes) {
      if (std::isfinite(number)) continue;
      return InputError(1, "has numbers that are not finite");
    }
    return WithFloat(args.dtype(0), [&](auto zero) -> absl::Status {
      using T = decltype(zero);
      T* to = out.As<T>();
      for (int64_t roi = 0; roi < rois; ++roi) {
        const double* const box = boxes.data() + roi * 5;
        NODEWISE_RETURN_IF_ERROR(CheckBatch(box[0], x_shape[0], roi));
        const auto at = [&](int i) {
          return std::round(box[i] * double{spatial_scale});
        };
        const T* plane = args.in(0).As<T>() + static_cast<int64_t>(box[0]) *
                                                  Product(x_shape.subspan(1));
        for (int64_t c = 0; c < shape[1]; ++c) {
          for (int64_t i = 0; i < shape[2] * shape[3]; ++i) {
            const Bin y =
                BinOf(at(2), at(4), i / shape[3], shape[2], x_shape[2]);
            const Bin x =
                BinOf(at(1), at(3), i % shape[3], shape[3], x_shape[3]);
            const bool is_empty = y.begin >= y.end || x.begin >= x.end;
            double best =
                is_empty ? 0 : -std::numeric_limits<double>::infinity();
            for (int64_t row = y.begin; row < y.end; ++row) {
              for (int64_t column = x.begin; column < x.end; ++column) {
                const double value = ToDouble(plane[row * x_shape[3] + column]);
                if (value > best || std::isnan(value)) best = value;
              }
            }
            *to++ = FromDouble<T>(best);
          }
          plane += x_shape[2] * x_shape[3];
        }
      }
      return absl::OkStatus();
    });
  }
};

}  // namespace

using ops::RoiMode;
using ops::RoiPixels;
template <>
struct Words<RoiMode> {
  static constexpr std::pair<RoiMode, std::string_view> kAll[] = {
      {RoiMode::kAverage, "avg"}, {RoiMode::kMax, "max"}};
};
template <>
struct Words<RoiPixels> {
  static constexpr std::pair<RoiPixels, std::string_view> kAll[] = {
      {RoiPixels::kHalf, "half_pixel"},
      {RoiPixels::kOutputHalf, "output_half_pixel"}};
};

namespace {

// Two neighbours and how much each counts; neither beyond the map.
struct Neighbours {
  int64_t low = 0;
  int64_t high = 0;
  double low_weight = 0;
  double high_weight = 0;
};
// A point up to one element outside counts as one at the edge, further out as
// 0, which weights of 0 say.
Neighbours NeighboursOf(double at, int64_t size) {
  if (at < -1 || at > static_cast<double>(size)) return {};
  at = std::max(at, 0.0);
  const auto low = static_cast<int64_t>(at);
  if (low >= size - 1) return {size - 1, size - 1, 1, 0};
  const double part = at - static_cast<double>(low);
  return {low, low + 1, 1 - part, part};
}

// Before opset 16 there was one way of counting pixels. A pixel has its number
// at its middle or at its corner. With the first, regions are moved by half an
// element, and may be shorter than one.
bool HasHalfPixels(const ops::RoiAlign10&) { return false; }
bool HasHalfPixels(const ops::RoiAlign& op) {
  return op.coordinate_transformation_mode == RoiPixels::kHalf;
}

// The rules of all versions; `Class` is the public class of one. For each bin a
// grid of points is laid out, each point is interpolated from its four
// neighbours, and the mean or the largest of them is the result.
template <typename Class>
struct RoiAlignRules : Class {
  using Class::mode;
  using Class::output_height;
  using Class::output_width;
  using Class::sampling_ratio;
  using Class::spatial_scale;

  static constexpr auto Fields() {
    return FieldList(Field<&Class::mode>("mode"),
                     Field<&Class::output_height>("output_height"),
                     Field<&Class::output_width>("output_width"),
                     Field<&Class::sampling_ratio>("sampling_ratio"),
                     Field<&Class::spatial_scale>("spatial_scale"));
  }
  absl::Status Check(const Inputs& in) const {
    if (output_height < 1 || output_width < 1 || sampling_ratio < 0) {
      return InvalidArgument(
          "output_height, output_width or sampling_ratio is too small");
    }
    return All(CheckRois(in, 4), RequireType(in, 2, kInt64),
               RequireRank(in, 2, 1));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return InferRois(in, output_height, output_width);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const auto x_shape = args.shape(0);
    const int64_t rois = args.shape(1)[0];
    const int64_t plane_size = x_shape[2] * x_shape[3];
    if (args.shape(2)[0] != rois || plane_size == 0) {
      return InvalidArgument(
          "{} images for {} regions of a map of {} elements, expected one each",
          args.shape(2)[0], rois, plane_size);
    }
    const int64_t shape[] = {rois, x_shape[1], output_height, output_width};
    NODEWISE_ASSIGN_OR_RETURN(const NDArray out,
                              args.MakeOutput(0, shape, args.dtype(0)));
    const std::vector<double> boxes = ToDoubles(args.in(1));
    const std::vector<double> map = ToDoubles(args.in(0));
    const auto* const batches = args.in(2).As<int64_t>();
    Bounds* const bounds = args.bounds(0);
    std::vector<double> results;
    for (int64_t roi = 0; roi < rois; ++roi) {
      NODEWISE_RETURN_IF_ERROR(
          CheckBatch(static_cast<double>(batches[roi]), x_shape[0], roi));
      const double* const box = boxes.data() + roi * 4;
      NODEWISE_ASSIGN_OR_RETURN(
          const Axis x, AxisOf(box[0], box[2], output_width, x_shape[3]));
      NODEWISE_ASSIGN_OR_RETURN(
          const Axis y, AxisOf(box[1], box[3], output_height, x_shape[2]));
      for (int64_t c = 0; c < shape[1]; ++c) {
        const double* const plane =
            map.data() + (batches[roi] * shape[1] + c) * plane_size;
        for (int64_t bin = 0; bin < output_height * output_width; ++bin) {
          const SumOfTerms sum = Sample(plane, y, x, bin);
          results.push_back(sum.result);
          if (bounds != nullptr) BoundSum(out.dtype(), sum).AppendTo(bounds);
        }
      }
    }
    StoreDoubles(results.data(), 0, CountOf(out), out);
    return absl::OkStatus();
  }

 private:
  struct Axis {
    double start;
    double bin;    // The length of one bin.
    int64_t grid;  // Points in one bin.
    int64_t size;  // The map's size.
  };
  // A region is data: its length alone says how many points are asked for, so
  // that is where it is limited.
  absl::StatusOr<Axis> AxisOf(double first, double last, int64_t bins,
                              int64_t size) const {
    const bool is_half = HasHalfPixels(*this);
    const double scale = spatial_scale;
    const double offset = is_half ? 0.5 : 0;
    const double start = first * scale - offset;
    double length = last * scale - offset - start;
    if (!is_half) length = std::max(length, 1.0);
    const double bin = length / static_cast<double>(bins);
    // Without a ratio a bin gets about one point for each element that it
    // covers.
    const double grid = sampling_ratio > 0 ? static_cast<double>(sampling_ratio)
                                           : std::ceil(bin);
    // More points would take forever.
    constexpr double kMostPoints = 1 << 16;
    if (!(grid <= kMostPoints) || !std::isfinite(start)) {
      return WrongInput(1, "needs {:g} points in a bin, expected {:g} at most",
                        grid, kMostPoints);
    }
    return Axis{start, bin, std::max<int64_t>(static_cast<int64_t>(grid), 0),
                size};
  }
  // Returns the value of one bin of a plane; `bin` counts row by row. A bin
  // without points is 0. Points of both sides are combined, so that each has
  // four terms.
  SumOfTerms Sample(const double* plane, const Axis& y, const Axis& x,
                    int64_t bin) const {
    const auto point = [](const Axis& axis, int64_t of, int64_t i) {
      return NeighboursOf(axis.start + static_cast<double>(of) * axis.bin +
                              (static_cast<double>(i) + 0.5) * axis.bin /
                                  static_cast<double>(axis.grid),
                          axis.size);
    };
    SumOfTerms sum;
    double best = -std::numeric_limits<double>::infinity();
    for (int64_t iy = 0; iy < y.grid; ++iy) {
      const Neighbours v = point(y, bin / output_width, iy);
      for (int64_t ix = 0; ix < x.grid; ++ix) {
        const Neighbours h = point(x, bin % output_width, ix);
        const double* const low = plane + v.low * x.size;
        const double* const high = plane + v.high * x.size;
        for (const double term :
             {v.low_weight * h.low_weight * low[h.low],
              v.low_weight * h.high_weight * low[h.high],
              v.high_weight * h.low_weight * high[h.low],
              v.high_weight * h.high_weight * high[h.high]}) {
          sum.Add(term);
          best = std::max(best, term);
        }
      }
    }
    // Roundings of the weights, which are calculated too.
    constexpr double kMore = 8;
    const int64_t points = x.grid * y.grid;
    if (mode == RoiMode::kMax) {
      // The largest is taken among the weighted neighbours of all points.
      if (points == 0) best = 0;
      return {kMore, std::fabs(best), best * best, best};
    }
    const auto count = static_cast<double>(std::max<int64_t>(points, 1));
    return {4 * count + kMore, sum.absolute / count,
            sum.squares / (count * count), sum.result / count};
  }
};

struct RoiAlign : RoiAlignRules<ops::RoiAlign> {
  static constexpr auto Fields() {
    return SortedFields(
        FieldList(Field<&RoiAlign::coordinate_transformation_mode>(
            "coordinate_transformation_mode")),
        RoiAlignRules::Fields());
  }
};

template <typename Class, typename Rules>
constexpr OperatorDef RoiAlignRow(int since) {
  return Row<Class, Rules>("RoiAlign", since, {"X", "rois", "batch_indices"},
                           {"Y"}, kSum);
}

constexpr OperatorDef kRois[] = {
    Row<ops::MaxUnpool, MaxUnpool>(
        "MaxUnpool", 9, {"X", "I", Optional("output_shape")}, {"output"}),
    Row<ops::MaxRoiPool, MaxRoiPool>("MaxRoiPool", 1, {"X", "rois"}, {"Y"}),
    RoiAlignRow<ops::RoiAlign10, RoiAlignRules<ops::RoiAlign10>>(10),
    RoiAlignRow<ops::RoiAlign, RoiAlign>(16),
};

}  // namespace

absl::Span<const OperatorDef> RoiOperators() { return kRois; }

}  // namespace nodewise
