#include "nodewise/ops/deform_conv.h"

#include <cmath>
#include <limits>

#include "contrib/ops/util/conv.h"
#include "fmt/format.h"
#include "nodewise/kernels/matrix_kernel.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

struct DeformConv : ops::DeformConv {
  static constexpr auto Fields() {
    return FieldList(Field<&DeformConv::dilations>("dilations"),
                     Field<&DeformConv::group>("group"),
                     Field<&DeformConv::kernel_shape>("kernel_shape"),
                     Field<&DeformConv::offset_group>("offset_group"),
                     Field<&DeformConv::pads>("pads"),
                     Field<&DeformConv::strides>("strides"));
  }
  absl::Status Check(const Inputs& in) const;
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const;
  absl::Status Evaluate(EvalArgs& args) const;

 private:
  WindowAttributes WindowOf(std::vector<int64_t> kernel) const {
    return {
        Padding::kNotset, std::move(kernel), strides, dilations, pads, false};
  }
};

absl::Status DeformConv::Check(const Inputs& in) const {
  // A sample has 2^n neighbours.
  constexpr int kMostSides = 6;
  NODEWISE_RETURN_IF_ERROR(All(RequireFloat(in, 0), RequireSameType(in),
                               RequireRank(in, 0, 3, 2 + kMostSides),
                               RequireRank(in, 1, 3, 2 + kMostSides)));
  if (group < 1 || offset_group < 1) {
    return AttributeError("group",
                          "or offset_group is below 1, expected 1 or more");
  }
  if (!in.type(0).has_rank()) return absl::OkStatus();
  const int rank = in.type(0).rank();
  return All(RequireRank(in, 1, rank), RequireRank(in, 2, rank),
             RequireRank(in, 3, 1), RequireRank(in, 4, rank));
}

absl::StatusOr<OutputInfos> DeformConv::Infer(const Inputs& in) const {
  TensorType type(in.type(0).dtype);
  if (!in.type(0).has_rank()) return OutputInfos{std::move(type)};
  NODEWISE_ASSIGN_OR_RETURN(std::vector<int64_t> kernel,
                            KernelOf(kernel_shape, in.type(1)));
  const Shape& x = *in.type(0).shape;
  NODEWISE_ASSIGN_OR_RETURN(const Shape sides,
                            WindowedSides(WindowOf(std::move(kernel)), x));
  Shape shape = UnknownShape(2);
  shape[0] = x[0];
  if (in.type(1).has_rank()) shape[1] = (*in.type(1).shape)[0];
  shape.insert(shape.end(), sides.begin(), sides.end());
  type.shape = std::move(shape);
  if (const auto sizes = type.sizes()) {
    NODEWISE_RETURN_IF_ERROR(NumElements(*sizes).status());
  }
  return OutputInfos{std::move(type)};
}

// The value at a place between elements: the weighted sum of its neighbours,
// where those outside are 0.
double SampleAt(const double* plane, absl::Span<const int64_t> sizes,
                const double* place) {
  const size_t sides = sizes.size();
  double sum = 0;
  for (uint32_t corner = 0; corner < (1u << sides); ++corner) {
    double weight = 1;
    int64_t element = 0;
    bool is_inside = true;
    for (size_t s = 0; s < sides && is_inside; ++s) {
      // NaN is outside too.
      if (!(place[s] > -1 && place[s] < static_cast<double>(sizes[s]))) {
        return 0;
      }
      const double low = std::floor(place[s]);
      const bool is_high = (corner >> s & 1) != 0;
      const int64_t at = static_cast<int64_t>(low) + (is_high ? 1 : 0);
      weight *= is_high ? place[s] - low : 1 - (place[s] - low);
      is_inside = at >= 0 && at < sizes[s];
      element = element * sizes[s] + at;
    }
    if (is_inside) sum += weight * plane[element];
  }
  return sum;
}

// The samples as the columns of a product.
class Samples {
 public:
  Samples(const EvalArgs& args, const PlacedWindow& placed, int64_t group,
          int64_t offset_group)
      : placed_(placed),
        x_(ToDoubles(args.in(0))),
        offsets_(ToDoubles(args.in(2))),
        channels_(args.shape(0)[1]),
        group_(group),
        offset_group_(offset_group),
        kernel_(Product(placed.window.kernel)),
        places_(Product(placed.output)),
        plane_(Product(placed.input)) {
    if (args.has(4)) mask_ = ToDoubles(args.in(4));
  }

  int64_t kernel() const { return kernel_; }
  int64_t places() const { return places_; }

  void Pack(const Strips& strips) const {
    const int64_t channels = channels_ / group_;
    std::fill_n(strips.to,
                (strips.lines + strips.width - 1) / strips.width *
                    strips.width * strips.steps,
                0.0);
    for (int64_t i = 0; i < strips.lines; ++i) {
      double* const strip = strips.to +
                            i / strips.width * strips.width * strips.steps +
                            i % strips.width;
      for (int64_t k = 0; k < strips.steps; ++k) {
        const int64_t step = strips.step + k;
        const int64_t channel =
            strips.item % group_ * channels + step / kernel_;
        strip[k * strips.width] =
            At(strips.item / group_, channel, step % kernel_, strips.line + i);
      }
    }
  }

 private:
  double At(int64_t image, int64_t channel, int64_t tap, int64_t place) const {
    const size_t sides = placed_.input.size();
    const int64_t part = channel / (channels_ / offset_group_);
    const int64_t taps = (image * offset_group_ + part) * kernel_ + tap;
    double at[8];
    int64_t rest_of_tap = tap;
    int64_t rest = place;
    for (size_t s = sides; s-- > 0;) {
      const Window& window = placed_.window;
      const int64_t offset =
          (taps * static_cast<int64_t>(sides) + static_cast<int64_t>(s)) *
              places_ +
          place;
      at[s] =
          static_cast<double>(
              rest % placed_.output[s] * window.strides[s] - window.pads[s] +
              rest_of_tap % window.kernel[s] * window.dilations[s]) +
          offsets_[static_cast<size_t>(offset)];
      rest /= placed_.output[s];
      rest_of_tap /= window.kernel[s];
    }
    const double sample = SampleAt(
        x_.data() + (image * channels_ + channel) * plane_, placed_.input, at);
    if (mask_.empty()) return sample;
    return sample * mask_[static_cast<size_t>(taps * places_ + place)];
  }

  const PlacedWindow& placed_;
  const std::vector<double> x_;
  const std::vector<double> offsets_;
  std::vector<double> mask_;
  const int64_t channels_;
  const int64_t group_;
  const int64_t offset_group_;
  const int64_t kernel_;
  const int64_t places_;
  const int64_t plane_;
};

absl::Status RequireSides(const EvalArgs& args, size_t i,
                          const std::vector<int64_t>& expected) {
  if (!args.has(i) || args.shape(i) == absl::MakeConstSpan(expected)) {
    return absl::OkStatus();
  }
  return InputError(
      i, fmt::format("is of shape {}, expected {}",
                     ShapeToString(args.shape(i)), ShapeToString(expected)));
}

absl::Status DeformConv::Evaluate(EvalArgs& args) const {
  const auto x = args.shape(0);
  const auto w = args.shape(1);
  NODEWISE_ASSIGN_OR_RETURN(
      const PlacedWindow placed,
      PlaceWindow(WindowOf({w.begin() + 2, w.end()}), x.subspan(2)));
  const int64_t kernel = Product(placed.window.kernel);
  const auto sides = static_cast<int64_t>(placed.input.size());
  if (x[1] % group != 0 || x[1] / group != w[1] || w[0] % group != 0 ||
      x[1] % offset_group != 0) {
    return InputError(1, fmt::format("is of shape {}, which does not fit "
                                     "{} channels in {} groups",
                                     ShapeToString(w), x[1], group));
  }
  const auto shape_of = [&](int64_t channels) {
    std::vector<int64_t> shape = {x[0], channels};
    shape.insert(shape.end(), placed.output.begin(), placed.output.end());
    return shape;
  };
  NODEWISE_RETURN_IF_ERROR(
      All(RequireSides(args, 2, shape_of(offset_group * kernel * sides)),
          RequireSides(args, 3, {w[0]}),
          RequireSides(args, 4, shape_of(offset_group * kernel))));
  NODEWISE_RETURN_IF_ERROR(
      args.MakeOutput(0, shape_of(w[0]), args.dtype(0)).status());
  const Samples samples(args, placed, group, offset_group);
  const auto pack = [&](const Strips& strips) { samples.Pack(strips); };
  ConvProducts products{x[0], group, {}, {}, pack};
  products.sizes = {x[0] * group, w[0] / group, samples.places(),
                    w[1] * kernel};
  products.weights = {args.dtype(1), args.in(1).data(), products.sizes.depth,
                      1};
  // Each sample is a sum of its own.
  const auto terms = static_cast<double>(products.sizes.depth) *
                     static_cast<double>(int64_t{1} << sides);
  NODEWISE_RETURN_IF_ERROR(StoreConv(args, products, 3, terms));
  // Rounding a place may change its neighbours: nothing is proved.
  if (Bounds* const bounds = args.bounds(0)) {
    std::fill(bounds->proved.begin(), bounds->proved.end(),
              std::numeric_limits<double>::quiet_NaN());
  }
  return absl::OkStatus();
}

constexpr OperatorDef kDeformConvs[] = {
    Row<ops::DeformConv, DeformConv>(
        {.name = "DeformConv",
         .since = 19,
         .inputs = {"X", "W", "offset", Optional("B"), Optional("mask")},
         .outputs = {"Y"},
         .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> DeformConvOperators() { return kDeformConvs; }

}  // namespace nodewise
