#include "nodewise/ops/conv_transpose.h"

#include <algorithm>
#include <cmath>

#include "contrib/ops/util/conv.h"
#include "contrib/ops/util/elementwise.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

struct ConvTranspose : ops::ConvTranspose {
  static constexpr auto Fields() {
    return FieldList(Field<&ConvTranspose::auto_pad>("auto_pad"),
                     Field<&ConvTranspose::dilations>("dilations"),
                     Field<&ConvTranspose::group>("group"),
                     Field<&ConvTranspose::kernel_shape>("kernel_shape"),
                     Field<&ConvTranspose::output_padding>("output_padding"),
                     Field<&ConvTranspose::output_shape>("output_shape"),
                     Field<&ConvTranspose::pads>("pads"),
                     Field<&ConvTranspose::strides>("strides"));
  }
  absl::Status Check(const Inputs& in) const;
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const;
  absl::Status Evaluate(EvalArgs& args) const;
  double Flops(const Inputs& in, absl::Span<const OutputInfo> out) const;

 private:
  struct Side {
    int64_t output;
    int64_t pad;  // Before.
  };
  absl::StatusOr<Window> WindowOf(std::vector<int64_t> kernel) const;
  absl::StatusOr<Side> PlaceSide(const Window& window, size_t side,
                                 int64_t input) const;
  absl::Status CheckList(const char* name, const std::vector<int64_t>& list,
                         size_t spatial, int64_t least) const;
  absl::StatusOr<WindowGeometry> Place(const EvalArgs& args,
                                       std::vector<int64_t>* shape) const;
};

absl::Status ConvTranspose::CheckList(const char* name,
                                      const std::vector<int64_t>& list,
                                      size_t spatial, int64_t least) const {
  if (list.empty()) return absl::OkStatus();
  if (list.size() != spatial) {
    return AttributeError(
        name, fmt::format("has {} numbers, expected {}", list.size(), spatial));
  }
  for (const int64_t number : list) {
    if (number >= least && number <= int64_t{1} << 31) continue;
    return AttributeError(
        name, fmt::format("has {}, expected {} to 2^31", number, least));
  }
  return absl::OkStatus();
}

absl::StatusOr<Window> ConvTranspose::WindowOf(
    std::vector<int64_t> kernel) const {
  const size_t spatial = kernel.size();
  NODEWISE_RETURN_IF_ERROR(
      All(CheckList("output_padding", output_padding, spatial, 0),
          CheckList("output_shape", output_shape, spatial, 1)));
  return ResolveWindow(
      {auto_pad, std::move(kernel), strides, dilations, pads, false},
      static_cast<int>(spatial));
}

absl::StatusOr<ConvTranspose::Side> ConvTranspose::PlaceSide(
    const Window& window, size_t side, int64_t input) const {
  // Calculations with longer sides overflow.
  constexpr int64_t kLongest = int64_t{1} << 30;
  if (input < 0 || input > kLongest) {
    return absl::InvalidArgumentError(
        fmt::format("spatial side {} is {}, expected 0 to 2^30", side, input));
  }
  const int64_t stride = window.strides[side];
  const int64_t reach = (window.kernel[side] - 1) * window.dilations[side] + 1;
  const int64_t extra = output_padding.empty() ? 0 : output_padding[side];
  int64_t full = 0;
  if (__builtin_add_overflow(stride * (input - 1), extra, &full) ||
      __builtin_add_overflow(full, reach, &full)) {
    return absl::InvalidArgumentError("the output's sides overflow");
  }
  const bool is_same =
      auto_pad == Padding::kSameUpper || auto_pad == Padding::kSameLower;
  if (output_shape.empty() && !is_same) {
    const int64_t pad = window.pads[side];
    const int64_t output =
        full - pad - window.pads[side + window.kernel.size()];
    if (output >= 1) return Side{output, pad};
    return absl::InvalidArgumentError(
        fmt::format("spatial side {} of the output is {}, expected 1 or more",
                    side, output));
  }
  const int64_t output =
      output_shape.empty() ? input * stride : output_shape[side];
  const int64_t total = std::max<int64_t>(full - output, 0);
  const bool less_before = auto_pad == Padding::kSameUpper;
  return Side{output, less_before ? total / 2 : total - total / 2};
}

absl::Status ConvTranspose::Check(const Inputs& in) const {
  NODEWISE_RETURN_IF_ERROR(All(RequireFloat(in, 0), RequireSameType(in),
                               RequireRank(in, 0, 3, INT_MAX),
                               RequireRank(in, 1, 3, INT_MAX)));
  if (group < 1) {
    return AttributeError("group",
                          fmt::format("is {}, expected 1 or more", group));
  }
  if (!in.type(1).has_rank()) return absl::OkStatus();
  const Shape& w = *in.type(1).shape;
  NODEWISE_RETURN_IF_ERROR(All(RequireRank(in, 0, static_cast<int>(w.size())),
                               RequireLength(in, 2, Times(w[1], group))));
  if (w[0].is_known() && w[0].size() % group != 0) {
    return InputError(
        1, fmt::format("is for {} channels, expected a multiple of {} "
                       "(group)",
                       w[0].size(), group));
  }
  if (!in.type(0).has_rank()) return absl::OkStatus();
  const Dim& channels = (*in.type(0).shape)[1];
  if (channels.is_known() && w[0].is_known() &&
      channels.size() != w[0].size()) {
    return InputError(0, fmt::format("has {} channels, expected {} as the "
                                     "weights are for",
                                     channels.size(), w[0].size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<OutputInfos> ConvTranspose::Infer(const Inputs& in) const {
  TensorType type(in.type(0).has_dtype() ? in.type(0).dtype : in.type(1).dtype);
  if (!in.type(0).has_rank()) return OutputInfos{type};
  const Shape& x = *in.type(0).shape;
  Shape shape = UnknownShape(static_cast<int>(x.size()));
  shape[0] = x[0];
  if (in.type(1).has_rank()) shape[1] = Times((*in.type(1).shape)[1], group);
  NODEWISE_ASSIGN_OR_RETURN(std::vector<int64_t> kernel,
                            KernelOf(kernel_shape, in.type(1)));
  if (!kernel.empty()) {
    if (kernel.size() + 2 != x.size()) {
      return AttributeError("kernel_shape", "is of another rank than input 0");
    }
    NODEWISE_ASSIGN_OR_RETURN(const Window window, WindowOf(std::move(kernel)));
    for (size_t s = 0; s + 2 < x.size(); ++s) {
      if (!x[s + 2].is_known()) continue;
      NODEWISE_ASSIGN_OR_RETURN(const Side side,
                                PlaceSide(window, s, x[s + 2].size()));
      shape[s + 2] = side.output;
    }
  }
  type.shape = std::move(shape);
  if (const auto sizes = type.sizes()) {
    NODEWISE_RETURN_IF_ERROR(NumElements(*sizes).status());
  }
  return OutputInfos{std::move(type)};
}

double ConvTranspose::Flops(const Inputs& in,
                            absl::Span<const OutputInfo>) const {
  const auto weights = in.type(1).sizes();
  const auto input = in.type(0).sizes();
  if (!weights || !input) return 0;
  double flops = 2;
  for (size_t i = 1; i < weights->size(); ++i) {
    flops *= static_cast<double>((*weights)[i]);
  }
  for (const int64_t size : *input) flops *= static_cast<double>(size);
  return flops;
}

absl::StatusOr<WindowGeometry> ConvTranspose::Place(
    const EvalArgs& args, std::vector<int64_t>* shape) const {
  const auto weights = args.shape(1);
  NODEWISE_ASSIGN_OR_RETURN(const Window window,
                            WindowOf({weights.begin() + 2, weights.end()}));
  *shape = {args.shape(0)[0], weights[1] * group};
  // The convolution of the input with gaps between its elements.
  WindowGeometry geometry;
  geometry.kernel = window.kernel;
  geometry.spread = window.strides;
  for (size_t s = 0; s < window.kernel.size(); ++s) {
    const int64_t input = args.shape(0)[s + 2];
    NODEWISE_ASSIGN_OR_RETURN(const Side side, PlaceSide(window, s, input));
    geometry.strides.push_back(1);
    geometry.dilations.push_back(-window.dilations[s]);
    geometry.offsets.push_back(side.pad);
    geometry.input.push_back(input);
    geometry.output.push_back(side.output);
    shape->push_back(side.output);
  }
  return geometry;
}

// The weights as doubles, those of one output channel together.
std::vector<double> TurnWeights(const NDArray& weights, int64_t group) {
  const std::vector<double> from = ToDoubles(weights);
  const int64_t channels = weights.shape()[0] / group;
  const int64_t rows = weights.shape()[1];
  const int64_t kernel = Product(weights.shape().subspan(2));
  std::vector<double> to(from.size());
  auto at = from.begin();
  for (int64_t g = 0; g < group; ++g) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t m = 0; m < rows; ++m) {
        std::copy_n(at, kernel,
                    to.begin() + ((g * rows + m) * channels + c) * kernel);
        at += kernel;
      }
    }
  }
  return to;
}

absl::Status ConvTranspose::Evaluate(EvalArgs& args) const {
  std::vector<int64_t> shape;
  NODEWISE_ASSIGN_OR_RETURN(const WindowGeometry geometry, Place(args, &shape));
  NODEWISE_RETURN_IF_ERROR(args.MakeOutput(0, shape, args.dtype(0)).status());
  const std::vector<double> weights = TurnWeights(args.in(1), group);
  const WindowColumns columns(geometry, args.dtype(0), 0);
  const int64_t channels = args.shape(0)[1] / group;
  const NDArray& x = args.in(0);
  const auto pack = [&](const Strips& strips) {
    columns.Pack(ElementAt(x.dtype(), x.data(),
                           strips.item * channels * columns.image_size()),
                 strips);
  };
  ConvProducts products{shape[0], group, {}, {}, pack};
  products.sizes = {shape[0] * group, args.shape(1)[1], columns.num_columns(),
                    channels * columns.kernel_size()};
  products.weights = {kFloat64, weights.data(), products.sizes.depth, 1};
  // The other taps fall into the gaps.
  double terms = static_cast<double>(channels);
  for (size_t s = 0; s < geometry.kernel.size(); ++s) {
    const int64_t taps =
        (geometry.kernel[s] + geometry.spread[s] - 1) / geometry.spread[s];
    terms *= static_cast<double>(taps);
  }
  // If strides and dilations share a factor, all taps may count.
  for (size_t s = 0; s < geometry.kernel.size(); ++s) {
    if (geometry.dilations[s] != -1) {
      terms = static_cast<double>(products.sizes.depth);
    }
  }
  NODEWISE_RETURN_IF_ERROR(StoreConv(args, products, 2, terms));
  // Kernels that put zeros into the gaps multiply weights by them, which shows
  // where weights are infinite; others do not.
  if (!std::all_of(weights.begin(), weights.end(),
                   [](double weight) { return std::isfinite(weight); })) {
    AllowAnyForNan(args);
  }
  return absl::OkStatus();
}

constexpr OperatorDef kConvTransposes[] = {
    Row<ops::ConvTranspose, ConvTranspose>({.name = "ConvTranspose",
                                            .since = 1,
                                            .inputs = {"X", "W", Optional("B")},
                                            .outputs = {"Y"},
                                            .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> ConvTransposeOperators() {
  return kConvTransposes;
}

}  // namespace nodewise
