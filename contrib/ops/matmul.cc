#include "nodewise/ops/matmul.h"

#include <algorithm>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/matmul_parts.h"
#include "contrib/ops/util/product_elements.h"
#include "contrib/ops/util/sum_bounds.h"
#include "fmt/format.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

namespace {

// Packs one factor, of which item i begins at `begins[i]`.
void PackItem(Factor factor, const std::vector<int64_t>& begins,
              const Strips& strips) {
  factor.data = ElementAt(factor.dtype, factor.data,
                          begins[static_cast<size_t>(strips.item)]);
  PackFactor(factor, strips);
}

}  // namespace

void MultiplyFactors(const MatrixOperands& operands, Terms terms,
                     StoreTile store) {
  MultiplyMatrices(
      operands.sizes, terms,
      [&](const Strips& strips) {
        PackItem(operands.left, operands.left_begins, strips);
      },
      [&](const Strips& strips) {
        PackItem(operands.right, operands.right_begins, strips);
      },
      store);
}

void SumFactorTermsAt(const MatrixOperands& operands,
                      absl::Span<const int64_t> elements, Bounds* bounds) {
  SumTermsAt(
      operands.sizes,
      [&](const Strips& strips) {
        PackItem(operands.left, operands.left_begins, strips);
      },
      [&](const Strips& strips) {
        PackItem(operands.right, operands.right_begins, strips);
      },
      elements, bounds);
}

namespace {

absl::Status DepthsDiffer(int64_t left, int64_t right) {
  return InputError(
      1, fmt::format("has {} rows, expected {} as input 0 has columns", right,
                     left));
}

// NumPy's matmul: the result, as far as it is known.
absl::StatusOr<TensorType> MatMulType(const Inputs& in, DLDataType dtype) {
  if (!in.type(0).has_rank() || !in.type(1).has_rank()) {
    return TensorType(dtype);
  }
  Shape a = *in.type(0).shape;
  Shape b = *in.type(1).shape;
  // Check refuses scalars, and calls this all the same.
  if (a.empty() || b.empty()) return TensorType(dtype);
  const bool a_is_row = a.size() == 1;
  const bool b_is_column = b.size() == 1;
  if (a_is_row) a.insert(a.begin(), Dim(1));
  if (b_is_column) b.emplace_back(1);
  const Dim& left = a.back();
  const Dim& right = b[b.size() - 2];
  if (left.is_known() && right.is_known() && left.size() != right.size()) {
    return DepthsDiffer(left.size(), right.size());
  }
  const Dim rows = a[a.size() - 2];
  const Dim columns = b.back();
  a.resize(a.size() - 2);
  b.resize(b.size() - 2);
  const Shape both[] = {std::move(a), std::move(b)};
  NODEWISE_ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(both));
  if (!a_is_row) shape.push_back(rows);
  if (!b_is_column) shape.push_back(columns);
  return TensorType(dtype, std::move(shape));
}

absl::StatusOr<OutputInfos> InferMatMul(const Inputs& in, DLDataType dtype) {
  NODEWISE_ASSIGN_OR_RETURN(TensorType type, MatMulType(in, dtype));
  if (const auto sizes = type.sizes()) {
    NODEWISE_RETURN_IF_ERROR(NumElements(*sizes).status());
  }
  return OutputInfos{std::move(type)};
}

double MatMulFlops(const Inputs& in, absl::Span<const OutputInfo> out) {
  const auto left = in.type(0).sizes();
  const auto result = out[0].type.sizes();
  if (!left || !result || left->empty()) return 0;
  double flops = 2 * static_cast<double>(left->back());
  for (const int64_t size : *result) flops *= static_cast<double>(size);
  return flops;
}

// Where each item's factors begin, under broadcasting of the sides before the
// last two.
void SetBegins(absl::Span<const int64_t> a, absl::Span<const int64_t> b,
               const Broadcast& plan, MatrixOperands* operands) {
  const int64_t sizes[] = {Product(a), Product(b)};
  operands->sizes.items = plan.count;
  operands->left_begins.resize(static_cast<size_t>(plan.count));
  operands->right_begins.resize(static_cast<size_t>(plan.count));
  const auto run = [&](int64_t out, const int64_t* at, int64_t n,
                       const int64_t* steps) {
    for (int64_t i = 0; i < n; ++i) {
      const auto item = static_cast<size_t>(out + i);
      operands->left_begins[item] = (at[0] + i * steps[0]) * sizes[0];
      operands->right_begins[item] = (at[1] + i * steps[1]) * sizes[1];
    }
  };
  ForEachRun(plan, 2, run);
}

// REQUIRES: the result has elements.
absl::StatusOr<MatrixOperands> OperandsOf(const EvalArgs& args) {
  std::vector<int64_t> a(args.shape(0).size() == 1 ? 1 : 0, 1);
  a.insert(a.end(), args.shape(0).begin(), args.shape(0).end());
  std::vector<int64_t> b(args.shape(1).begin(), args.shape(1).end());
  b.resize(std::max<size_t>(b.size(), 2), 1);
  MatrixOperands operands;
  ProductSizes& sizes = operands.sizes;
  sizes.rows = a[a.size() - 2];
  sizes.depth = a.back();
  sizes.columns = b.back();
  sizes.right_is_side_by_side = true;
  operands.left = {args.dtype(0), args.in(0).data(), sizes.depth, 1};
  operands.right = {args.dtype(1), args.in(1).data(), 1, sizes.columns};
  const auto a_items = absl::MakeConstSpan(a).first(a.size() - 2);
  const auto b_items = absl::MakeConstSpan(b).first(b.size() - 2);
  if (Product(b_items) == 1) {
    // All share one right matrix, so they are the rows of one product.
    sizes.rows *= Product(a_items);
    return operands;
  }
  const absl::Span<const int64_t> shapes[] = {a_items, b_items};
  NODEWISE_ASSIGN_OR_RETURN(const Broadcast plan, MakeBroadcast(shapes));
  SetBegins(absl::MakeConstSpan(a).last(2), absl::MakeConstSpan(b).last(2),
            plan, &operands);
  return operands;
}

// The elements of a tile within an output that lies row by row, item by item.
template <typename F>
void ForEachOfTile(const ProductTile& tile, const ProductSizes& sizes, F f) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    const double* const sums = tile.Row(r);
    const int64_t begin =
        (tile.item * sizes.rows + tile.row + r) * sizes.columns + tile.column;
    for (int64_t j = 0; j < tile.columns; ++j) f(begin + j, sums[j]);
  }
}

struct MatMul : ops::MatMul {
  absl::Status Check(const Inputs& in) const {
    return All(RequireNumber(in, 0), RequireSameType(in),
               RequireRank(in, 0, 1, INT_MAX), RequireRank(in, 1, 1, INT_MAX),
               MatMulType(in, {}).status());
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const TensorType& left = in.type(0);
    return InferMatMul(in, left.has_dtype() ? left.dtype : in.type(1).dtype);
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo> out) const {
    return MatMulFlops(in, out);
  }
  absl::Status Evaluate(EvalArgs& args) const;
  double LeastBound(const EvalArgs& args) const {
    return LeastBoundOfSum(static_cast<double>(args.shape(0).back()));
  }
  absl::Status BoundsAt(const EvalArgs& args, const NDArray& output,
                        absl::Span<const int64_t> elements,
                        Bounds* bounds) const;

 private:
  absl::Status EvaluateFloats(EvalArgs& args,
                              const MatrixOperands& operands) const;
};

// Makes the output, with the shape that follows from the inputs' shapes.
absl::StatusOr<NDArray> MakeProduct(EvalArgs& args, DLDataType dtype) {
  std::vector<InputInfo> infos(2);
  for (size_t i = 0; i < 2; ++i) {
    infos[i].is_given = true;
    infos[i].type = TensorType::Of(*args.in(i));
  }
  NODEWISE_ASSIGN_OR_RETURN(const TensorType type,
                            MatMulType(Inputs(infos), dtype));
  return args.MakeOutput(0, *type.sizes(), dtype);
}

absl::Status MatMul::Evaluate(EvalArgs& args) const {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray out,
                            MakeProduct(args, args.dtype(0)));
  if (CountOf(out) == 0) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const MatrixOperands operands, OperandsOf(args));
  if (IsFloat(args.dtype(0))) return EvaluateFloats(args, operands);
  const int64_t columns = operands.sizes.columns;
  // The bits that are kept do not depend on the signs of the factors.
  return WithSize(args.dtype(0), [&](auto zero) {
    using T = decltype(zero);
    T* const to = out.As<T>();
    MultiplyIntegers<T>(
        operands, [&](int64_t item, int64_t row, const uint64_t* sums) {
          T* const line = to + (item * operands.sizes.rows + row) * columns;
          for (int64_t j = 0; j < columns; ++j) {
            line[j] = static_cast<T>(sums[j]);
          }
        });
    return absl::OkStatus();
  });
}

absl::Status MatMul::EvaluateFloats(EvalArgs& args,
                                    const MatrixOperands& operands) const {
  const NDArray& out = args.outputs()[0];
  const ProductSizes& sizes = operands.sizes;
  NODEWISE_RETURN_IF_ERROR(WithFloat(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const to = out.As<T>();
    MultiplyFactors(operands, Terms::kPlain, [&](const ProductTile& tile) {
      ForEachOfTile(tile, sizes,
                    [&](int64_t i, double sum) { to[i] = FromDouble<T>(sum); });
    });
    return absl::OkStatus();
  }));
  Bounds* const bounds = args.bounds(0);
  if (bounds == nullptr) return absl::OkStatus();
  const auto fill = [&](Terms terms, std::vector<double>* to) {
    to->resize(static_cast<size_t>(CountOf(out)));
    MultiplyFactors(operands, terms, [&](const ProductTile& tile) {
      ForEachOfTile(tile, sizes, [&](int64_t i, double sum) {
        (*to)[static_cast<size_t>(i)] = sum;
      });
    });
  };
  fill(Terms::kAbsolute, &bounds->proved);
  fill(Terms::kSquared, &bounds->expected);
  BoundSums(out, static_cast<double>(sizes.depth), bounds);
  return absl::OkStatus();
}

absl::Status MatMul::BoundsAt(const EvalArgs& args, const NDArray& output,
                              absl::Span<const int64_t> elements,
                              Bounds* bounds) const {
  NODEWISE_ASSIGN_OR_RETURN(const MatrixOperands operands, OperandsOf(args));
  SumFactorTermsAt(operands, elements, bounds);
  BoundSumsAt(output, elements, static_cast<double>(operands.sizes.depth),
              bounds);
  return absl::OkStatus();
}

absl::Status RequireByte(const Inputs& in, size_t i) {
  if (!in.has(i) || !in.type(i).has_dtype()) return absl::OkStatus();
  const DLDataType dtype = in.type(i).dtype;
  if (dtype == kInt8 || dtype == kUint8) return absl::OkStatus();
  return InputError(
      i, fmt::format("is of type {}, expected int8 or uint8", ToString(dtype)));
}

struct MatMulInteger : ops::MatMulInteger {
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(All(RequireByte(in, 0), RequireByte(in, 1),
                                 RequireRank(in, 0, 1, INT_MAX),
                                 RequireRank(in, 1, 1, INT_MAX)));
    for (const size_t i : {0, 1}) {
      if (in.has(i + 2) && in.type(i).has_dtype()) {
        NODEWISE_RETURN_IF_ERROR(RequireType(in, i + 2, in.type(i).dtype));
      }
    }
    return MatMulType(in, {}).status();
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return InferMatMul(in, kInt32);
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo> out) const {
    return MatMulFlops(in, out);
  }
  absl::Status Evaluate(EvalArgs& args) const;
};

// The zero points of input `i` as doubles: none, one for all, or one for each
// of `lines`, which may stand in a column or differ between the items.
absl::StatusOr<std::vector<double>> ZeroPoints(const EvalArgs& args, size_t i,
                                               int64_t lines) {
  if (!args.has(i)) return std::vector<double>();
  std::vector<double> zeros = ToDoubles(args.in(i));
  const auto count = static_cast<int64_t>(zeros.size());
  if (count == 1 || (lines > 0 && count == lines)) return zeros;
  return InputError(
      i, fmt::format("has {} elements, expected 1 or {} (one for each row "
                     "of A or column of B)",
                     count, lines));
}

absl::Status MatMulInteger::Evaluate(EvalArgs& args) const {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray out, MakeProduct(args, kInt32));
  if (CountOf(out) == 0) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(MatrixOperands operands, OperandsOf(args));
  const ProductSizes& sizes = operands.sizes;
  // By row of one matrix, or by row of all where the items are one product.
  const int64_t matrix_rows =
      args.shape(0).size() < 2 ? 1 : args.shape(0)[args.shape(0).size() - 2];
  const bool by_all = args.has(2) && CountOf(args.in(2)) == sizes.rows;
  NODEWISE_ASSIGN_OR_RETURN(
      std::vector<double> left,
      ZeroPoints(args, 2, by_all ? sizes.rows : matrix_rows));
  while (left.size() > 1 && static_cast<int64_t>(left.size()) < sizes.rows) {
    left.push_back(left[left.size() - static_cast<size_t>(matrix_rows)]);
  }
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<double> right,
                            ZeroPoints(args, 3, sizes.columns));
  const auto set = [](const std::vector<double>& zeros, Factor* factor) {
    if (zeros.empty()) return;
    factor->zero_points = zeros.data();
    factor->zero_point_by_line = zeros.size() > 1;
  };
  set(left, &operands.left);
  set(right, &operands.right);
  // Exact: no sum of products of 9 bits that fits in memory needs 53.
  auto* const to = out.As<int32_t>();
  MultiplyFactors(operands, Terms::kPlain, [&](const ProductTile& tile) {
    ForEachOfTile(tile, sizes, [&](int64_t i, double sum) {
      to[i] = static_cast<int32_t>(static_cast<int64_t>(sum));
    });
  });
  return absl::OkStatus();
}

constexpr OperatorDef kMatmuls[] = {
    Row<ops::MatMul, MatMul>({.name = "MatMul",
                              .since = 1,
                              .inputs = {"A", "B"},
                              .outputs = {"Y"},
                              .bound = kSum}),
    Row<ops::MatMulInteger, MatMulInteger>(
        {.name = "MatMulInteger",
         .since = 10,
         .inputs = {"A", "B", Optional("a_zero_point"),
                    Optional("b_zero_point")},
         .outputs = {"Y"},
         .bound = kExact}),
};

}  // namespace

absl::Span<const OperatorDef> MatmulOperators() {
  static const std::vector<OperatorDef>* const all = [] {
    auto* const rows =
        new std::vector<OperatorDef>(std::begin(kMatmuls), std::end(kMatmuls));
    for (const auto& part :
         {GemmOperators(), EinsumOperators(), DetOperators()}) {
      rows->insert(rows->end(), part.begin(), part.end());
    }
    return rows;
  }();
  return *all;
}

}  // namespace nodewise
