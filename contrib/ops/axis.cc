#include "nodewise/ops/axis.h"

#include <climits>
#include <cmath>
#include <limits>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/sum_bounds.h"
#include "contrib/ops/util/tensor_moves.h"

namespace nodewise {
namespace {

// The lines of a tensor along an axis, `outer * inner` of them. Returns where a
// line begins; its elements are `inner` apart.
int64_t FirstOf(int64_t line, const AxisSplit& lines) {
  return line / lines.inner * lines.size * lines.inner + line % lines.inner;
}

// Calls f(line, first) for all lines. Lines do not depend on each other, so
// threads share them; an element takes about `work` nanoseconds.
template <typename F>
void ForEachLine(const AxisSplit& lines, double work, F f) {
  ParallelFor(lines.outer * lines.inner, work * static_cast<double>(lines.size),
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) f(i, FirstOf(i, lines));
              });
}

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
    // There is no place of the largest among no elements.
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
    NODEWISE_ASSIGN_OR_RETURN(const AxisSplit lines,
                              SplitAlong(args.shape(0), axis));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    AllowAnyPlaceOfNan(args, lines);
    if (args.dtype(0) == kFloat32) {
      Run(args.in(0).As<float>(), lines, y.As<int64_t>());
      return absl::OkStatus();
    }
    return WithWide(args.dtype(0), [&](auto zero) {
      std::vector<decltype(zero)> copy;
      Run(WideElements(args.in(0), &copy), lines, y.As<int64_t>());
    });
  }

 private:
  // ONNX does not say whether a NaN counts as the largest element or never
  // does.
  static void AllowAnyPlaceOfNan(EvalArgs& args, const AxisSplit& lines) {
    if (args.bounds(0) == nullptr || !IsFloat(args.dtype(0))) return;
    const std::vector<double> x = ToDoubles(args.in(0));
    AllowAny(args, 0, [&](int64_t line) {
      const int64_t first = FirstOf(line, lines);
      for (int64_t i = 0; i < lines.size; ++i) {
        if (std::isnan(x[static_cast<size_t>(first + i * lines.inner)])) {
          return true;
        }
      }
      return false;
    });
  }
  template <typename T>
  void Run(const T* x, const AxisSplit& lines, int64_t* y) const {
    ForEachLine(lines, 2, [&](int64_t line, int64_t first) {
      y[line] = Best(x + first, lines);
    });
  }
  template <typename T>
  int64_t Best(const T* x, const AxisSplit& lines) const {
    int64_t best = 0;
    for (int64_t i = 1; i < lines.size; ++i) {
      if (IsBetter(x[i * lines.inner], x[best * lines.inner])) best = i;
    }
    return best;
  }
  // A NaN beats all numbers, and another NaN only if the last one counts.
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

// A kernel may keep the product in its own type, where an overflow or underflow
// on the way spoils all products that follow.
class ProductWay {
 public:
  explicit ProductWay(DLDataType dtype)
      : overflows_(dtype),
        tiny_(HalfUlp(dtype, 0)),
        least_normal_(tiny_ / UnitRoundoff(dtype)) {}

  // Returns how much of the next product may be lost: anything, once the type
  // has not held an earlier one.
  double UnderflowLossAt(double product) {
    const bool was_held = is_held_;
    const double size = std::fabs(product);
    // A product of 0 is exact, and all that follow it are.
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

template <typename Class, typename Operation>
struct Cumulative : Class, OneFlopEach, KeepsType {
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
    return RequireAxis(in, (*axis)[0]);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    // The axis is known only now if it is not constant.
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, args.Ints(1));
    if (axes.size() != 1) return InputError(1, "is not a single axis");
    NODEWISE_ASSIGN_OR_RETURN(const AxisSplit lines,
                              SplitAlong(args.shape(0), axes[0]));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    if (Bounds* const bounds = SizedBounds(args, 0, CountOf(y))) {
      RunBounds(args, lines, bounds);
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
    });
  }

 private:
  int64_t At(int64_t i, const AxisSplit& lines) const {
    return (reverse ? lines.size - 1 - i : i) * lines.inner;
  }
  // Floats are added up in double, integers modulo 2^64, which is right for
  // narrower ones too.
  template <typename T>
  void RunLines(const T* x, const AxisSplit& lines, T* y) const {
    using Total =
        std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
    ForEachLine(lines, 3, [&](int64_t, int64_t first) {
      RunLine<Total>(x + first, lines, y + first);
    });
  }
  // The total goes on in its own type and is made the element's for each
  // result.
  template <typename Total, typename T>
  void RunLine(const T* x, const AxisSplit& lines, T* y) const {
    Total total = Operation::kStart;
    for (int64_t i = 0; i < lines.size; ++i) {
      const int64_t at = At(i, lines);
      const Total before = total;
      total = Operation::Next(total, static_cast<Total>(x[at]));
      y[at] = static_cast<T>(exclusive ? before : total);
    }
  }
  // An element's bounds are those of the sum, or product, of all that has been
  // taken so far.
  void RunBounds(const EvalArgs& args, const AxisSplit& lines,
                 Bounds* bounds) const {
    const DLDataType dtype = args.dtype(0);
    if (!IsFloat(dtype)) return;
    const std::vector<double> x = ToDoubles(args.in(0));
    ForEachLine(lines, 3, [&](int64_t, int64_t first) {
      SumOfTerms sum;
      // An exclusive first element is the start itself, without an error.
      sum.result = Operation::kStart;
      ProductWay way(dtype);
      for (int64_t i = 0; i < lines.size; ++i) {
        const auto at = static_cast<size_t>(first + At(i, lines));
        if (exclusive) BoundOf(sum, dtype).SetAt(at, bounds);
        sum.terms += 1;
        sum.absolute += std::fabs(x[at]);
        sum.squares += x[at] * x[at];
        sum.result = Operation::Next(sum.result, x[at]);
        if (Operation::kStart == 1) sum.lost = way.UnderflowLossAt(sum.result);
        if (!exclusive) BoundOf(sum, dtype).SetAt(at, bounds);
      }
    });
  }
  static SumBound BoundOf(const SumOfTerms& sum, DLDataType dtype) {
    if (Operation::kStart == 0) return BoundSum(dtype, sum);
    // Each factor is rounded once, relative to the product. The factor 1.01
    // covers the products of these errors.
    const double u = UnitRoundoff(dtype) * std::fabs(sum.result);
    return {1.01 * sum.terms * u + sum.lost,
            kExpectedFactor * std::sqrt(sum.terms) * u + sum.lost};
  }
};

constexpr OperatorDef kAxisOperators[] = {
    Row<ops::ArgMax, ArgExtreme<ops::ArgMax, true>>("ArgMax", 1, {"data"},
                                                    {"reduced"}),
    Row<ops::ArgMin, ArgExtreme<ops::ArgMin, false>>("ArgMin", 1, {"data"},
                                                     {"reduced"}),
    Row<ops::CumSum, Cumulative<ops::CumSum, CumulativeSum>>(
        "CumSum", 11, {"x", "axis"}, {"y"}, kSum),
    Row<ops::CumProd, Cumulative<ops::CumProd, CumulativeProduct>>(
        "CumProd", 26, {"x", "axis"}, {"y"}, kSum),
};

}  // namespace

absl::Span<const OperatorDef> AxisOperators() { return kAxisOperators; }

}  // namespace nodewise
