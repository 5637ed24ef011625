#include "nodewise/ops/variadic.h"

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/sum_bounds.h"

namespace nodewise {
namespace {

absl::Status CheckAll(const Inputs& in,
                      absl::Status (*require)(const Inputs&, size_t)) {
  if (in.size() == 0) {
    return absl::InvalidArgumentError("has no input, expected at least one");
  }
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in.has(i)) return InputError(i, "is left out, expected a tensor");
    NODEWISE_RETURN_IF_ERROR(require(in, i));
  }
  return RequireSameType(in);
}

absl::StatusOr<Broadcast> BroadcastAll(const EvalArgs& args) {
  std::vector<absl::Span<const int64_t>> shapes;
  for (size_t i = 0; i < args.num_inputs(); ++i)
    shapes.push_back(args.shape(i));
  return MakeBroadcast(shapes);
}

// The larger (or smaller) of two; NaN wins over all numbers.
template <typename Class, bool kLargest>
struct Extreme : Class {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a)) return a;
      if (std::isnan(b)) return b;
    }
    return (kLargest ? a < b : b < a) ? b : a;
  }
  static Dim Element(const Dim& a, const Dim& b) {
    if (a == b && (a.is_known() || !a.name().empty())) return a;
    if (!a.is_known() || !b.is_known()) return Dim();
    return Of(a.size(), b.size());
  }

  absl::Status Check(const Inputs& in) const {
    return CheckAll(in, &RequireNumber);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    NODEWISE_ASSIGN_OR_RETURN(OutputInfos out, Countable(BroadcastInputs(in)));
    if (in.size() == 2) out[0].elements = PairElements(in, &Element);
    return out;
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const Broadcast plan, BroadcastAll(args));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                              args.MakeOutput(0, plan.shape, args.dtype(0)));
    return WithNumber(args.dtype(0), [&](auto zero) {
      using T = decltype(zero);
      T* const to = y.As<T>();
      ForEachRun(
          plan, 4,
          [&](int64_t out, const int64_t* at, int64_t n, const int64_t* steps) {
            const T* const first = args.in(0).As<T>() + at[0];
            for (int64_t i = 0; i < n; ++i) to[out + i] = first[i * steps[0]];
            for (size_t k = 1; k < args.num_inputs(); ++k) {
              const T* const next = args.in(k).As<T>() + at[k];
              for (int64_t i = 0; i < n; ++i) {
                Join(&to[out + i], next[i * steps[k]]);
              }
            }
          });
      return absl::OkStatus();
    });
  }

 private:
  template <typename T>
  static void Join(T* to, T next) {
    if constexpr (std::is_arithmetic_v<T>) {
      *to = Of(*to, next);
    } else {
      *to = FromDouble<T>(Of(ToDouble(*to), ToDouble(next)));
    }
  }
};
using Min = Extreme<ops::Min, false>;
using Max = Extreme<ops::Max, true>;

// The number of elements added up at a time.
constexpr int64_t kBlock = 256;

template <typename Class, bool kMean>
struct Total : Class {
  absl::Status Check(const Inputs& in) const {
    return CheckAll(in, &RequireFloat);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return Countable(BroadcastInputs(in));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const Broadcast plan, BroadcastAll(args));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                              args.MakeOutput(0, plan.shape, args.dtype(0)));
    Bounds* const bounds = args.bounds(0);
    if (bounds != nullptr) {
      bounds->proved.resize(static_cast<size_t>(plan.count));
      bounds->expected.resize(static_cast<size_t>(plan.count));
    }
    return WithFloat(args.dtype(0), [&](auto zero) {
      using T = decltype(zero);
      ForEachRun(
          plan, 4,
          [&](int64_t out, const int64_t* at, int64_t n, const int64_t* steps) {
            for (int64_t begin = 0; begin < n; begin += kBlock) {
              AddBlock<T>(args, at, steps, begin, std::min(kBlock, n - begin),
                          y.As<T>() + out + begin);
            }
            for (int64_t i = 0; bounds != nullptr && i < n; ++i) {
              const SumBound bound = BoundAt<T>(args, at, steps, i);
              bounds->proved[static_cast<size_t>(out + i)] = bound.proved;
              bounds->expected[static_cast<size_t>(out + i)] = bound.expected;
            }
          });
      return absl::OkStatus();
    });
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo> out) const {
    return CountOf(out[0]) * static_cast<double>(in.size());
  }

 private:
  template <typename T>
  static void AddBlock(const EvalArgs& args, const int64_t* at,
                       const int64_t* steps, int64_t begin, int64_t count,
                       T* to) {
    double totals[kBlock] = {};
    for (size_t k = 0; k < args.num_inputs(); ++k) {
      const T* const from = args.in(k).As<T>() + at[k] + begin * steps[k];
      for (int64_t i = 0; i < count; ++i) {
        totals[i] += ToDouble(from[i * steps[k]]);
      }
    }
    const double divisor = DivisorOf(args);
    for (int64_t i = 0; i < count; ++i) {
      to[i] = FromDouble<T>(totals[i] / divisor);
    }
  }
  // The terms are located once more: bounds need not be fast.
  template <typename T>
  static SumBound BoundAt(const EvalArgs& args, const int64_t* at,
                          const int64_t* steps, int64_t i) {
    SumOfTerms sum{static_cast<double>(args.num_inputs())};
    for (size_t k = 0; k < args.num_inputs(); ++k) {
      const double x = ToDouble(args.in(k).As<T>()[at[k] + i * steps[k]]);
      sum.absolute += std::fabs(x);
      sum.squares += x * x;
      sum.result += x;
    }
    SumBound bound = BoundSum(args.dtype(0), sum);
    if (!kMean) return bound;
    // The division is rounded too.
    const double divisor = DivisorOf(args);
    const double rounding = 2 * HalfUlp(args.dtype(0), sum.result / divisor);
    return {bound.proved / divisor + rounding,
            bound.expected / divisor + rounding};
  }
  static double DivisorOf(const EvalArgs& args) {
    return kMean ? static_cast<double>(args.num_inputs()) : 1;
  }
};

using Sum = Total<ops::Sum, false>;
using Mean = Total<ops::Mean, true>;

// Before opset 8 nothing was broadcast.
template <typename Now>
struct Old : Now {
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(Now::Check(in));
    const Shape* first = nullptr;
    for (size_t i = 0; i < in.size(); ++i) {
      if (!in.type(i).has_rank()) continue;
      if (first == nullptr) first = &*in.type(i).shape;
      NODEWISE_RETURN_IF_ERROR(RequireShape(in, i, *first));
    }
    return absl::OkStatus();
  }
};

constexpr OperatorDef kVariadicOperators[] = {
    Row<ops::Min, Old<Min>>(
        {.name = "Min", .inputs = {Variadic("data_0")}, .outputs = {"min"}}),
    Row<ops::Min, Min>({.name = "Min",
                        .since = 8,
                        .inputs = {Variadic("data_0")},
                        .outputs = {"min"}}),
    Row<ops::Max, Old<Max>>(
        {.name = "Max", .inputs = {Variadic("data_0")}, .outputs = {"max"}}),
    Row<ops::Max, Max>({.name = "Max",
                        .since = 8,
                        .inputs = {Variadic("data_0")},
                        .outputs = {"max"}}),
    Row<ops::Sum, Old<Sum>>({.name = "Sum",
                             .inputs = {Variadic("data_0")},
                             .outputs = {"sum"},
                             .bound = kSum}),
    Row<ops::Sum, Sum>({.name = "Sum",
                        .since = 8,
                        .inputs = {Variadic("data_0")},
                        .outputs = {"sum"},
                        .bound = kSum}),
    Row<ops::Mean, Old<Mean>>({.name = "Mean",
                               .inputs = {Variadic("data_0")},
                               .outputs = {"mean"},
                               .bound = kSum}),
    Row<ops::Mean, Mean>({.name = "Mean",
                          .since = 8,
                          .inputs = {Variadic("data_0")},
                          .outputs = {"mean"},
                          .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> VariadicOperators() { return kVariadicOperators; }

}  // namespace nodewise
