#include "nodewise/ops/conv.h"

#include <algorithm>
#include <cmath>

#include "absl/functional/function_ref.h"
#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/field_lists.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/sum_bounds.h"
#include "contrib/ops/util/window_rules.h"
#include "nodewise/kernels/matrix_kernel.h"
#include "nodewise/kernels/tap_sums.h"
#include "nodewise/kernels/window_columns.h"
#include "nodewise/support/status.h"

namespace nodewise {

namespace {

// All convolutions are matrix products. For each image and each group of
// channels the weights are the left factor, a row for each output channel, and
// the right factor has a column for each place of the output: what the window
// sees there. The columns are made block by block where the product needs them,
// since all of them together would take as much memory as the input times the
// size of the kernel. The kinds differ in what fills a column: elements of the
// input, elements with gaps between them (ConvTranspose), or samples at places
// between the elements (DeformConv).

// The functions that pack and store are called by several threads, each with
// blocks of its own.
struct ConvProducts {
  int64_t images = 0;
  int64_t groups = 1;
  ProductSizes sizes;
  // Weights, group by group; row m and step k of a group at m * depth + k.
  Factor weights;
  PackStrips columns;  // Item by item: image * groups + group.
  // Another way to compute the products; null if it is not faster.
  const TapSums* taps = nullptr;
};
// All images share the weights: an item is an image and a group, and the group
// alone decides which weights it has.
auto WeightPackerOf(const ConvProducts& products) {
  return [&products](const Strips& strips) {
    const ProductSizes& sizes = products.sizes;
    Factor factor = products.weights;
    const int64_t group = strips.item % products.groups;
    factor.data =
        ElementAt(factor.dtype, factor.data, group * sizes.rows * sizes.depth);
    if (factor.zero_point_by_line) factor.zero_points += group * sizes.rows;
    PackFactor(factor, strips);
  };
}

// Depthwise convolutions have so few rows that making the columns costs more
// than multiplying them; their sums go tap by tap instead.
void MultiplyConv(const ConvProducts& products, Terms terms, StoreTile store) {
  const auto pack_weights = WeightPackerOf(products);
  if (products.taps != nullptr) {
    SumByTaps(*products.taps, products.sizes, terms, pack_weights, store);
    return;
  }
  MultiplyMatrices(products.sizes, terms, pack_weights, products.columns,
                   store);
}

// Multiplies, and calls f(begin, bias, sums, count) for each row of a tile:
// elements of the output from `begin` on, all of one channel, whose bias it
// gets too. `bias` has a number for each channel, or none.
template <typename F>
void ForEachConvRow(const ConvProducts& products, Terms terms,
                    const std::vector<double>& bias, F f) {
  const ProductSizes& sizes = products.sizes;
  MultiplyConv(products, terms, [&](const ProductTile& tile) {
    for (int64_t r = 0; r < tile.rows; ++r) {
      const int64_t row = tile.item * sizes.rows + tile.row + r;
      const auto channel =
          static_cast<size_t>(row % (products.groups * sizes.rows));
      f(row * sizes.columns + tile.column, bias.empty() ? 0 : bias[channel],
        tile.Row(r), tile.columns);
    }
  });
}

// The bounds need two more products, of absolute values and of squares, and
// take twice as long as the result itself.
void FillConvBounds(const ConvProducts& products, const NDArray& out,
                    const std::vector<double>& bias, double terms,
                    Bounds* bounds) {
  const auto fill = [&](Terms of, std::vector<double>* to) {
    to->resize(static_cast<size_t>(CountOf(out)));
    ForEachConvRow(
        products, of, bias,
        [&](int64_t begin, double b, const double* sums, int64_t count) {
          b = of == Terms::kAbsolute ? std::fabs(b) : b * b;
          for (int64_t i = 0; i < count; ++i) {
            (*to)[static_cast<size_t>(begin + i)] = sums[i] + b;
          }
        });
  };
  fill(Terms::kAbsolute, &bounds->proved);
  fill(Terms::kSquared, &bounds->expected);
  BoundSums(out, bias.empty() ? terms : terms + 1, bounds);
}

// Multiplies, adds the bias (input `bias_input`, if given) and rounds into
// output 0; also sets bounds if they are wanted. At most `terms` terms of each
// sum are not 0.
absl::Status StoreConv(EvalArgs& args, const ConvProducts& products,
                       size_t bias_input, double terms) {
  const NDArray& out = args.outputs()[0];
  const std::vector<double> bias = GivenDoubles(args, bias_input);
  NODEWISE_RETURN_IF_ERROR(WithFloat(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const to = out.As<T>();
    ForEachConvRow(
        products, Terms::kPlain, bias,
        [&](int64_t begin, double b, const double* sums, int64_t count) {
          for (int64_t i = 0; i < count; ++i) {
            to[begin + i] = FromDouble<T>(sums[i] + b);
          }
        });
  }));
  if (args.bounds(0) != nullptr) {
    FillConvBounds(products, out, bias, terms, args.bounds(0));
  }
  return absl::OkStatus();
}

absl::Status RequireLength(const Inputs& in, size_t i, const Dim& expected) {
  NODEWISE_RETURN_IF_ERROR(RequireRank(in, i, 1));
  const Dim found = SideOf(in, i, 0);
  if (!found.is_known() || !expected.is_known() || found == expected) {
    return absl::OkStatus();
  }
  return WrongInput(i, "has {} elements, expected {}", found.size(),
                    expected.size());
}

// `args` has its bias in input 2.
void BoundConvAt(const EvalArgs& args, const ConvProducts& products,
                 const NDArray& output, absl::Span<const int64_t> elements,
                 Bounds* bounds) {
  const ProductSizes& sizes = products.sizes;
  SumTermsAt(sizes, WeightPackerOf(products), products.columns, elements,
             bounds);
  const auto terms = static_cast<double>(sizes.depth);
  if (!args.has(2)) return BoundSumsAt(output, elements, terms, bounds);
  const std::vector<double> bias = ToDoubles(args.in(2));
  for (size_t i = 0; i < elements.size(); ++i) {
    const int64_t channel =
        elements[i] / sizes.columns % (products.groups * sizes.rows);
    const double b = bias[static_cast<size_t>(channel)];
    bounds->proved[i] += std::fabs(b);
    bounds->expected[i] += b * b;
  }
  BoundSumsAt(output, elements, terms + 1, bounds);
}

WindowAttributes WindowOf(const ops::ConvAttributes& op,
                          std::vector<int64_t> kernel) {
  return {op.auto_pad, std::move(kernel), op.strides, op.dilations, op.pads};
}

// Checks what all kinds with groups have in common. A rank of 3 is the least:
// images and channels come before the sides that a window slides over.
absl::Status CheckGroups(const ops::ConvAttributes& op, const Inputs& in) {
  NODEWISE_RETURN_IF_ERROR(
      All(RequireRank(in, 0, 3, INT_MAX), RequireRank(in, 1, 3, INT_MAX)));
  if (op.group < 1) {
    return WrongAttribute("group", "is {}, expected 1 or more", op.group);
  }
  if (!in.type(1).has_rank()) return absl::OkStatus();
  return RequireRank(in, 0, in.type(1).rank());
}

absl::Status CheckShapes(const ops::ConvAttributes& op, const Inputs& in) {
  NODEWISE_RETURN_IF_ERROR(CheckGroups(op, in));
  const Dim kernels = SideOf(in, 1, 0);
  if (kernels.is_known() && kernels.size() % op.group != 0) {
    return WrongInput(1, "has {} kernels, expected a multiple of {} (group)",
                      kernels.size(), op.group);
  }
  const Dim channels = SideOf(in, 0, 1);
  const Dim expected = Times(SideOf(in, 1, 1), op.group);
  if (channels.is_known() && expected.is_known() && channels != expected) {
    return WrongInput(
        0, "has {} channels, expected {} as the weights have in {} groups",
        channels.size(), expected.size(), op.group);
  }
  return absl::OkStatus();
}

// The output's type: images, channels as there are kernels, and how often the
// window fits along each side of `input`, which may be unknown.
absl::StatusOr<OutputInfos> InferWindowed(const WindowAttributes& window,
                                          const Inputs& in, const Shape& input,
                                          DLDataType dtype) {
  NODEWISE_ASSIGN_OR_RETURN(const Shape sides, WindowedSides(window, input));
  Shape shape = {input[0], SideOf(in, 1, 0)};
  shape.insert(shape.end(), sides.begin(), sides.end());
  return Countable(OutputInfos{TensorType(dtype, std::move(shape))});
}

// Both inputs have the same rank, so either tells that of the output.
absl::StatusOr<OutputInfos> InferShape(const ops::ConvAttributes& op,
                                       const Inputs& in, DLDataType dtype) {
  NODEWISE_ASSIGN_OR_RETURN(std::vector<int64_t> kernel,
                            KernelOf(op.kernel_shape, in.type(1)));
  const bool has_rank = in.type(0).has_rank();
  if (!has_rank && !in.type(1).has_rank()) {
    return OutputInfos{TensorType(dtype)};
  }
  const Shape input =
      has_rank ? *in.type(0).shape : UnknownShape(in.type(1).rank());
  return InferWindowed(WindowOf(op, std::move(kernel)), in, input, dtype);
}

// Each weight of one output channel is multiplied once for each of `places`:
// the elements of the output, or for ConvTranspose those of the input.
double ConvFlops(const Inputs& in, const TensorType& places) {
  const auto weights = in.type(1).sizes();
  const auto sizes = places.sizes();
  if (!weights || !sizes) return 0;
  double flops = 2;
  for (size_t i = 1; i < weights->size(); ++i) {
    flops *= static_cast<double>((*weights)[i]);
  }
  for (const int64_t size : *sizes) flops *= static_cast<double>(size);
  return flops;
}

absl::StatusOr<PlacedWindow> PlaceConv(const ops::ConvAttributes& op,
                                       const EvalArgs& args) {
  const auto weights = args.shape(1);
  return PlaceWindow(WindowOf(op, {weights.begin() + 2, weights.end()}),
                     args.shape(0).subspan(2));
}

std::vector<int64_t> OutputShape(const PlacedWindow& placed, int64_t images,
                                 int64_t channels) {
  std::vector<int64_t> shape = {images, channels};
  shape.insert(shape.end(), placed.output.begin(), placed.output.end());
  return shape;
}

ConvProducts ProductsOf(const EvalArgs& args, int64_t group,
                        const WindowColumns& columns, PackStrips pack) {
  ConvProducts products{args.shape(0)[0], group, {}, {}, pack};
  ProductSizes& sizes = products.sizes;
  sizes.items = products.images * group;
  sizes.rows = args.shape(1)[0] / group;
  sizes.columns = columns.num_columns();
  sizes.depth = args.shape(1)[1] * columns.kernel_size();
  sizes.right_is_side_by_side = true;
  products.weights = {args.dtype(1), args.in(1).data(), sizes.depth, 1};
  return products;
}

// An item is one group of channels of one image. Items are numbered as their
// channels lie in memory, so that the elements of an item are one piece.
auto PackerOf(const EvalArgs& args, int64_t group,
              const WindowColumns& columns) {
  const int64_t channels = args.shape(0)[1] / group;
  const NDArray& x = args.in(0);
  return [&x, &columns, channels](const Strips& strips) {
    columns.Pack(ElementAt(x.dtype(), x.data(),
                           strips.item * channels * columns.image_size()),
                 strips);
  };
}

struct Conv : ops::Conv {
  static constexpr auto Fields() { return ConvFields(); }
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(
        All(RequireFloat(in, 0), RequireSameType(in), CheckShapes(*this, in)));
    if (!in.type(1).has_rank()) return absl::OkStatus();
    return RequireLength(in, 2, (*in.type(1).shape)[0]);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return InferShape(*this, in, SharedType(in));
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo> out) const {
    return ConvFlops(in, out[0].type);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const auto placed, PlaceConv(*this, args));
    const auto shape = OutputShape(placed, args.shape(0)[0], args.shape(1)[0]);
    NODEWISE_RETURN_IF_ERROR(args.MakeOutput(0, shape, args.dtype(0)).status());
    const WindowGeometry geometry = GeometryOf(placed);
    const WindowColumns columns(geometry, args.dtype(0), 0);
    const auto pack = PackerOf(args, group, columns);
    ConvProducts products = ProductsOf(args, group, columns, pack);
    // Single elements of the bounds are always found by the columns, in
    // BoundsAt(): there are too few of them to choose.
    const TapSums taps{geometry, args.shape(1)[1], args.dtype(0),
                       args.in(0).data()};
    if (IsFasterByTaps(taps, products.sizes)) products.taps = &taps;
    return StoreConv(args, products, 2,
                     static_cast<double>(products.sizes.depth));
  }
  double LeastBound(const EvalArgs& args) const {
    return LeastBoundOfSum(static_cast<double>(Product(args.shape(1))) /
                           static_cast<double>(args.shape(1)[0]));
  }
  absl::Status BoundsAt(const EvalArgs& args, const NDArray& output,
                        absl::Span<const int64_t> elements,
                        Bounds* bounds) const {
    NODEWISE_ASSIGN_OR_RETURN(const auto placed, PlaceConv(*this, args));
    const WindowColumns columns(GeometryOf(placed), args.dtype(0), 0);
    const auto pack = PackerOf(args, group, columns);
    BoundConvAt(args, ProductsOf(args, group, columns, pack), output, elements,
                bounds);
    return absl::OkStatus();
  }
};

// Sums of products of 9 bits are exact in double. The result wraps around at 32
// bits as integer kernels do, hence the cast by way of int64.
struct ConvInteger : ops::ConvInteger {
  static constexpr auto Fields() { return ConvFields(); }
  absl::Status Check(const Inputs& in) const {
    for (const size_t i : {0, 1}) {
      if (!in.type(i).has_dtype()) continue;
      const DLDataType dtype = in.type(i).dtype;
      if (!(dtype == kInt8) && !(dtype == kUint8)) {
        return WrongInput(i, "is of type {}, expected int8 or uint8",
                          ToString(dtype));
      }
      NODEWISE_RETURN_IF_ERROR(RequireType(in, i + 2, dtype));
    }
    return CheckShapes(*this, in);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return InferShape(*this, in, kInt32);
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo> out) const {
    return ConvFlops(in, out[0].type);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const auto placed, PlaceConv(*this, args));
    const auto shape = OutputShape(placed, args.shape(0)[0], args.shape(1)[0]);
    NODEWISE_ASSIGN_OR_RETURN(const NDArray out,
                              args.MakeOutput(0, shape, kInt32));
    if (args.has(2) && CountOf(args.in(2)) != 1) {
      return InputError(2, "has more than one element, expected a scalar");
    }
    const double x_zero = args.has(2) ? ToDoubles(args.in(2))[0] : 0;
    const std::vector<double> w_zeros = GivenDoubles(args, 3);
    const size_t num_zeros = w_zeros.size();
    if (args.has(3) && num_zeros != 1 &&
        static_cast<int64_t>(num_zeros) != shape[1]) {
      return WrongInput(3, "has {} elements, expected 1 or {}", num_zeros,
                        shape[1]);
    }
    const WindowColumns columns(GeometryOf(placed), args.dtype(0), x_zero);
    const auto pack = PackerOf(args, group, columns);
    ConvProducts products = ProductsOf(args, group, columns, pack);
    if (num_zeros > 0) products.weights.zero_points = w_zeros.data();
    products.weights.zero_point_by_line = num_zeros > 1;
    auto* const to = out.As<int32_t>();
    ForEachConvRow(
        products, Terms::kPlain, {},
        [&](int64_t begin, double, const double* sums, int64_t count) {
          for (int64_t i = 0; i < count; ++i) {
            to[begin + i] = static_cast<int32_t>(static_cast<int64_t>(sums[i]));
          }
        });
    return absl::OkStatus();
  }
};

// The weights as doubles, those of one output channel together. ConvTranspose
// has its weights by input channel; the product needs those of one output
// channel in a row.
std::vector<double> RegroupWeights(const NDArray& weights, int64_t group) {
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

// Computed as the convolution of the input with stride - 1 zeros between its
// elements and the kernel turned around. The zeros are never stored: a geometry
// whose spread is the stride skips the places between elements.
struct ConvTranspose : ops::ConvTranspose {
  static constexpr auto Fields() {
    return SortedFields(
        ConvFields(),
        FieldList(Field<&ConvTranspose::output_padding>("output_padding"),
                  Field<&ConvTranspose::output_shape>("output_shape")));
  }
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(
        All(RequireFloat(in, 0), RequireSameType(in), CheckGroups(*this, in)));
    if (!in.type(1).has_rank()) return absl::OkStatus();
    const Shape& w = *in.type(1).shape;
    NODEWISE_RETURN_IF_ERROR(RequireLength(in, 2, Times(w[1], group)));
    if (w[0].is_known() && w[0].size() % group != 0) {
      return WrongInput(1,
                        "is for {} channels, expected a multiple of {} (group)",
                        w[0].size(), group);
    }
    const Dim channels = SideOf(in, 0, 1);
    if (channels.is_known() && w[0].is_known() && channels != w[0]) {
      return WrongInput(0,
                        "has {} channels, expected {} as the weights are for",
                        channels.size(), w[0].size());
    }
    return absl::OkStatus();
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    TensorType type(SharedType(in));
    if (!in.type(0).has_rank()) return OutputInfos{type};
    const Shape& x = *in.type(0).shape;
    Shape shape = UnknownShape(static_cast<int>(x.size()));
    shape[0] = x[0];
    if (in.type(1).has_rank()) shape[1] = Times((*in.type(1).shape)[1], group);
    NODEWISE_ASSIGN_OR_RETURN(std::vector<int64_t> kernel,
                              KernelOf(kernel_shape, in.type(1)));
    if (!kernel.empty()) {
      if (kernel.size() + 2 != x.size()) {
        return AttributeError("kernel_shape",
                              "is of another rank than input 0");
      }
      NODEWISE_ASSIGN_OR_RETURN(const Window window,
                                WindowOf(std::move(kernel)));
      for (size_t s = 0; s + 2 < x.size(); ++s) {
        if (!x[s + 2].is_known()) continue;
        NODEWISE_ASSIGN_OR_RETURN(const Side side,
                                  PlaceSide(window, s, x[s + 2].size()));
        shape[s + 2] = side.output;
      }
    }
    type.shape = std::move(shape);
    return Countable(OutputInfos{std::move(type)});
  }
  absl::Status Evaluate(EvalArgs& args) const {
    std::vector<int64_t> shape;
    NODEWISE_ASSIGN_OR_RETURN(const WindowGeometry geometry,
                              Place(args, &shape));
    NODEWISE_RETURN_IF_ERROR(args.MakeOutput(0, shape, args.dtype(0)).status());
    const std::vector<double> weights = RegroupWeights(args.in(1), group);
    const WindowColumns columns(geometry, args.dtype(0), 0);
    const int64_t channels = args.shape(0)[1] / group;
    const auto pack = PackerOf(args, group, columns);
    ConvProducts products{shape[0], group, {}, {}, pack};
    products.sizes = {shape[0] * group, args.shape(1)[1], columns.num_columns(),
                      channels * columns.kernel_size()};
    products.weights = {kFloat64, weights.data(), products.sizes.depth, 1};
    // Only some taps meet an element, the other taps fall into the gaps.
    double terms = static_cast<double>(channels);
    for (size_t s = 0; s < geometry.kernel.size(); ++s) {
      const int64_t taps =
          (geometry.kernel[s] + geometry.spread[s] - 1) / geometry.spread[s];
      terms *= static_cast<double>(taps);
    }
    // If strides and dilations share a factor, all taps may count.
    for (const int64_t dilation : geometry.dilations) {
      if (dilation != -1) terms = static_cast<double>(products.sizes.depth);
    }
    NODEWISE_RETURN_IF_ERROR(StoreConv(args, products, 2, terms));
    // Kernels that put zeros into the gaps multiply weights by them, which
    // shows where weights are infinite; others do not.
    const auto is_finite = [](double weight) { return std::isfinite(weight); };
    if (!std::ranges::all_of(weights, is_finite)) AllowAnyForNan(args);
    return absl::OkStatus();
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo>) const {
    return ConvFlops(in, in.type(0));
  }

 private:
  struct Side {
    int64_t output;
    int64_t pad;  // Before.
  };
  absl::StatusOr<Window> WindowOf(std::vector<int64_t> kernel) const {
    const size_t spatial = kernel.size();
    if (!output_padding.empty()) {
      NODEWISE_RETURN_IF_ERROR(
          CheckList("output_padding", output_padding, spatial, 0));
    }
    if (!output_shape.empty()) {
      NODEWISE_RETURN_IF_ERROR(
          CheckList("output_shape", output_shape, spatial, 1));
    }
    return ResolveWindow(
        {auto_pad, std::move(kernel), strides, dilations, pads},
        static_cast<int>(spatial));
  }
  // Without padding, an output side is stride * (input - 1) + reach long, plus
  // what output_padding adds at its end. Either the pads are given and the
  // length follows, or the length is given and the pads make up the difference.
  // With SAME_* the length is input * stride.
  absl::StatusOr<Side> PlaceSide(const Window& window, size_t side,
                                 int64_t input) const {
    // Calculations with longer sides overflow.
    constexpr int64_t kLongest = int64_t{1} << 30;
    if (input < 0 || input > kLongest) {
      return InvalidArgument("spatial side {} is {}, expected 0 to 2^30", side,
                             input);
    }
    const int64_t stride = window.strides[side];
    const int64_t reach =
        (window.kernel[side] - 1) * window.dilations[side] + 1;
    const int64_t extra = output_padding.empty() ? 0 : output_padding[side];
    int64_t full = 0;
    if (__builtin_add_overflow(stride * (input - 1), extra, &full) ||
        __builtin_add_overflow(full, reach, &full)) {
      return InvalidArgument("the output's sides overflow");
    }
    const bool is_same =
        auto_pad == Padding::kSameUpper || auto_pad == Padding::kSameLower;
    if (output_shape.empty() && !is_same) {
      const int64_t pad = window.pads[side];
      const int64_t output =
          full - pad - window.pads[side + window.kernel.size()];
      if (output >= 1) return Side{output, pad};
      return InvalidArgument(
          "spatial side {} of the output is {}, expected 1 or more", side,
          output);
    }
    const int64_t output =
        output_shape.empty() ? input * stride : output_shape[side];
    const int64_t total = std::max<int64_t>(full - output, 0);
    const bool less_before = auto_pad == Padding::kSameUpper;
    return Side{output, less_before ? total / 2 : total - total / 2};
  }
  absl::StatusOr<WindowGeometry> Place(const EvalArgs& args,
                                       std::vector<int64_t>* shape) const {
    const auto weights = args.shape(1);
    NODEWISE_ASSIGN_OR_RETURN(const Window window,
                              WindowOf({weights.begin() + 2, weights.end()}));
    *shape = {args.shape(0)[0], weights[1] * group};
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
};

// The value at a place between elements: the weighted sum of its neighbours,
// where those outside are 0. All corners of the cell around the place are
// visited, two for each side, and a bit of a number says which.
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

// The samples as the columns of a product. Each column is made from scratch for
// every channel. That is slow next to the plain convolution, but nothing larger
// than a block is ever stored.
struct Samples {
  const EvalArgs& args;
  const PlacedWindow& placed;
  const int64_t group;
  const int64_t offset_group;
  const std::vector<double> x = ToDoubles(args.in(0));
  const std::vector<double> offsets = ToDoubles(args.in(2));
  const std::vector<double> mask = GivenDoubles(args, 4);
  const int64_t all_channels = args.shape(0)[1];
  const int64_t kernel = Product(placed.window.kernel);
  const int64_t places = Product(placed.output);
  const int64_t plane = Product(placed.input);

  void Pack(const Strips& strips) const {
    const int64_t channels = all_channels / group;
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
        const int64_t channel = strips.item % group * channels + step / kernel;
        strip[k * strips.width] =
            At(strips.item / group, channel, step % kernel, strips.line + i);
      }
    }
  }

 private:
  double At(int64_t image, int64_t channel, int64_t tap, int64_t place) const {
    const size_t sides = placed.input.size();
    const int64_t part = channel / (all_channels / offset_group);
    const int64_t taps = (image * offset_group + part) * kernel + tap;
    // Check() lets at most 6 sides pass.
    double at[8];
    int64_t rest_of_tap = tap;
    int64_t rest = place;
    for (size_t s = sides; s-- > 0;) {
      const Window& window = placed.window;
      const int64_t offset =
          (taps * static_cast<int64_t>(sides) + static_cast<int64_t>(s)) *
              places +
          place;
      at[s] = static_cast<double>(
                  rest % placed.output[s] * window.strides[s] - window.pads[s] +
                  rest_of_tap % window.kernel[s] * window.dilations[s]) +
              offsets[static_cast<size_t>(offset)];
      rest /= placed.output[s];
      rest_of_tap /= window.kernel[s];
    }
    const double sample = SampleAt(
        x.data() + (image * all_channels + channel) * plane, placed.input, at);
    if (mask.empty()) return sample;
    return sample * mask[static_cast<size_t>(taps * places + place)];
  }
};

// Offsets and masks have sides that follow from the output, which need not be
// known before.
absl::Status RequireSides(const EvalArgs& args, size_t i,
                          const std::vector<int64_t>& expected) {
  if (!args.has(i) || args.shape(i) == absl::MakeConstSpan(expected)) {
    return absl::OkStatus();
  }
  return WrongInput(i, "is of shape {}, expected {}",
                    ShapeToString(args.shape(i)), ShapeToString(expected));
}

// The places of the taps are data, an offset for each tap, side and place of
// the output, and for each part of the channels that shares them. A mask may
// weigh every sample besides.
struct DeformConv : ops::DeformConv {
  static constexpr auto Fields() {
    return FieldList(Field<&DeformConv::dilations>("dilations"),
                     Field<&DeformConv::group>("group"),
                     Field<&DeformConv::kernel_shape>("kernel_shape"),
                     Field<&DeformConv::offset_group>("offset_group"),
                     Field<&DeformConv::pads>("pads"),
                     Field<&DeformConv::strides>("strides"));
  }
  absl::Status Check(const Inputs& in) const {
    // On n sides a sample has 2^n neighbours, so more sides would take too
    // long.
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
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    if (!in.type(0).has_rank()) return LikeInput(in);
    NODEWISE_ASSIGN_OR_RETURN(std::vector<int64_t> kernel,
                              KernelOf(kernel_shape, in.type(1)));
    return InferWindowed(WindowOf(std::move(kernel)), in, *in.type(0).shape,
                         in.type(0).dtype);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const auto x = args.shape(0);
    const auto w = args.shape(1);
    NODEWISE_ASSIGN_OR_RETURN(
        const PlacedWindow placed,
        PlaceWindow(WindowOf({w.begin() + 2, w.end()}), x.subspan(2)));
    const int64_t kernel = Product(placed.window.kernel);
    const auto sides = static_cast<int64_t>(placed.input.size());
    if (x[1] % group != 0 || x[1] / group != w[1] || w[0] % group != 0 ||
        x[1] % offset_group != 0) {
      return WrongInput(
          1, "is of shape {}, which does not fit {} channels in {} groups",
          ShapeToString(w), x[1], group);
    }
    const int64_t taps = offset_group * kernel;
    NODEWISE_RETURN_IF_ERROR(
        All(RequireSides(args, 2, OutputShape(placed, x[0], taps * sides)),
            RequireSides(args, 3, {w[0]}),
            RequireSides(args, 4, OutputShape(placed, x[0], taps))));
    NODEWISE_RETURN_IF_ERROR(
        args.MakeOutput(0, OutputShape(placed, x[0], w[0]), args.dtype(0))
            .status());
    const Samples samples{args, placed, group, offset_group};
    const auto pack = [&](const Strips& strips) { samples.Pack(strips); };
    ConvProducts products{x[0], group, {}, {}, pack};
    products.sizes = {x[0] * group, w[0] / group, samples.places,
                      w[1] * kernel};
    products.weights = {args.dtype(1), args.in(1).data(), products.sizes.depth,
                        1};
    // Each sample is a sum of its own.
    const auto terms = static_cast<double>(products.sizes.depth) *
                       static_cast<double>(int64_t{1} << sides);
    NODEWISE_RETURN_IF_ERROR(StoreConv(args, products, 3, terms));
    // Rounding a place may change its neighbours: nothing is proved.
    if (Bounds* const bounds = args.bounds(0)) {
      std::fill(bounds->proved.begin(), bounds->proved.end(), kUnknownError);
    }
    return absl::OkStatus();
  }

 private:
  WindowAttributes WindowOf(std::vector<int64_t> kernel) const {
    return {Padding::kNotset, std::move(kernel), strides, dilations, pads};
  }
};

constexpr OperatorDef kConvs[] = {
    Row<ops::Conv, Conv>("Conv", 1, {"X", "W", Optional("B")}, {"Y"}, kSum),
    Row<ops::ConvInteger, ConvInteger>(
        "ConvInteger", 10,
        {"x", "w", Optional("x_zero_point"), Optional("w_zero_point")}, {"y"}),
    Row<ops::ConvTranspose, ConvTranspose>(
        "ConvTranspose", 1, {"X", "W", Optional("B")}, {"Y"}, kSum),
    Row<ops::DeformConv, DeformConv>(
        "DeformConv", 19, {"X", "W", "offset", Optional("B"), Optional("mask")},
        {"Y"}, kSum),
};

}  // namespace

absl::Span<const OperatorDef> ConvOperators() { return kConvs; }

}  // namespace nodewise
