#include "nodewise/ops/qlinear.h"

#include <cmath>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/conv.h"
#include "contrib/ops/util/quantize_rules.h"
#include "contrib/ops/util/wide_elements.h"
#include "fmt/format.h"
#include "nodewise/op/op_row.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// The order of the inputs of both operators: a, its scale and zero point, then
// b's, then the output's.
enum Slot : size_t {
  kA,
  kAScale,
  kAZero,
  kB,
  kBScale,
  kBZero,
  kYScale,
  kYZero
};
constexpr size_t kBias = 8;

const OperatorDef& IntegerRow(const char* name) {
  return *AllOperators().Find("", name, 10);
}

Inputs IntegerInputs(const Inputs& in, std::vector<InputInfo>* infos) {
  *infos = {in[kA], in[kB], in[kAZero], in[kBZero]};
  return Inputs(*infos);
}

absl::Status CheckProduct(const OpAttrs& integers, const Inputs& in) {
  for (const size_t i : {kAScale, kBScale, kYScale}) {
    NODEWISE_RETURN_IF_ERROR(RequireFloat(in, i));
  }
  NODEWISE_RETURN_IF_ERROR(RequireQuantized(in, kYZero));
  std::vector<InputInfo> infos;
  return At(integers.def().name,
            integers.def().check(integers.get(), IntegerInputs(in, &infos)));
}

absl::StatusOr<OutputInfos> InferProduct(const OpAttrs& integers,
                                         const Inputs& in) {
  std::vector<InputInfo> infos;
  auto inferred =
      integers.def().infer(integers.get(), IntegerInputs(in, &infos), 1);
  if (!inferred.ok()) return At(integers.def().name, inferred.status());
  (*inferred)[0].type.dtype = in.type(kYZero).dtype;
  return inferred;
}

absl::StatusOr<NDArray> EvaluateProduct(const OpAttrs& integers,
                                        const EvalArgs& args) {
  NODEWISE_ASSIGN_OR_RETURN(
      const Evaluated product,
      Evaluate(integers,
               {args.in(kA), args.in(kB), args.in(kAZero), args.in(kBZero)},
               {true}));
  return product.outputs[0];
}

absl::StatusOr<double> OneScale(const EvalArgs& args, size_t i) {
  const std::vector<double> scales = ToDoubles(args.in(i));
  if (scales.size() == 1) return scales[0];
  return InputError(i,
                    fmt::format("has {} elements, expected 1", scales.size()));
}

// The scales of input `i`: one, or one for each of `count`.
absl::StatusOr<std::vector<double>> Scales(const EvalArgs& args, size_t i,
                                           int64_t count) {
  std::vector<double> scales = ToDoubles(args.in(i));
  const auto found = static_cast<int64_t>(scales.size());
  if (found == 1 || found == count) return scales;
  return InputError(
      i, fmt::format("has {} elements, expected 1 or {}", found, count));
}

struct Requantizer {
  double scale = 1;  // The output's scale.
  double zero = 0;
  QuantRange range;

  double operator()(double sum, double factor) const {
    return Saturated(std::nearbyint(sum * factor / scale) + zero, range);
  }
};

absl::StatusOr<Requantizer> RequantizerOf(const EvalArgs& args) {
  Requantizer requantize;
  NODEWISE_ASSIGN_OR_RETURN(requantize.scale, OneScale(args, kYScale));
  NODEWISE_ASSIGN_OR_RETURN(requantize.zero, OneScale(args, kYZero));
  requantize.range = *RangeOf(args.dtype(kYZero));
  return requantize;
}

// y[i] = requantized sums[i] + bias, by the factor of its row and column.
template <typename F>
absl::Status StoreScaled(EvalArgs& args, const NDArray& sums,
                         const Requantizer& requantize, F sum_and_factor) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
  BoundByOneStep(y, args.bounds(0));
  const auto* const from = sums.As<int32_t>();
  ParallelFor(CountOf(y), 10, [&](int64_t begin, int64_t end) {
    double block[kWideBlock];
    for (int64_t at = begin; at < end; at += kWideBlock) {
      const int64_t next = std::min(at + kWideBlock, end);
      for (int64_t i = at; i < next; ++i) {
        const auto [sum, factor] = sum_and_factor(i, from[i]);
        block[i - at] = requantize(sum, factor);
      }
      StoreDoubles(block, at, next, y);
    }
  });
  return absl::OkStatus();
}

// The common part of both. The `Rules` have Integers(): the product of integers
// that they scale.
template <typename Rules>
struct QLinearProduct {
  absl::Status Check(const Inputs& in) const {
    return CheckProduct(self().Integers(), in);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return InferProduct(self().Integers(), in);
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo> out) const {
    const OpAttrs integers = self().Integers();
    std::vector<InputInfo> infos;
    return integers.def().flops(integers.get(), IntegerInputs(in, &infos), out);
  }

 private:
  const Rules& self() const { return static_cast<const Rules&>(*this); }
};

struct QLinearConv : ops::QLinearConv, QLinearProduct<QLinearConv> {
  static constexpr auto Fields() { return ConvFields(); }
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(
        All(RequireType(in, kBias, kInt32), RequireRank(in, kBias, 1)));
    return QLinearProduct::Check(in);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray sums,
                              EvaluateProduct(Integers(), args));
    NODEWISE_ASSIGN_OR_RETURN(const Requantizer requantize,
                              RequantizerOf(args));
    const int64_t channels = sums.shape()[1];
    const int64_t inner = Product(sums.shape().subspan(2));
    NODEWISE_ASSIGN_OR_RETURN(const double a_scale, OneScale(args, kAScale));
    NODEWISE_ASSIGN_OR_RETURN(std::vector<double> scales,
                              Scales(args, kBScale, channels));
    scales.resize(static_cast<size_t>(channels), scales[0]);
    std::vector<double> bias(scales.size(), 0);
    if (args.has(kBias)) {
      NODEWISE_ASSIGN_OR_RETURN(bias, Scales(args, kBias, channels));
      bias.resize(scales.size(), bias[0]);
    }
    return StoreScaled(args, sums, requantize, [&](int64_t i, int32_t sum) {
      const auto channel = static_cast<size_t>(i / inner % channels);
      return std::pair(static_cast<double>(sum) + bias[channel],
                       a_scale * scales[channel]);
    });
  }

 private:
  friend QLinearProduct;
  OpAttrs Integers() const {
    return OpAttrs::Of(&IntegerRow("ConvInteger"), ops::ConvInteger{*this});
  }
};

struct QLinearMatMul : ops::QLinearMatMul, QLinearProduct<QLinearMatMul> {
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray sums,
                              EvaluateProduct(Integers(), args));
    NODEWISE_ASSIGN_OR_RETURN(const Requantizer requantize,
                              RequantizerOf(args));
    // One scale, one for each row of a or column of b, or one for each of each
    // matrix of a batch.
    const int64_t columns =
        args.shape(kB).size() < 2 ? 1 : args.shape(kB).back();
    const size_t a_rank = args.shape(kA).size();
    const int64_t rows = a_rank < 2 ? 1 : args.shape(kA)[a_rank - 2];
    const int64_t count = CountOf(sums);
    const int64_t items =
        count == 0 ? 1 : count / std::max<int64_t>(1, rows * columns);
    NODEWISE_ASSIGN_OR_RETURN(const ScaleList a,
                              ListOf(args, kAScale, rows, items));
    NODEWISE_ASSIGN_OR_RETURN(const ScaleList b,
                              ListOf(args, kBScale, columns, items));
    return StoreScaled(args, sums, requantize, [&](int64_t i, int32_t sum) {
      const int64_t item = i / (rows * columns);
      return std::pair(
          static_cast<double>(sum),
          a.At(item, i / columns % rows) * b.At(item, i % columns));
    });
  }

 private:
  friend QLinearProduct;
  struct ScaleList {
    std::vector<double> scales;
    int64_t lines = 1;
    double At(int64_t item, int64_t line) const {
      const auto count = static_cast<int64_t>(scales.size());
      return scales[static_cast<size_t>((item * lines + line) % count)];
    }
  };
  static absl::StatusOr<ScaleList> ListOf(const EvalArgs& args, size_t i,
                                          int64_t lines, int64_t items) {
    ScaleList list{ToDoubles(args.in(i)), lines};
    const auto count = static_cast<int64_t>(list.scales.size());
    if (count == 1 || (count > 0 && (count == lines || count == lines * items)))
      return list;
    return InputError(
        i, fmt::format("has {} elements, expected 1 or {}", count, lines));
  }
  static OpAttrs Integers() {
    return OpAttrs::Of(&IntegerRow("MatMulInteger"), ops::MatMulInteger{});
  }
};

constexpr OperatorDef kQlinearRows[] = {
    Row<ops::QLinearConv, QLinearConv>(
        {.name = "QLinearConv",
         .since = 10,
         .inputs = {"x", "x_scale", "x_zero_point", "w", "w_scale",
                    "w_zero_point", "y_scale", "y_zero_point", Optional("B")},
         .outputs = {"y"},
         .bound = kSum}),
    Row<ops::QLinearMatMul, QLinearMatMul>(
        {.name = "QLinearMatMul",
         .since = 10,
         .inputs = {"a", "a_scale", "a_zero_point", "b", "b_scale",
                    "b_zero_point", "y_scale", "y_zero_point"},
         .outputs = {"y"},
         .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> QLinearOperators() { return kQlinearRows; }

}  // namespace nodewise
