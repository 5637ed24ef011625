#include "nodewise/ops/gemm.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "contrib/ops/util/matmul_parts.h"
#include "contrib/ops/util/sum_bounds.h"
#include "fmt/format.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

struct Gemm : ops::Gemm {
  static constexpr auto Fields() {
    return FieldList(Field<&Gemm::alpha>("alpha"), Field<&Gemm::beta>("beta"),
                     Field<&Gemm::transA>("transA"),
                     Field<&Gemm::transB>("transB"));
  }
  absl::Status Check(const Inputs& in) const;
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const;
  absl::Status Evaluate(EvalArgs& args) const;
  double Flops(const Inputs& in, absl::Span<const OutputInfo> out) const;
  double LeastBound(const EvalArgs& args) const {
    return LeastBoundOfSum(static_cast<double>(args.shape(0)[transA ? 0 : 1]));
  }
  absl::Status BoundsAt(const EvalArgs& args, const NDArray& output,
                        absl::Span<const int64_t> elements,
                        Bounds* bounds) const;

 private:
  Shape ShapeOf(const Inputs& in) const;
  MatrixOperands OperandsOf(const EvalArgs& args) const;
  // The two scalings round once more each.
  static double TermsOf(const MatrixOperands& operands) {
    return static_cast<double>(operands.sizes.depth) + 3;
  }
  // The product is that much larger before it is scaled.
  double LargerByAlpha() const {
    return alpha == 0 ? 1 : std::max(1.0, 1 / std::fabs(double{alpha}));
  }
  // Returns whether something that is scaled by 0 is, or may become, infinite.
  bool MeetsInfinityTimesZero(const EvalArgs& args,
                              const MatrixOperands& operands) const;
  void OpenUnscaled(const EvalArgs& args, const MatrixOperands& operands,
                    Bounds* bounds) const;
  absl::Status EvaluateFloats(EvalArgs& args, const NDArray& out) const;
  void FillBounds(const EvalArgs& args, const MatrixOperands& operands,
                  const NDArray& out, Bounds* bounds) const;
};

struct Gemm1 : ops::Gemm1 {
  static constexpr auto Fields() {
    return FieldList(Field<&Gemm1::alpha>("alpha"), Field<&Gemm1::beta>("beta"),
                     Field<&Gemm1::broadcast>("broadcast"),
                     Field<&Gemm1::transA>("transA"),
                     Field<&Gemm1::transB>("transB"));
  }
  Gemm Newer() const {
    Gemm newer;
    static_cast<ops::GemmAttributes&>(newer) = *this;
    return newer;
  }
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(Newer().Check(in));
    if (broadcast || !in.has(2)) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(const OutputInfos out, Infer(in));
    if (AreCompatible(out[0].type, in.type(2))) return absl::OkStatus();
    return InputError(2,
                      fmt::format("is {}, expected {} as broadcast is 0",
                                  ToString(in.type(2)), ToString(out[0].type)));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return Newer().Infer(in);
  }
  absl::Status Evaluate(EvalArgs& args) const { return Newer().Evaluate(args); }
  double LeastBound(const EvalArgs& args) const {
    return Newer().LeastBound(args);
  }
  absl::Status BoundsAt(const EvalArgs& args, const NDArray& output,
                        absl::Span<const int64_t> elements,
                        Bounds* bounds) const {
    return Newer().BoundsAt(args, output, elements, bounds);
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo> out) const {
    return Newer().Flops(in, out);
  }
};

Shape Gemm::ShapeOf(const Inputs& in) const {
  Shape shape = UnknownShape(2);
  if (in.type(0).has_rank()) shape[0] = (*in.type(0).shape)[transA ? 1 : 0];
  if (in.type(1).has_rank()) shape[1] = (*in.type(1).shape)[transB ? 0 : 1];
  return shape;
}

absl::Status Gemm::Check(const Inputs& in) const {
  NODEWISE_RETURN_IF_ERROR(All(RequireNumber(in, 0), RequireSameType(in),
                               RequireRank(in, 0, 2), RequireRank(in, 1, 2),
                               RequireRank(in, 2, 0, 2)));
  if (in.type(0).has_rank() && in.type(1).has_rank()) {
    const Dim& left = (*in.type(0).shape)[transA ? 0 : 1];
    const Dim& right = (*in.type(1).shape)[transB ? 1 : 0];
    if (left.is_known() && right.is_known() && left.size() != right.size()) {
      return InputError(
          1, fmt::format("is summed over {} elements, expected {} as input "
                         "0 is",
                         right.size(), left.size()));
    }
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
    return InputError(2, fmt::format("is of shape {}, expected one that "
                                     "can be broadcast to {}",
                                     ToString(bias), ToString(shape)));
  }
  return absl::OkStatus();
}

absl::StatusOr<OutputInfos> Gemm::Infer(const Inputs& in) const {
  TensorType type(in.type(0).has_dtype() ? in.type(0).dtype : in.type(1).dtype,
                  ShapeOf(in));
  if (const auto sizes = type.sizes()) {
    NODEWISE_RETURN_IF_ERROR(NumElements(*sizes).status());
  }
  return OutputInfos{std::move(type)};
}

double Gemm::Flops(const Inputs& in, absl::Span<const OutputInfo> out) const {
  const auto left = in.type(0).sizes();
  const auto result = out[0].type.sizes();
  if (!left || !result) return 0;
  return 2 * static_cast<double>((*left)[transA ? 0 : 1]) *
         static_cast<double>((*result)[0]) * static_cast<double>((*result)[1]);
}

MatrixOperands Gemm::OperandsOf(const EvalArgs& args) const {
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

// beta C, read by row and column of the result.
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

absl::Status Gemm::EvaluateFloats(EvalArgs& args, const NDArray& out) const {
  const MatrixOperands operands = OperandsOf(args);
  const int64_t columns = operands.sizes.columns;
  NODEWISE_RETURN_IF_ERROR(WithFloat(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const Bias<T> bias(args);
    T* const to = out.As<T>();
    MultiplyFactors(operands, Terms::kPlain, [&](const ProductTile& tile) {
      for (int64_t r = 0; r < tile.rows; ++r) {
        const int64_t row = tile.row + r;
        const double* const sums = tile.Row(r);
        T* const line = to + row * columns + tile.column;
        for (int64_t j = 0; j < tile.columns; ++j) {
          line[j] = FromDouble<T>(alpha * sums[j] +
                                  bias.of(beta, row, tile.column + j));
        }
      }
    });
    return absl::OkStatus();
  }));
  if (args.bounds(0) != nullptr) {
    FillBounds(args, operands, out, args.bounds(0));
  }
  return absl::OkStatus();
}

bool Gemm::MeetsInfinityTimesZero(const EvalArgs& args,
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
void Gemm::OpenUnscaled(const EvalArgs& args, const MatrixOperands& operands,
                        Bounds* bounds) const {
  if (!MeetsInfinityTimesZero(args, operands)) return;
  constexpr double kAny = std::numeric_limits<double>::infinity();
  std::fill(bounds->proved.begin(), bounds->proved.end(), kAny);
  bounds->expected = bounds->proved;
}

void Gemm::FillBounds(const EvalArgs& args, const MatrixOperands& operands,
                      const NDArray& out, Bounds* bounds) const {
  const int64_t columns = operands.sizes.columns;
  const auto fill = [&](Terms terms, std::vector<double>* to) {
    to->resize(static_cast<size_t>(CountOf(out)));
    const auto of_term = [terms](double x) {
      return terms == Terms::kAbsolute ? std::fabs(x) : x * x;
    };
    (void)WithFloat(out.dtype(), [&](auto zero) {
      const Bias<decltype(zero)> bias(args);
      MultiplyFactors(operands, terms, [&](const ProductTile& tile) {
        for (int64_t r = 0; r < tile.rows; ++r) {
          for (int64_t j = 0; j < tile.columns; ++j) {
            const int64_t row = tile.row + r;
            const int64_t column = tile.column + j;
            (*to)[static_cast<size_t>(row * columns + column)] =
                of_term(alpha) * tile.Row(r)[j] +
                of_term(bias.of(beta, row, column));
          }
        }
      });
      return absl::OkStatus();
    });
  };
  fill(Terms::kAbsolute, &bounds->proved);
  fill(Terms::kSquared, &bounds->expected);
  BoundSums(out, TermsOf(operands), bounds, LargerByAlpha());
  OpenUnscaled(args, operands, bounds);
}

absl::Status Gemm::BoundsAt(const EvalArgs& args, const NDArray& output,
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
    return absl::OkStatus();
  }));
  BoundSumsAt(output, elements, TermsOf(operands), bounds, LargerByAlpha());
  OpenUnscaled(args, operands, bounds);
  return absl::OkStatus();
}

// Exact if alpha and beta are whole numbers; else calculated in double and cut
// off.
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

absl::Status Gemm::Evaluate(EvalArgs& args) const {
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
    return absl::OkStatus();
  });
}

constexpr OperatorDef kGemms[] = {
    Row<ops::Gemm1, Gemm1>({.name = "Gemm",
                            .since = 1,
                            .inputs = {"A", "B", "C"},
                            .outputs = {"Y"},
                            .bound = kSum}),
    Row<ops::Gemm, Gemm>({.name = "Gemm",
                          .since = 7,
                          .inputs = {"A", "B", Optional("C")},
                          .outputs = {"Y"},
                          .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> GemmOperators() { return kGemms; }

}  // namespace nodewise
