#include "nodewise/ops/matmul.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/field_lists.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/matmul_parts.h"
#include "contrib/ops/util/sum_bounds.h"

namespace nodewise {
namespace {

// MatMul, Gemm and their relatives describe their factors by strides and leave
// the rest to MultiplyMatrices(): a transposed factor is one with its strides
// exchanged, and a vector a matrix of one row or column. Floats of all types
// and 8-bit integers are multiplied in double. Longer integers would not be
// exact there, so they have a loop of their own that wraps around at 64 bits.

void PackItem(Factor factor, const std::vector<int64_t>& begins,
              const Strips& strips) {
  factor.data = ElementAt(factor.dtype, factor.data,
                          begins[static_cast<size_t>(strips.item)]);
  PackFactor(factor, strips);
}

template <typename F>
void WithPackers(const MatrixOperands& operands, F f) {
  f(
      [&](const Strips& strips) {
        PackItem(operands.left, operands.left_begins, strips);
      },
      [&](const Strips& strips) {
        PackItem(operands.right, operands.right_begins, strips);
      });
}

}  // namespace

void MultiplyFactors(const MatrixOperands& operands, Terms terms,
                     StoreTile store) {
  WithPackers(operands, [&](PackStrips left, PackStrips right) {
    MultiplyMatrices(operands.sizes, terms, left, right, store);
  });
}

void SumFactorTermsAt(const MatrixOperands& operands,
                      absl::Span<const int64_t> elements, Bounds* bounds) {
  WithPackers(operands, [&](PackStrips left, PackStrips right) {
    SumTermsAt(operands.sizes, left, right, elements, bounds);
  });
}

namespace {

// NumPy's matmul: the result, as far as it is known. Check() and Infer() both
// come here, so that what one accepts the other can describe.
absl::StatusOr<TensorType> MatMulType(const Inputs& in, DLDataType dtype) {
  if (!in.type(0).has_rank() || !in.type(1).has_rank()) {
    return TensorType(dtype);
  }
  Shape a = *in.type(0).shape;
  Shape b = *in.type(1).shape;
  // Check refuses scalars, and calls this all the same.
  if (a.empty() || b.empty()) return TensorType(dtype);
  // NumPy drops the side again that a vector gets here.
  const bool a_is_row = a.size() == 1;
  const bool b_is_column = b.size() == 1;
  if (a_is_row) a.insert(a.begin(), Dim(1));
  if (b_is_column) b.emplace_back(1);
  const Dim& left = a.back();
  const Dim& right = b[b.size() - 2];
  if (left.is_known() && right.is_known() && left.size() != right.size()) {
    return WrongInput(1, "has {} rows, expected {} as input 0 has columns",
                      right.size(), left.size());
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
  return Countable(OutputInfos{std::move(type)});
}

// Every element of the result is a sum over the last side of the left factor.
double MatMulFlops(const Inputs& in, absl::Span<const OutputInfo> out) {
  const auto left = in.type(0).sizes();
  const auto result = out[0].type.sizes();
  if (!left || !result || left->empty()) return 0;
  double flops = 2 * static_cast<double>(left->back());
  for (const int64_t size : *result) flops *= static_cast<double>(size);
  return flops;
}

// Where each item's factors begin, under broadcasting of the sides before the
// last two. A batch that is broadcast is not copied: its items begin at the
// same element.
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

// REQUIRES: the result has elements. A vector on the left becomes a row, one on
// the right a column; the output has no side for it, but the same elements.
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
  // One product of many rows is faster than many of a few: the right factor is
  // packed once for all of them.
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

// Multiplies, and calls f(row, column, sums, count) for each row of a tile: so
// many elements from `column` on. Rows of all items are counted one after the
// other, as they lie in the output.
template <typename F>
void ForEachProductRow(const MatrixOperands& operands, Terms terms, F f) {
  MultiplyFactors(operands, terms, [&](const ProductTile& tile) {
    for (int64_t r = 0; r < tile.rows; ++r) {
      f(tile.item * operands.sizes.rows + tile.row + r, tile.column,
        tile.Row(r), tile.columns);
    }
  });
}

// Sets `bounds` to the sums of absolute values and of squares that BoundSums()
// takes: for each element of the output of_sum(terms, row, column, sum).
template <typename F>
void FillTermSums(const MatrixOperands& operands, const NDArray& out, F of_sum,
                  Bounds* bounds) {
  const auto fill = [&](Terms terms, std::vector<double>* to) {
    to->resize(static_cast<size_t>(CountOf(out)));
    ForEachProductRow(
        operands, terms,
        [&](int64_t row, int64_t column, const double* sums, int64_t count) {
          double* const line =
              to->data() + row * operands.sizes.columns + column;
          for (int64_t j = 0; j < count; ++j) {
            line[j] = of_sum(terms, row, column + j, sums[j]);
          }
        });
  };
  fill(Terms::kAbsolute, &bounds->proved);
  fill(Terms::kSquared, &bounds->expected);
}

// The inputs are described anew, since Infer() may have known less of their
// shapes.
absl::StatusOr<NDArray> MakeProduct(EvalArgs& args, DLDataType dtype) {
  NODEWISE_ASSIGN_OR_RETURN(const TensorType type,
                            MatMulType(Inputs(GivenInputs(args)), dtype));
  return args.MakeOutput(0, *type.sizes(), dtype);
}

struct MatMul : ops::MatMul {
  absl::Status Check(const Inputs& in) const {
    return All(RequireNumber(in, 0), RequireSameType(in),
               RequireRank(in, 0, 1, INT_MAX), RequireRank(in, 1, 1, INT_MAX),
               MatMulType(in, {}).status());
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return InferMatMul(in, SharedType(in));
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo> out) const {
    return MatMulFlops(in, out);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray out,
                              MakeProduct(args, args.dtype(0)));
    if (CountOf(out) == 0) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(const MatrixOperands operands, OperandsOf(args));
    if (IsFloat(args.dtype(0))) return EvaluateFloats(args, operands);
    const int64_t columns = operands.sizes.columns;
    // The bits that are kept do not depend on the signs of the factors. Hence
    // the unsigned type of the same size serves both kinds.
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
    });
  }
  double LeastBound(const EvalArgs& args) const {
    return LeastBoundOfSum(static_cast<double>(args.shape(0).back()));
  }
  absl::Status BoundsAt(const EvalArgs& args, const NDArray& output,
                        absl::Span<const int64_t> elements,
                        Bounds* bounds) const {
    NODEWISE_ASSIGN_OR_RETURN(const MatrixOperands operands, OperandsOf(args));
    SumFactorTermsAt(operands, elements, bounds);
    BoundSumsAt(output, elements, static_cast<double>(operands.sizes.depth),
                bounds);
    return absl::OkStatus();
  }

 private:
  absl::Status EvaluateFloats(EvalArgs& args,
                              const MatrixOperands& operands) const {
    const NDArray& out = args.outputs()[0];
    NODEWISE_RETURN_IF_ERROR(WithFloat(out.dtype(), [&](auto zero) {
      using T = decltype(zero);
      T* const to = out.As<T>();
      ForEachProductRow(
          operands, Terms::kPlain,
          [&](int64_t row, int64_t column, const double* sums, int64_t count) {
            T* const line = to + row * operands.sizes.columns + column;
            for (int64_t j = 0; j < count; ++j) {
              line[j] = FromDouble<T>(sums[j]);
            }
          });
    }));
    Bounds* const bounds = args.bounds(0);
    if (bounds == nullptr) return absl::OkStatus();
    FillTermSums(
        operands, out, [](Terms, int64_t, int64_t, double sum) { return sum; },
        bounds);
    BoundSums(out, static_cast<double>(operands.sizes.depth), bounds);
    return absl::OkStatus();
  }
};

absl::Status RequireByte(const Inputs& in, size_t i) {
  const auto is_byte = [](DLDataType dtype) {
    return dtype == kInt8 || dtype == kUint8;
  };
  return RequireType(in, i, is_byte, "int8 or uint8");
}

// The zero points of input `i` as doubles: none, one for all, or one for each
// of `lines`, which may stand in a column or differ between the items. A count
// that fits nothing would be read past its end while packing.
absl::StatusOr<std::vector<double>> ZeroPoints(const EvalArgs& args, size_t i,
                                               int64_t lines) {
  if (!args.has(i)) return std::vector<double>();
  std::vector<double> zeros = ToDoubles(args.in(i));
  const auto count = static_cast<int64_t>(zeros.size());
  if (count == 1 || (lines > 0 && count == lines)) return zeros;
  return WrongInput(i,
                    "has {} elements, expected 1 or {} (one for each row of A "
                    "or column of B)",
                    count, lines);
}

// Zero points are subtracted where the factors are packed, once for each
// element and block.
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
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray out, MakeProduct(args, kInt32));
    if (CountOf(out) == 0) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(MatrixOperands operands, OperandsOf(args));
    const ProductSizes& sizes = operands.sizes;
    // OperandsOf() joins the rows of all items if they share the right factor.
    // Zero points for the rows of one matrix are repeated for all matrices
    // then.
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
    ForEachProductRow(
        operands, Terms::kPlain,
        [&](int64_t row, int64_t column, const double* sums, int64_t count) {
          int32_t* const line = to + row * sizes.columns + column;
          for (int64_t j = 0; j < count; ++j) {
            line[j] = static_cast<int32_t>(static_cast<int64_t>(sums[j]));
          }
        });
    return absl::OkStatus();
  }
};

// beta C, read by row and column of the result. C is broadcast as NumPy does,
// from the right: a side of 1 or a missing one has a stride of 0.
template <typename T>
struct Bias {
  const T* data = nullptr;
  int64_t row_stride = 0;
  int64_t column_stride = 0;

  explicit Bias(const EvalArgs& args) {
    if (!args.has(2)) return;
    data = args.in(2).As<T>();
    const auto shape = args.shape(2);
    const size_t rank = shape.size();
    if (rank > 0 && shape[rank - 1] != 1) column_stride = 1;
    if (rank > 1 && shape[0] != 1) row_stride = shape[1];
  }
  const T& at(int64_t row, int64_t column) const {
    return data[row * row_stride + column * column_stride];
  }
  double of(float beta, int64_t row, int64_t column) const {
    return data == nullptr ? 0 : double{beta} * ToDouble(at(row, column));
  }
};

// Exact if alpha and beta are whole numbers; else calculated in double and cut
// off. Whole alpha and beta below 2^62 are applied modulo 2^64, as the product
// itself is.
template <typename T>
struct IntegerSum {
  double alpha;
  double beta;

  static bool IsWhole(double x) {
    return x == std::trunc(x) && std::fabs(x) < 0x1p62;
  }
  T operator()(uint64_t product, T bias) const {
    if (IsWhole(alpha) && IsWhole(beta)) {
      const auto a = static_cast<uint64_t>(static_cast<int64_t>(alpha));
      const auto b = static_cast<uint64_t>(static_cast<int64_t>(beta));
      return static_cast<T>(a * product + b * static_cast<uint64_t>(bias));
    }
    return FromDouble<T>(alpha * ToDouble(static_cast<T>(product)) +
                         beta * ToDouble(bias));
  }
};

// The rules of all versions; `Class` is the public class of one. Opset 7
// dropped an attribute and nothing else, so that both versions have these
// rules.
template <typename Class>
struct GemmRules : Class {
  using Class::alpha;
  using Class::beta;
  using Class::transA;
  using Class::transB;

  static constexpr auto Fields() {
    return FieldList(Field<&Class::alpha>("alpha"), Field<&Class::beta>("beta"),
                     Field<&Class::transA>("transA"),
                     Field<&Class::transB>("transB"));
  }
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(All(RequireNumber(in, 0), RequireSameType(in),
                                 RequireRank(in, 0, 2), RequireRank(in, 1, 2),
                                 RequireRank(in, 2, 0, 2)));
    const Dim left = SideOf(in, 0, transA ? 0 : 1);
    const Dim right = SideOf(in, 1, transB ? 1 : 0);
    if (left.is_known() && right.is_known() && left != right) {
      return WrongInput(1,
                        "is summed over {} elements, expected {} as input 0 is",
                        right.size(), left.size());
    }
    if (!in.has(2) || !in.type(2).has_rank()) return absl::OkStatus();
    const Shape shape = ShapeOf(in);
    const Shape& bias = *in.type(2).shape;
    for (size_t i = 0; i < bias.size(); ++i) {
      const Dim& side = shape[2 - bias.size() + i];
      if (bias[i] == Dim(1) || !bias[i].is_known() || !side.is_known() ||
          bias[i].size() == side.size()) {
        continue;
      }
      return WrongInput(
          2, "is of shape {}, expected one that can be broadcast to {}",
          ToString(bias), ToString(shape));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return Countable(OutputInfos{TensorType(SharedType(in), ShapeOf(in))});
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const int64_t shape[] = {args.shape(0)[transA ? 1 : 0],
                             args.shape(1)[transB ? 0 : 1]};
    NODEWISE_ASSIGN_OR_RETURN(const NDArray out,
                              args.MakeOutput(0, shape, args.dtype(0)));
    if (CountOf(out) == 0) return absl::OkStatus();
    if (IsFloat(args.dtype(0))) return EvaluateFloats(args, out);
    return WithInteger(args.dtype(0), [&](auto zero) {
      using T = decltype(zero);
      const Bias<T> bias(args);
      const IntegerSum<T> sum{alpha, beta};
      T* const to = out.As<T>();
      MultiplyIntegers<T>(
          OperandsOf(args), [&](int64_t, int64_t row, const uint64_t* sums) {
            for (int64_t j = 0; j < shape[1]; ++j) {
              to[row * shape[1] + j] =
                  sum(sums[j], bias.data == nullptr ? T{} : bias.at(row, j));
            }
          });
    });
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo> out) const {
    const auto left = in.type(0).sizes();
    const auto result = out[0].type.sizes();
    if (!left || !result) return 0;
    return 2 * static_cast<double>((*left)[transA ? 0 : 1]) *
           static_cast<double>((*result)[0]) *
           static_cast<double>((*result)[1]);
  }
  double LeastBound(const EvalArgs& args) const {
    return LeastBoundOfSum(static_cast<double>(args.shape(0)[transA ? 0 : 1]));
  }
  absl::Status BoundsAt(const EvalArgs& args, const NDArray& output,
                        absl::Span<const int64_t> elements,
                        Bounds* bounds) const {
    const MatrixOperands operands = OperandsOf(args);
    SumFactorTermsAt(operands, elements, bounds);
    NODEWISE_RETURN_IF_ERROR(WithFloat(output.dtype(), [&](auto zero) {
      const Bias<decltype(zero)> bias(args);
      for (size_t i = 0; i < elements.size(); ++i) {
        const double b = bias.of(beta, elements[i] / operands.sizes.columns,
                                 elements[i] % operands.sizes.columns);
        double& absolute = bounds->proved[i];
        double& squares = bounds->expected[i];
        absolute = std::fabs(alpha) * absolute + std::fabs(b);
        squares = double{alpha} * alpha * squares + b * b;
      }
    }));
    BoundSumsAt(output, elements, TermsOf(operands), bounds, LargerByAlpha());
    OpenUnscaled(args, operands, bounds);
    return absl::OkStatus();
  }

 private:
  Shape ShapeOf(const Inputs& in) const {
    return {SideOf(in, 0, transA ? 1 : 0), SideOf(in, 1, transB ? 0 : 1)};
  }
  // Columns of B that is not transposed lie side by side, which packing can
  // make use of.
  MatrixOperands OperandsOf(const EvalArgs& args) const {
    const int64_t a_columns = args.shape(0)[1];
    const int64_t b_columns = args.shape(1)[1];
    MatrixOperands operands;
    operands.sizes = {1, args.shape(0)[transA ? 1 : 0],
                      args.shape(1)[transB ? 0 : 1],
                      args.shape(0)[transA ? 0 : 1], !transB};
    operands.left = {args.dtype(0), args.in(0).data(), transA ? 1 : a_columns,
                     transA ? a_columns : 1};
    operands.right = {args.dtype(1), args.in(1).data(), transB ? b_columns : 1,
                      transB ? 1 : b_columns};
    return operands;
  }
  // The two scalings round once more each. The bias is a term as well.
  static double TermsOf(const MatrixOperands& operands) {
    return static_cast<double>(operands.sizes.depth) + 3;
  }
  // The product is that much larger before it is scaled.
  double LargerByAlpha() const {
    return alpha == 0 ? 1 : std::max(1.0, 1 / std::fabs(double{alpha}));
  }
  // Returns whether something that is scaled by 0 is, or may become, infinite.
  // With alpha = 0 the product may overflow in a kernel before it is scaled;
  // its size is bounded by the largest factors and the number of terms.
  bool MeetsInfinityTimesZero(const EvalArgs& args,
                              const MatrixOperands& operands) const {
    if (beta == 0 && args.has(2)) {
      for (const double x : ToDoubles(args.in(2))) {
        if (!std::isfinite(x)) return true;
      }
    }
    if (alpha != 0) return false;
    double size = static_cast<double>(operands.sizes.depth);
    for (const size_t i : {0, 1}) {
      double largest = 0;
      for (const double x : ToDoubles(args.in(i))) {
        largest = std::max(largest, std::fabs(x));
      }
      size *= largest;
    }
    return !(size <= LargestOf(args.dtype(0)));
  }
  // A term that is scaled by 0 may be left out, or be multiplied nonetheless.
  void OpenUnscaled(const EvalArgs& args, const MatrixOperands& operands,
                    Bounds* bounds) const {
    if (!MeetsInfinityTimesZero(args, operands)) return;
    SetAllBounds(static_cast<int64_t>(bounds->proved.size()), kAnyError,
                 bounds);
  }
  // The bias is added in double, before the one rounding: no kernel is more
  // exact.
  absl::Status EvaluateFloats(EvalArgs& args, const NDArray& out) const {
    const MatrixOperands operands = OperandsOf(args);
    NODEWISE_RETURN_IF_ERROR(WithFloat(out.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const Bias<T> bias(args);
      T* const to = out.As<T>();
      ForEachProductRow(
          operands, Terms::kPlain,
          [&](int64_t row, int64_t column, const double* sums, int64_t count) {
            T* const line = to + row * operands.sizes.columns + column;
            for (int64_t j = 0; j < count; ++j) {
              line[j] = FromDouble<T>(alpha * sums[j] +
                                      bias.of(beta, row, column + j));
            }
          });
    }));
    if (args.bounds(0) != nullptr) {
      FillBounds(args, operands, out, args.bounds(0));
    }
    return absl::OkStatus();
  }
  void FillBounds(const EvalArgs& args, const MatrixOperands& operands,
                  const NDArray& out, Bounds* bounds) const {
    (void)WithFloat(out.dtype(), [&](auto zero) {
      const Bias<decltype(zero)> bias(args);
      FillTermSums(
          operands, out,
          [&](Terms terms, int64_t row, int64_t column, double sum) {
            const auto of_term = [terms](double x) {
              return terms == Terms::kAbsolute ? std::fabs(x) : x * x;
            };
            return of_term(alpha) * sum + of_term(bias.of(beta, row, column));
          },
          bounds);
    });
    BoundSums(out, TermsOf(operands), bounds, LargerByAlpha());
    OpenUnscaled(args, operands, bounds);
  }
};

// C has to have the shape of the result unless broadcasting is asked for.
struct Gemm1 : GemmRules<ops::Gemm1> {
  static constexpr auto Fields() {
    return SortedFields(GemmRules::Fields(),
                        FieldList(Field<&Gemm1::broadcast>("broadcast")));
  }
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(GemmRules::Check(in));
    if (broadcast || !in.has(2)) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(const OutputInfos out, Infer(in));
    if (AreCompatible(out[0].type, in.type(2))) return absl::OkStatus();
    return WrongInput(2, "is {}, expected {} as broadcast is 0",
                      ToString(in.type(2)), ToString(out[0].type));
  }
};

constexpr OperatorDef kMatmuls[] = {
    Row<ops::MatMul, MatMul>("MatMul", 1, {"A", "B"}, {"Y"}, kSum),
    Row<ops::MatMulInteger, MatMulInteger>(
        "MatMulInteger", 10,
        {"A", "B", Optional("a_zero_point"), Optional("b_zero_point")}, {"Y"}),
    Row<ops::Gemm1, Gemm1>("Gemm", 1, {"A", "B", "C"}, {"Y"}, kSum),
    Row<ops::Gemm, GemmRules<ops::Gemm>>("Gemm", 7, {"A", "B", Optional("C")},
                                         {"Y"}, kSum),
};

}  // namespace

absl::Span<const OperatorDef> MatmulOperators() { return kMatmuls; }

}  // namespace nodewise
