#include "nodewise/ops/axis.h"

#include <climits>
#include <cmath>
#include <limits>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/open_results.h"
#include "contrib/ops/util/sum_bounds.h"
#include "contrib/ops/util/wide_elements.h"

namespace nodewise {
namespace {

// A tensor split around one side: [outer, size, inner].
struct Lines {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};
Lines LinesAlong(absl::Span<const int64_t> shape, int axis) {
  const auto side = static_cast<size_t>(axis);
  return {Product(shape.subspan(0, side)), shape[side],
          Product(shape.subspan(side + 1))};
}

// ArgMax and ArgMin.
template <typename Class, bool kLargest>
struct ArgExtreme : Class {
  using Class::axis;
  using Class::keepdims;
  using Class::select_last_index;

  static constexpr auto Fields() {
    return FieldList(
        Field<&ops::ArgAttributes::axis>("axis"),
        Field<&ops::ArgAttributes::keepdims>("keepdims"),
        Field<&ops::ArgAttributes::select_last_index>("select_last_index"));
  }
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(RequireNumber(in, 0));
    if (!in.type(0).has_rank()) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(const int side, Axis(axis, in.type(0).rank()));
    const Dim& size = (*in.type(0).shape)[static_cast<size_t>(side)];
    if (size != Dim(0)) return absl::OkStatus();
    return InputError(0, "has no elements along the axis, expected some");
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    TensorType type(kInt64);
    if (!in.type(0).has_rank()) return OutputInfos{type};
    NODEWISE_ASSIGN_OR_RETURN(const int side, Axis(axis, in.type(0).rank()));
    type.shape = in.type(0).shape;
    if (keepdims) {
      (*type.shape)[static_cast<size_t>(side)] = 1;
    } else {
      type.shape->erase(type.shape->begin() + side);
    }
    return OutputInfos{type};
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const auto in = args.shape(0);
    std::vector<int64_t> shape(in.begin(), in.end());
    NODEWISE_ASSIGN_OR_RETURN(const int side,
                              Axis(axis, static_cast<int>(shape.size())));
    const Lines lines = LinesAlong(in, side);
    if (keepdims) {
      shape[static_cast<size_t>(side)] = 1;
    } else {
      shape.erase(shape.begin() + side);
    }
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                              args.MakeOutput(0, shape, kInt64));
    AllowAnyPlaceOfNan(args, lines);
    if (args.dtype(0) == kFloat32) {
      Run(args.in(0).As<float>(), lines, y.As<int64_t>());
      return absl::OkStatus();
    }
    return WithWide(args.dtype(0), [&](auto zero) {
      std::vector<decltype(zero)> copy;
      Run(WideElements(args.in(0), &copy), lines, y.As<int64_t>());
      return absl::OkStatus();
    });
  }

 private:
  // ONNX does not say whether a NaN counts as the largest element or never
  // does.
  static void AllowAnyPlaceOfNan(EvalArgs& args, const Lines& lines) {
    if (args.bounds(0) == nullptr || !IsFloat(args.dtype(0))) return;
    const std::vector<double> x = ToDoubles(args.in(0));
    AllowAny(args, 0, [&](int64_t line) {
      const int64_t first =
          line / lines.inner * lines.size * lines.inner + line % lines.inner;
      for (int64_t i = 0; i < lines.size; ++i) {
        if (std::isnan(x[static_cast<size_t>(first + i * lines.inner)])) {
          return true;
        }
      }
      return false;
    });
  }
  template <typename T>
  void Run(const T* x, const Lines& lines, int64_t* y) const {
    const auto size = static_cast<double>(lines.size);
    ParallelFor(
        lines.outer * lines.inner, 2 * size, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t first =
                i / lines.inner * lines.size * lines.inner + i % lines.inner;
            y[i] = Best(x + first, lines);
          }
        });
  }
  template <typename T>
  int64_t Best(const T* x, const Lines& lines) const {
    int64_t best = 0;
    for (int64_t i = 1; i < lines.size; ++i) {
      if (IsBetter(x[i * lines.inner], x[best * lines.inner])) best = i;
    }
    return best;
  }
  template <typename T>
  bool IsBetter(T next, T best) const {
    if (next != next || best != best) {  // NaN.
      return next != next && (best == best || select_last_index);
    }
    if (next == best) return select_last_index;
    return kLargest ? next > best : next < best;
  }
};

struct CumulativeSum {
  static constexpr int kStart = 0;
  template <typename T>
  static T Next(T total, T x) {
    return total + x;
  }
};
struct CumulativeProduct {
  static constexpr int kStart = 1;
  template <typename T>
  static T Next(T total, T x) {
    return total * x;
  }
};

// What a shorter type makes of a product that grows factor by factor.
class ProductWay {
 public:
  explicit ProductWay(DLDataType dtype)
      : overflows_(dtype),
        tiny_(HalfUlp(dtype, 0)),
        least_normal_(tiny_ / UnitRoundoff(dtype)) {}

  // Returns what may be lost of the next product: anything, behind one that
  // the type does not hold.
  double LostAt(double product) {
    const bool was_held = is_held_;
    const double size = std::fabs(product);
    is_held_ =
        is_held_ && !overflows_(size) && (size == 0 || size >= least_normal_);
    return was_held ? tiny_ : std::numeric_limits<double>::infinity();
  }

 private:
  const OverflowRule overflows_;
  const double tiny_;
  const double least_normal_;
  bool is_held_ = true;
};

// CumSum and CumProd. The axis is input 1, one number.
template <typename Class, typename Operation>
struct Cumulative : Class {
  using Class::exclusive;
  using Class::reverse;

  static constexpr auto Fields() {
    return FieldList(Field<&ops::CumulativeAttributes::exclusive>("exclusive"),
                     Field<&ops::CumulativeAttributes::reverse>("reverse"));
  }
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(All(RequireNumber(in, 0), RequireIndex(in, 1),
                                 RequireRank(in, 0, 1, INT_MAX),
                                 RequireRank(in, 1, 0, 1)));
    const auto axis = in.Ints(1);
    if (!axis.has_value()) return absl::OkStatus();
    if (axis->size() != 1) return InputError(1, "is not a single axis");
    if (!in.type(0).has_rank()) return absl::OkStatus();
    return Axis((*axis)[0], in.type(0).rank()).status();
  }
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, args.Ints(1));
    if (axes.size() != 1) return InputError(1, "is not a single axis");
    NODEWISE_ASSIGN_OR_RETURN(
        const int axis, Axis(axes[0], static_cast<int>(args.shape(0).size())));
    const Lines lines = LinesAlong(args.shape(0), axis);
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                              args.MakeOutput(0, args.shape(0), args.dtype(0)));
    if (Bounds* const bounds = args.bounds(0)) {
      bounds->proved.resize(static_cast<size_t>(CountOf(y)));
      bounds->expected.resize(bounds->proved.size());
      NODEWISE_RETURN_IF_ERROR(RunBounds(args, lines, bounds));
    }
    if (args.dtype(0) == kFloat32) {
      RunLines(args.in(0).As<float>(), lines, y.As<float>());
      return absl::OkStatus();
    }
    return WithWide(args.dtype(0), [&](auto zero) {
      using W = decltype(zero);
      std::vector<W> copy;
      std::vector<W> results;
      RunLines(WideElements(args.in(0), &copy), lines, WideOutput(y, &results));
      StoreOutput(results, y);
      return absl::OkStatus();
    });
  }
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    return CountOf(out[0]);
  }

 private:
  template <typename F>
  static void ForEachLine(const Lines& lines, F f) {
    const auto size = static_cast<double>(lines.size);
    ParallelFor(
        lines.outer * lines.inner, 3 * size, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            f(i / lines.inner * lines.size * lines.inner + i % lines.inner);
          }
        });
  }
  // Where the i-th element to be taken lies.
  int64_t At(int64_t i, const Lines& lines) const {
    return (reverse ? lines.size - 1 - i : i) * lines.inner;
  }
  template <typename T>
  void RunLines(const T* x, const Lines& lines, T* y) const {
    using Total =
        std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
    ForEachLine(lines, [&](int64_t first) {
      RunLine<Total>(x + first, lines, y + first);
    });
  }
  template <typename Total, typename T>
  void RunLine(const T* x, const Lines& lines, T* y) const {
    Total total = Operation::kStart;
    for (int64_t i = 0; i < lines.size; ++i) {
      const int64_t at = At(i, lines);
      const Total before = total;
      total = Operation::Next(total, static_cast<Total>(x[at]));
      y[at] = static_cast<T>(exclusive ? before : total);
    }
  }
  absl::Status RunBounds(const EvalArgs& args, const Lines& lines,
                         Bounds* bounds) const {
    const DLDataType dtype = args.dtype(0);
    const std::vector<double> x = ToDoubles(args.in(0));
    ForEachLine(lines, [&](int64_t first) {
      SumOfTerms sum;
      sum.result = Operation::kStart;
      ProductWay way(dtype);
      for (int64_t i = 0; i < lines.size; ++i) {
        const auto at = static_cast<size_t>(first + At(i, lines));
        if (exclusive) SetBound(sum, dtype, at, bounds);
        sum.terms += 1;
        sum.absolute += std::fabs(x[at]);
        sum.squares += x[at] * x[at];
        sum.result = Operation::Next(sum.result, x[at]);
        if (Operation::kStart == 1) sum.lost = way.LostAt(sum.result);
        if (!exclusive) SetBound(sum, dtype, at, bounds);
      }
    });
    return absl::OkStatus();
  }
  static void SetBound(const SumOfTerms& sum, DLDataType dtype, size_t at,
                       Bounds* bounds) {
    SumBound bound = BoundSum(dtype, sum);
    if (Operation::kStart == 1) {
      const double u = UnitRoundoff(dtype) * std::fabs(sum.result);
      bound = {1.01 * sum.terms * u + sum.lost,
               kExpectedFactor * std::sqrt(sum.terms) * u + sum.lost};
    }
    if (!IsFloat(dtype)) bound = {0, 0};
    bounds->proved[at] = bound.proved;
    bounds->expected[at] = bound.expected;
  }
};

constexpr OperatorDef kAxisOperators[] = {
    Row<ops::ArgMax, ArgExtreme<ops::ArgMax, true>>(
        {.name = "ArgMax", .inputs = {"data"}, .outputs = {"reduced"}}),
    Row<ops::ArgMin, ArgExtreme<ops::ArgMin, false>>(
        {.name = "ArgMin", .inputs = {"data"}, .outputs = {"reduced"}}),
    Row<ops::CumSum, Cumulative<ops::CumSum, CumulativeSum>>(
        {.name = "CumSum",
         .since = 11,
         .inputs = {"x", "axis"},
         .outputs = {"y"},
         .bound = kSum}),
    Row<ops::CumProd, Cumulative<ops::CumProd, CumulativeProduct>>(
        {.name = "CumProd",
         .since = 26,
         .inputs = {"x", "axis"},
         .outputs = {"y"},
         .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> AxisOperators() { return kAxisOperators; }

}  // namespace nodewise
