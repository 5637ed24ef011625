#include "contrib/ops/util/conv.h"

#include <cmath>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/product_elements.h"
#include "contrib/ops/util/sum_bounds.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

void PackWeights(const ConvProducts& products, const Strips& strips) {
  const ProductSizes& sizes = products.sizes;
  Factor factor = products.weights;
  const int64_t group = strips.item % products.groups;
  factor.data =
      ElementAt(factor.dtype, factor.data, group * sizes.rows * sizes.depth);
  if (factor.zero_point_by_line) factor.zero_points += group * sizes.rows;
  PackFactor(factor, strips);
}

void MultiplyConv(const ConvProducts& products, Terms terms, StoreTile store) {
  const auto pack_weights = [&](const Strips& strips) {
    PackWeights(products, strips);
  };
  if (products.taps != nullptr) {
    SumByTaps(*products.taps, products.sizes, terms, pack_weights, store);
    return;
  }
  MultiplyMatrices(products.sizes, terms, pack_weights, products.columns,
                   store);
}

// Calls f(begin, channel, sums, count) for each row of a tile: elements of the
// output from `begin` on.
template <typename F>
void ForEachRow(const ConvProducts& products, const ProductTile& tile, F f) {
  const ProductSizes& sizes = products.sizes;
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t row = tile.item * sizes.rows + tile.row + r;
    f(row * sizes.columns + tile.column, row % (products.groups * sizes.rows),
      tile.Row(r), tile.columns);
  }
}

void FillConvBounds(const ConvProducts& products, const NDArray& out,
                    const std::vector<double>& bias, double terms,
                    Bounds* bounds) {
  const auto fill = [&](Terms of, std::vector<double>* to) {
    to->resize(static_cast<size_t>(CountOf(out)));
    MultiplyConv(products, of, [&](const ProductTile& tile) {
      ForEachRow(products, tile,
                 [&](int64_t begin, int64_t channel, const double* sums,
                     int64_t count) {
                   double b =
                       bias.empty() ? 0 : bias[static_cast<size_t>(channel)];
                   b = of == Terms::kAbsolute ? std::fabs(b) : b * b;
                   for (int64_t i = 0; i < count; ++i) {
                     (*to)[static_cast<size_t>(begin + i)] = sums[i] + b;
                   }
                 });
    });
  };
  fill(Terms::kAbsolute, &bounds->proved);
  fill(Terms::kSquared, &bounds->expected);
  BoundSums(out, bias.empty() ? terms : terms + 1, bounds);
}

}  // namespace

absl::Status StoreConv(EvalArgs& args, const ConvProducts& products,
                       size_t bias_input, double terms) {
  const NDArray& out = args.outputs()[0];
  const std::vector<double> bias = args.has(bias_input)
                                       ? ToDoubles(args.in(bias_input))
                                       : std::vector<double>();
  NODEWISE_RETURN_IF_ERROR(WithFloat(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const to = out.As<T>();
    MultiplyConv(products, Terms::kPlain, [&](const ProductTile& tile) {
      ForEachRow(products, tile,
                 [&](int64_t begin, int64_t channel, const double* sums,
                     int64_t count) {
                   const double b =
                       bias.empty() ? 0 : bias[static_cast<size_t>(channel)];
                   for (int64_t i = 0; i < count; ++i) {
                     to[begin + i] = FromDouble<T>(sums[i] + b);
                   }
                 });
    });
    return absl::OkStatus();
  }));
  if (args.bounds(0) != nullptr) {
    FillConvBounds(products, out, bias, terms, args.bounds(0));
  }
  return absl::OkStatus();
}

absl::Status RequireLength(const Inputs& in, size_t i, const Dim& expected) {
  NODEWISE_RETURN_IF_ERROR(RequireRank(in, i, 1));
  if (!in.has(i) || !in.type(i).has_rank() || !expected.is_known()) {
    return absl::OkStatus();
  }
  const Dim& found = (*in.type(i).shape)[0];
  if (!found.is_known() || found.size() == expected.size()) {
    return absl::OkStatus();
  }
  return InputError(i, fmt::format("has {} elements, expected {}", found.size(),
                                   expected.size()));
}

namespace {

// `args` has its bias in input 2.
void BoundConvAt(const EvalArgs& args, const ConvProducts& products,
                 const NDArray& output, absl::Span<const int64_t> elements,
                 Bounds* bounds) {
  const ProductSizes& sizes = products.sizes;
  const auto pack_weights = [&](const Strips& strips) {
    PackWeights(products, strips);
  };
  SumTermsAt(sizes, pack_weights, products.columns, elements, bounds);
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

// What Conv and ConvInteger share.
WindowAttributes WindowOf(const ops::ConvAttributes& op,
                          std::vector<int64_t> kernel) {
  return {op.auto_pad,  std::move(kernel), op.strides,
          op.dilations, op.pads,           false};
}

absl::Status CheckShapes(const ops::ConvAttributes& op, const Inputs& in) {
  const int64_t group = op.group;
  NODEWISE_RETURN_IF_ERROR(
      All(RequireRank(in, 0, 3, INT_MAX), RequireRank(in, 1, 3, INT_MAX)));
  if (group < 1) {
    return AttributeError("group",
                          fmt::format("is {}, expected 1 or more", group));
  }
  if (!in.type(1).has_rank()) return absl::OkStatus();
  const Shape& w = *in.type(1).shape;
  NODEWISE_RETURN_IF_ERROR(RequireRank(in, 0, static_cast<int>(w.size())));
  if (w[0].is_known() && w[0].size() % group != 0) {
    return InputError(
        1, fmt::format("has {} kernels, expected a multiple of {} (group)",
                       w[0].size(), group));
  }
  if (!in.type(0).has_rank()) return absl::OkStatus();
  const Dim& channels = (*in.type(0).shape)[1];
  const Dim expected = Times(w[1], group);
  if (channels.is_known() && expected.is_known() &&
      channels.size() != expected.size()) {
    return InputError(
        0, fmt::format("has {} channels, expected {} as the weights have "
                       "in {} groups",
                       channels.size(), expected.size(), group));
  }
  return absl::OkStatus();
}

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
  NODEWISE_ASSIGN_OR_RETURN(
      Shape sides, WindowedSides(WindowOf(op, std::move(kernel)), input));
  Shape shape = UnknownShape(2);
  shape[0] = input[0];
  if (in.type(1).has_rank()) shape[1] = (*in.type(1).shape)[0];
  shape.insert(shape.end(), sides.begin(), sides.end());
  TensorType type(dtype, std::move(shape));
  if (const auto sizes = type.sizes()) {
    NODEWISE_RETURN_IF_ERROR(NumElements(*sizes).status());
  }
  return OutputInfos{std::move(type)};
}

double ConvFlops(const Inputs& in, absl::Span<const OutputInfo> out) {
  const auto weights = in.type(1).sizes();
  const auto result = out[0].type.sizes();
  if (!weights || !result) return 0;
  double flops = 2;
  for (size_t i = 1; i < weights->size(); ++i) {
    flops *= static_cast<double>((*weights)[i]);
  }
  for (const int64_t size : *result) flops *= static_cast<double>(size);
  return flops;
}

// Returns the window on actual inputs, and the output's shape.
absl::StatusOr<PlacedWindow> Place(const ops::ConvAttributes& op,
                                   const EvalArgs& args,
                                   std::vector<int64_t>* shape) {
  const auto weights = args.shape(1);
  NODEWISE_ASSIGN_OR_RETURN(
      PlacedWindow placed,
      PlaceWindow(WindowOf(op, {weights.begin() + 2, weights.end()}),
                  args.shape(0).subspan(2)));
  *shape = {args.shape(0)[0], weights[0]};
  shape->insert(shape->end(), placed.output.begin(), placed.output.end());
  return placed;
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

// Packs the columns of items: image by image, group by group.
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
    return InferShape(
        *this, in,
        in.type(0).has_dtype() ? in.type(0).dtype : in.type(1).dtype);
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo> out) const {
    return ConvFlops(in, out);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    std::vector<int64_t> shape;
    NODEWISE_ASSIGN_OR_RETURN(const PlacedWindow placed,
                              Place(*this, args, &shape));
    NODEWISE_RETURN_IF_ERROR(args.MakeOutput(0, shape, args.dtype(0)).status());
    const WindowGeometry geometry = GeometryOf(placed);
    const WindowColumns columns(geometry, args.dtype(0), 0);
    const auto pack = PackerOf(args, group, columns);
    ConvProducts products = ProductsOf(args, group, columns, pack);
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
    std::vector<int64_t> shape;
    NODEWISE_ASSIGN_OR_RETURN(const PlacedWindow placed,
                              Place(*this, args, &shape));
    const WindowColumns columns(GeometryOf(placed), args.dtype(0), 0);
    const auto pack = PackerOf(args, group, columns);
    BoundConvAt(args, ProductsOf(args, group, columns, pack), output, elements,
                bounds);
    return absl::OkStatus();
  }
};

struct ConvInteger : ops::ConvInteger {
  static constexpr auto Fields() { return ConvFields(); }
  absl::Status Check(const Inputs& in) const;
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return InferShape(*this, in, kInt32);
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo> out) const {
    return ConvFlops(in, out);
  }
  absl::Status Evaluate(EvalArgs& args) const;
};

absl::Status ConvInteger::Check(const Inputs& in) const {
  for (const size_t i : {0, 1}) {
    if (!in.type(i).has_dtype()) continue;
    const DLDataType dtype = in.type(i).dtype;
    if (!(dtype == kInt8) && !(dtype == kUint8)) {
      return InputError(i, fmt::format("is of type {}, expected int8 or uint8",
                                       ToString(dtype)));
    }
    NODEWISE_RETURN_IF_ERROR(RequireType(in, i + 2, dtype));
  }
  return CheckShapes(*this, in);
}

absl::Status ConvInteger::Evaluate(EvalArgs& args) const {
  std::vector<int64_t> shape;
  NODEWISE_ASSIGN_OR_RETURN(const PlacedWindow placed,
                            Place(*this, args, &shape));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray out,
                            args.MakeOutput(0, shape, kInt32));
  if (args.has(2) && CountOf(args.in(2)) != 1) {
    return InputError(2, "has more than one element, expected a scalar");
  }
  const double x_zero = args.has(2) ? ToDoubles(args.in(2))[0] : 0;
  const std::vector<double> w_zeros =
      args.has(3) ? ToDoubles(args.in(3)) : std::vector<double>();
  const size_t num_zeros = w_zeros.size();
  if (args.has(3) && num_zeros != 1 &&
      static_cast<int64_t>(num_zeros) != shape[1]) {
    return InputError(3, fmt::format("has {} elements, expected 1 or {}",
                                     num_zeros, shape[1]));
  }
  const WindowColumns columns(GeometryOf(placed), args.dtype(0), x_zero);
  const auto pack = PackerOf(args, group, columns);
  ConvProducts products = ProductsOf(args, group, columns, pack);
  if (num_zeros > 0) products.weights.zero_points = w_zeros.data();
  products.weights.zero_point_by_line = num_zeros > 1;
  auto* const to = out.As<int32_t>();
  MultiplyConv(products, Terms::kPlain, [&](const ProductTile& tile) {
    ForEachRow(products, tile,
               [&](int64_t begin, int64_t, const double* sums, int64_t count) {
                 for (int64_t i = 0; i < count; ++i) {
                   to[begin + i] =
                       static_cast<int32_t>(static_cast<int64_t>(sums[i]));
                 }
               });
  });
  return absl::OkStatus();
}

constexpr OperatorDef kConvs[] = {
    Row<ops::Conv, Conv>({.name = "Conv",
                          .since = 1,
                          .inputs = {"X", "W", Optional("B")},
                          .outputs = {"Y"},
                          .bound = kSum}),
    Row<ops::ConvInteger, ConvInteger>(
        {.name = "ConvInteger",
         .since = 10,
         .inputs = {"x", "w", Optional("x_zero_point"),
                    Optional("w_zero_point")},
         .outputs = {"y"},
         .bound = kExact}),
};

}  // namespace

absl::Span<const OperatorDef> ConvOperators() {
  static const std::vector<OperatorDef>* const all = [] {
    auto* const rows =
        new std::vector<OperatorDef>(std::begin(kConvs), std::end(kConvs));
    for (const auto& part : {ConvTransposeOperators(), DeformConvOperators()}) {
      rows->insert(rows->end(), part.begin(), part.end());
    }
    return rows;
  }();
  return *all;
}

}  // namespace nodewise
