#include "nodewise/ops/pool.h"

#include <cmath>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/pool.h"
#include "contrib/ops/util/sum_bounds.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

template <typename T>
bool IsNan(T x) {
  if constexpr (kIsFloatType<T>) return std::isnan(ToDouble(x));
  return false;
}

struct MaxPool : ops::MaxPool {
  static constexpr auto Fields() {
    return FieldList(Field<&MaxPool::auto_pad>("auto_pad"),
                     Field<&MaxPool::ceil_mode>("ceil_mode"),
                     Field<&MaxPool::dilations>("dilations"),
                     RequiredField<&MaxPool::kernel_shape>("kernel_shape"),
                     Field<&MaxPool::pads>("pads"),
                     Field<&MaxPool::storage_order>("storage_order"),
                     Field<&MaxPool::strides>("strides"));
  }
  absl::Status Check(const Inputs& in) const {
    return All(RequireNumber(in, 0), CheckPool(WindowOf(*this), in));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in,
                                    size_t num_outputs) const {
    NODEWISE_ASSIGN_OR_RETURN(TensorType type, InferPool(WindowOf(*this), in));
    OutputInfos out = {type};
    type.dtype = kInt64;
    if (num_outputs > 1) out.emplace_back(std::move(type));
    return out;
  }
  absl::Status Evaluate(EvalArgs& args) const;

 private:
  int64_t IndexOf(int64_t element, absl::Span<const int64_t> sides) const;
};

// Returns the index of an element within its plane.
int64_t MaxPool::IndexOf(int64_t element,
                         absl::Span<const int64_t> sides) const {
  if (!storage_order) return element;
  int64_t index = 0;
  int64_t stride = Product(sides);
  for (size_t s = sides.size(); s-- > 0;) {
    stride /= sides[s];
    index += element % sides[s] * stride;
    element /= sides[s];
  }
  return index;
}

template <typename T>
T LowestOf() {
  if constexpr (kIsFloatType<T>) {
    return FromDouble<T>(-std::numeric_limits<double>::infinity());
  } else {
    return std::numeric_limits<T>::lowest();
  }
}

template <typename T>
bool IsLarger(T a, T b) {
  if constexpr (kIsFloatType<T>) return ToDouble(a) > ToDouble(b);
  if constexpr (!kIsFloatType<T>) return a > b;
}

// best[i] becomes from[i * stride] where that is larger, or a NaN.
template <typename T>
void TakeLarger(const T* __restrict from, int64_t stride, int64_t count,
                T* __restrict best) {
  const auto take = [&](int64_t i, int64_t at) {
    const bool is_nan = IsNan(from[at]) && !IsNan(best[i]);
    best[i] = IsLarger(from[at], best[i]) || is_nan ? from[at] : best[i];
  };
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) take(i, i);
  } else {
    for (int64_t i = 0; i < count; ++i) take(i, i * stride);
  }
}

// Without indices: all windows along a line at once, tap by tap.
template <typename T>
void MaxOfWindows(const PoolPlan& plan, const T* x, T* y) {
  plan.ForEachLine([&](int64_t plane, int64_t place, PoolPlan::Placed& window) {
    T* const line = y + plane * plan.places() + place;
    std::fill_n(line, plan.line_places(), LowestOf<T>());
    window.ForEachRow([&](int64_t element, int64_t, int64_t) {
      const T* const from = x + plane * plan.plane_size() + element;
      for (const PoolPlan::LineTap& tap : plan.line_taps()) {
        TakeLarger(from + tap.first, plan.line_stride(), tap.count,
                   line + tap.place);
      }
    });
  });
}

absl::Status MaxPool::Evaluate(EvalArgs& args) const {
  NODEWISE_ASSIGN_OR_RETURN(const PoolPlan plan,
                            PoolPlan::Make(WindowOf(*this), args.shape(0)));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray out,
                            args.MakeOutput(0, plan.output(), args.dtype(0)));
  int64_t* indices = nullptr;
  if (args.wants(1)) {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor,
                              args.MakeOutput(1, plan.output(), kInt64));
    indices = tensor.As<int64_t>();
  }
  const auto sides = args.shape(0).subspan(2);
  return WithNumber(args.dtype(0), [&](auto zero) {
    using T = decltype(zero);
    const T* const x = args.in(0).As<T>();
    T* const y = out.As<T>();
    if (indices == nullptr) {
      MaxOfWindows(plan, x, y);
      return absl::OkStatus();
    }
    plan.ForEachWindow([&](int64_t plane, int64_t place,
                           PoolPlan::Placed& window) {
      const T* const from = x + plane * plan.plane_size();
      T best = LowestOf<T>();
      int64_t best_at = -1;
      window.ForEachRow([&](int64_t element, int64_t count, int64_t step) {
        for (int64_t i = 0; i < count; ++i, element += step) {
          const T value = from[element];
          if (best_at >= 0 && !IsLarger(value, best) &&
              (IsNan(best) || !IsNan(value))) {
            continue;
          }
          if (best_at >= 0 && IsNan(best)) continue;
          best = value;
          best_at = element;
        }
      });
      const int64_t at = plane * plan.places() + place;
      y[at] = best;
      indices[at] = best_at < 0
                        ? -1
                        : plane * plan.plane_size() + IndexOf(best_at, sides);
    });
    return absl::OkStatus();
  });
}

// Pools with one output, of a float type.
template <typename Class>
struct FloatPool : Class {
  absl::Status Check(const Inputs& in) const {
    return All(RequireFloat(in, 0), CheckPool(WindowOf(*this), in));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    NODEWISE_ASSIGN_OR_RETURN(TensorType type, InferPool(WindowOf(*this), in));
    return OutputInfos{std::move(type)};
  }
};

struct AveragePool : FloatPool<ops::AveragePool> {
  static constexpr auto Fields() {
    return FieldList(
        Field<&AveragePool::auto_pad>("auto_pad"),
        Field<&AveragePool::ceil_mode>("ceil_mode"),
        Field<&AveragePool::count_include_pad>("count_include_pad"),
        Field<&AveragePool::dilations>("dilations"),
        RequiredField<&AveragePool::kernel_shape>("kernel_shape"),
        Field<&AveragePool::pads>("pads"),
        Field<&AveragePool::strides>("strides"));
  }
  absl::Status Evaluate(EvalArgs& args) const;
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    const auto sizes = out[0].type.sizes();
    if (!sizes) return 0;
    double flops = 1;
    for (const int64_t size : *sizes) flops *= static_cast<double>(size);
    for (const int64_t size : kernel_shape) flops *= static_cast<double>(size);
    return flops;
  }
};

// Sums of a window's elements.
struct WindowSums {
  double plain = 0;
  double absolute = 0;
  double squares = 0;
};
template <typename T>
WindowSums SumsOf(const T* from, PoolPlan::Placed& window) {
  WindowSums sums;
  window.ForEachRow([&](int64_t element, int64_t count, int64_t step) {
    for (int64_t i = 0; i < count; ++i, element += step) {
      const double x = ToDouble(from[element]);
      sums.plain += x;
      sums.absolute += std::fabs(x);
      sums.squares += x * x;
    }
  });
  return sums;
}

// A bound for each element, to be set in any order.
Bounds* ResizedBounds(EvalArgs& args) {
  Bounds* const bounds = args.bounds(0);
  if (bounds == nullptr) return nullptr;
  const auto count = static_cast<size_t>(CountOf(args.outputs()[0]));
  bounds->proved.resize(count);
  bounds->expected.resize(count);
  return bounds;
}

absl::Status AveragePool::Evaluate(EvalArgs& args) const {
  NODEWISE_ASSIGN_OR_RETURN(const PoolPlan plan,
                            PoolPlan::Make(WindowOf(*this), args.shape(0)));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray out,
                            args.MakeOutput(0, plan.output(), args.dtype(0)));
  Bounds* const bounds = ResizedBounds(args);
  return WithFloat(args.dtype(0), [&](auto zero) {
    using T = decltype(zero);
    const T* const x = args.in(0).As<T>();
    T* const y = out.As<T>();
    plan.ForEachWindow([&](int64_t plane, int64_t place,
                           PoolPlan::Placed& window) {
      const WindowSums sums = SumsOf(x + plane * plan.plane_size(), window);
      const auto taps = static_cast<double>(window.taps());
      const double count = count_include_pad ? window.padded() : taps;
      const auto at = static_cast<size_t>(plane * plan.places() + place);
      y[at] = FromDouble<T>(sums.plain / count);
      if (bounds == nullptr) return;
      const SumBound bound = BoundSum(
          out.dtype(), {taps + 1, sums.absolute / count,
                        sums.squares / (count * count), sums.plain / count});
      bounds->proved[at] = bound.proved;
      bounds->expected[at] = bound.expected;
    });
    return absl::OkStatus();
  });
}

double PowerOf(double x, double p) {
  if (p == 1) return std::fabs(x);
  if (p == 2) return x * x;
  return std::pow(std::fabs(x), p);
}

// (sum of |x|^p)^(1/p). The bounds: the relative error of a sum of terms of one
// sign, and a few units more for the powers.
absl::Status EvaluateLpPool(const WindowAttributes& attributes, double p,
                            EvalArgs& args) {
  NODEWISE_ASSIGN_OR_RETURN(const PoolPlan plan,
                            PoolPlan::Make(attributes, args.shape(0)));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray out,
                            args.MakeOutput(0, plan.output(), args.dtype(0)));
  Bounds* const bounds = ResizedBounds(args);
  return WithFloat(args.dtype(0), [&](auto zero) {
    using T = decltype(zero);
    const T* const x = args.in(0).As<T>();
    T* const y = out.As<T>();
    plan.ForEachWindow(
        [&](int64_t plane, int64_t place, PoolPlan::Placed& window) {
          const T* const from = x + plane * plan.plane_size();
          double sum = 0;
          window.ForEachRow([&](int64_t element, int64_t count, int64_t step) {
            for (int64_t i = 0; i < count; ++i, element += step) {
              sum += PowerOf(ToDouble(from[element]), p);
            }
          });
          const double norm = p == 2   ? std::sqrt(sum)
                              : p == 1 ? sum
                                       : std::pow(sum, 1 / p);
          const auto at = static_cast<size_t>(plane * plan.places() + place);
          y[at] = FromDouble<T>(norm);
          if (bounds == nullptr) return;
          const double terms = static_cast<double>(window.taps()) + 8 + 8 * p;
          const SumBound bound =
              BoundSum(out.dtype(), {terms, norm, norm * norm / terms, norm});
          bounds->proved[at] = bound.proved;
          bounds->expected[at] = bound.expected;
        });
    return absl::OkStatus();
  });
}

struct LpPool : FloatPool<ops::LpPool> {
  static constexpr auto Fields() {
    return FieldList(Field<&LpPool::auto_pad>("auto_pad"),
                     Field<&LpPool::ceil_mode>("ceil_mode"),
                     Field<&LpPool::dilations>("dilations"),
                     RequiredField<&LpPool::kernel_shape>("kernel_shape"),
                     Field<&LpPool::p>("p"), Field<&LpPool::pads>("pads"),
                     Field<&LpPool::strides>("strides"));
  }
  absl::Status Check(const Inputs& in) const {
    if (p < 1) {
      return AttributeError("p", fmt::format("is {}, expected 1 or more", p));
    }
    return FloatPool::Check(in);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return EvaluateLpPool(WindowOf(*this), static_cast<double>(p), args);
  }
};

struct OldLpPool : FloatPool<ops::LpPool1> {
  static constexpr auto Fields() {
    return FieldList(Field<&OldLpPool::auto_pad>("auto_pad"),
                     RequiredField<&OldLpPool::kernel_shape>("kernel_shape"),
                     Field<&OldLpPool::p>("p"), Field<&OldLpPool::pads>("pads"),
                     Field<&OldLpPool::strides>("strides"));
  }
  absl::Status Check(const Inputs& in) const {
    if (!(p > 0)) {
      return AttributeError("p",
                            fmt::format("is {:g}, expected more than 0", p));
    }
    return FloatPool::Check(in);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return EvaluateLpPool(WindowOf(*this), p, args);
  }
};

constexpr OperatorDef kPools[] = {
    Row<ops::MaxPool, MaxPool>({.name = "MaxPool",
                                .since = 1,
                                .inputs = {"X"},
                                .outputs = {"Y", Optional("Indices")},
                                .bound = kExact}),
    Row<ops::AveragePool, AveragePool>({.name = "AveragePool",
                                        .since = 1,
                                        .inputs = {"X"},
                                        .outputs = {"Y"},
                                        .bound = kSum}),
    Row<ops::LpPool1, OldLpPool>({.name = "LpPool",
                                  .since = 1,
                                  .inputs = {"X"},
                                  .outputs = {"Y"},
                                  .bound = kSum}),
    Row<ops::LpPool, LpPool>({.name = "LpPool",
                              .since = 2,
                              .inputs = {"X"},
                              .outputs = {"Y"},
                              .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> PoolOperators() {
  static const std::vector<OperatorDef>* const all = [] {
    auto* const rows =
        new std::vector<OperatorDef>(std::begin(kPools), std::end(kPools));
    for (const auto& part : {GlobalPoolOperators(), RoiOperators()}) {
      rows->insert(rows->end(), part.begin(), part.end());
    }
    return rows;
  }();
  return *all;
}

}  // namespace nodewise
