#include "nodewise/ops/pool.h"

#include <cmath>
#include <cstring>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/pool.h"
#include "contrib/ops/util/sum_bounds.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

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
  void TakeLargest(const PoolPlan& plan, const NDArray& x, const NDArray& out,
                   int64_t* indices) const;
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

// The maximum of no elements.
template <typename T>
constexpr T kLowest = std::is_integral_v<T>
                          ? std::numeric_limits<T>::lowest()
                          : -std::numeric_limits<T>::infinity();
void StoreLowest(const NDArray& out, int64_t at) {
  if (IsFloat(out.dtype())) {
    StoreDoubles(&kLowest<double>, at, at + 1, out);
  } else if (!IsUnsigned(out.dtype())) {
    const auto least = LeastOf<int64_t>(out.dtype());
    StoreWide(&least, at, at + 1, out);
  } else {
    StoreWide(&kLowest<uint64_t>, at, at + 1, out);
  }
}

// best[i] becomes from[i * stride] where that is larger, or a NaN.
template <typename T>
void TakeLarger(const T* __restrict from, int64_t stride, int64_t count,
                T* __restrict best) {
  const auto take = [&](int64_t i, int64_t at) {
    const bool is_nan = from[at] != from[at] && best[i] == best[i];
    best[i] = from[at] > best[i] || is_nan ? from[at] : best[i];
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
    std::fill_n(line, plan.line_places(), kLowest<T>);
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
  if (indices == nullptr && args.dtype(0) == kFloat32) {
    MaxOfWindows(plan, args.in(0).As<float>(), out.As<float>());
  } else if (indices == nullptr && args.dtype(0) == kInt8) {
    MaxOfWindows(plan, args.in(0).As<int8_t>(), out.As<int8_t>());
  } else if (indices == nullptr && args.dtype(0) == kUint8) {
    MaxOfWindows(plan, args.in(0).As<uint8_t>(), out.As<uint8_t>());
  } else {
    TakeLargest(plan, args.in(0), out, indices);
  }
  AllowAnyForNan(args);
  return absl::OkStatus();
}

// For elements of any type: finds the places of the largest.
void MaxPool::TakeLargest(const PoolPlan& plan, const NDArray& x,
                          const NDArray& out, int64_t* indices) const {
  const std::vector<uint64_t> keys = SortKeys(x);
  const auto sides = x.shape().subspan(2);
  const size_t width = ElementBytes(x.dtype());
  plan.ForEachWindow([&](int64_t plane, int64_t place,
                         PoolPlan::Placed& window) {
    const int64_t first = plane * plan.plane_size();
    int64_t best = -1;
    window.ForEachRow([&](int64_t element, int64_t count, int64_t step) {
      for (int64_t i = 0; i < count; ++i, element += step) {
        const auto at = static_cast<size_t>(first + element);
        if (best < 0 || keys[at] > keys[static_cast<size_t>(first + best)]) {
          best = element;
        }
      }
    });
    const int64_t at = plane * plan.places() + place;
    if (best < 0) {
      StoreLowest(out, at);
    } else {
      std::memcpy(out.As<char>() + static_cast<size_t>(at) * width,
                  x.As<char>() + static_cast<size_t>(first + best) * width,
                  width);
    }
    if (indices == nullptr) return;
    indices[at] = best < 0 ? -1 : first + IndexOf(best, sides);
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

// Calls f(x, y) with the elements of a tensor of floats and the place of the
// results, both as floats or doubles.
template <typename F>
absl::Status MapPlanes(const NDArray& in, const NDArray& out, F f) {
  if (in.dtype() == kFloat32) {
    f(in.As<float>(), out.As<float>());
    return absl::OkStatus();
  }
  std::vector<double> copy;
  std::vector<double> results;
  f(WideElements(in, &copy), WideOutput(out, &results));
  StoreOutput(results, out);
  return absl::OkStatus();
}
template <typename T>
void SetRounded(double x, T* to) {
  *to = static_cast<T>(x);
}

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
  return MapPlanes(args.in(0), out, [&](const auto* x, auto* y) {
    plan.ForEachWindow(
        [&](int64_t plane, int64_t place, PoolPlan::Placed& window) {
          const WindowSums sums = SumsOf(x + plane * plan.plane_size(), window);
          const auto taps = static_cast<double>(window.taps());
          const double count = count_include_pad ? window.padded() : taps;
          const auto at = static_cast<size_t>(plane * plan.places() + place);
          SetRounded(sums.plain / count, &y[at]);
          if (bounds == nullptr) return;
          const SumBound bound =
              BoundSum(out.dtype(), {taps + 1, sums.absolute / count,
                                     sums.squares / (count * count),
                                     sums.plain / count, sums.absolute});
          bounds->proved[at] = bound.proved;
          bounds->expected[at] = bound.expected;
        });
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
  return MapPlanes(args.in(0), out, [&](const auto* x, auto* y) {
    plan.ForEachWindow([&](int64_t plane, int64_t place,
                           PoolPlan::Placed& window) {
      const auto* const from = x + plane * plan.plane_size();
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
      SetRounded(norm, &y[at]);
      if (bounds == nullptr) return;
      const double terms = static_cast<double>(window.taps()) + 8 + 8 * p;
      const SumBound bound =
          BoundSum(out.dtype(), {terms, norm, norm * norm / terms, norm, sum,
                                 LostInPowers(out.dtype(), terms, p, sum)});
      bounds->proved[at] = bound.proved;
      bounds->expected[at] = bound.expected;
    });
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
