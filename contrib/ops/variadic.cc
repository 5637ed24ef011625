#include "nodewise/ops/variadic.h"

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/sum_bounds.h"
#include "contrib/ops/util/tensor_moves.h"

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
    if (args.num_inputs() == 1) {
      CopyAll(args.in(0), y);
      return absl::OkStatus();
    }
    if (args.dtype(0) == kFloat32) {
      RunFloat32(args, plan, y.As<float>());
      return absl::OkStatus();
    }
    return WithWide(args.dtype(0), [&](auto zero) {
      RunWide<decltype(zero)>(args, plan, y);
      return absl::OkStatus();
    });
  }

 private:
  static void RunFloat32(const EvalArgs& args, const Broadcast& plan,
                         float* to) {
    ForEachRun(
        plan, 4,
        [&](int64_t out, const int64_t* at, int64_t n, const int64_t* steps) {
          const float* const first = args.in(0).As<float>() + at[0];
          for (int64_t i = 0; i < n; ++i) to[out + i] = first[i * steps[0]];
          for (size_t k = 1; k < args.num_inputs(); ++k) {
            const float* const next = args.in(k).As<float>() + at[k];
            for (int64_t i = 0; i < n; ++i) {
              to[out + i] = Of(to[out + i], next[i * steps[k]]);
            }
          }
        });
  }
  template <typename W>
  static void RunWide(const EvalArgs& args, const Broadcast& plan,
                      const NDArray& y) {
    ForEachRun(
        plan, 4,
        [&](int64_t out, const int64_t* at, int64_t n, const int64_t* steps) {
          W best[kWideBlock];
          W next[kWideBlock];
          for (int64_t begin = 0; begin < n; begin += kWideBlock) {
            const int64_t m = std::min(kWideBlock, n - begin);
            const auto load = [&](size_t k, W* to) {
              LoadWideSteps(args.in(k), at[k] + begin * steps[k], steps[k], m,
                            to);
            };
            load(0, best);
            for (size_t k = 1; k < args.num_inputs(); ++k) {
              load(k, next);
              for (int64_t i = 0; i < m; ++i) best[i] = Of(best[i], next[i]);
            }
            StoreWide(best, out + begin, out + begin + m, y);
          }
        });
  }
};
using Min = Extreme<ops::Min, false>;
using Max = Extreme<ops::Max, true>;

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
    ForEachRun(
        plan, 4,
        [&](int64_t out, const int64_t* at, int64_t n, const int64_t* steps) {
          for (int64_t begin = 0; begin < n; begin += kWideBlock) {
            const int64_t m = std::min(kWideBlock, n - begin);
            double totals[kWideBlock] = {};
            AddBlock(args, at, steps, begin, m, totals);
            StoreDoubles(totals, out + begin, out + begin + m, y);
          }
          for (int64_t i = 0; bounds != nullptr && i < n; ++i) {
            const SumBound bound = BoundAt(args, at, steps, i);
            bounds->proved[static_cast<size_t>(out + i)] = bound.proved;
            bounds->expected[static_cast<size_t>(out + i)] = bound.expected;
          }
        });
    return absl::OkStatus();
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo> out) const {
    return CountOf(out[0]) * static_cast<double>(in.size());
  }

 private:
  static void AddBlock(const EvalArgs& args, const int64_t* at,
                       const int64_t* steps, int64_t begin, int64_t count,
                       double* totals) {
    double terms[kWideBlock];
    for (size_t k = 0; k < args.num_inputs(); ++k) {
      LoadWideSteps(args.in(k), at[k] + begin * steps[k], steps[k], count,
                    terms);
      for (int64_t i = 0; i < count; ++i) totals[i] += terms[i];
    }
    const double divisor = DivisorOf(args);
    for (int64_t i = 0; i < count; ++i) totals[i] /= divisor;
  }
  // The terms are located once more: bounds need not be fast.
  static SumBound BoundAt(const EvalArgs& args, const int64_t* at,
                          const int64_t* steps, int64_t i) {
    SumOfTerms sum{static_cast<double>(args.num_inputs())};
    for (size_t k = 0; k < args.num_inputs(); ++k) {
      const int64_t element = at[k] + i * steps[k];
      double x = 0;
      LoadDoubles(args.in(k), element, element + 1, &x);
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
