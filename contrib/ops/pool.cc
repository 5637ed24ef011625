#include "nodewise/ops/pool.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/open_results.h"
#include "contrib/ops/util/sum_bounds.h"
#include "contrib/ops/util/wide_elements.h"
#include "contrib/ops/util/window_rules.h"
#include "fmt/format.h"
#include "nodewise/op/op_def.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

namespace {

// Windows that slide over a channel's plane, only for the pools' files.

WindowAttributes WindowOf(const ops::PoolAttributes& pool);
WindowAttributes WindowOf(const ops::LpPool1& pool);

absl::Status CheckPool(const WindowAttributes& window, const Inputs& in);
// Returns the type of the first output.
absl::StatusOr<TensorType> InferPool(const WindowAttributes& window,
                                     const Inputs& in);

// Which elements of a plane each place of the output sees: along every side a
// range of taps, cut to the input.
class PoolPlan {
 public:
  struct Range {
    int64_t first;   // Input.
    int64_t taps;    // Within the input.
    int64_t padded;  // Within the input and its padding.
  };

  static absl::StatusOr<PoolPlan> Make(const WindowAttributes& window,
                                       absl::Span<const int64_t> input);

  const std::vector<int64_t>& output() const { return output_; }
  int64_t planes() const { return planes_; }
  int64_t plane_size() const { return plane_size_; }
  int64_t places() const { return places_; }
  // The number of taps of a complete window.
  double window_size() const { return window_size_; }

  // Calls f(plane, place, window) for every window of every plane, in threads.
  template <typename F>
  void ForEachWindow(F f) const;

  // One tap of the kernel along the last side: places [place, place + count) of
  // a line of the output see it inside the input, the first of them as element
  // `first` of the input's line.
  struct LineTap {
    int64_t place;
    int64_t count;
    int64_t first;
  };
  const std::vector<LineTap>& line_taps() const { return line_taps_; }
  int64_t line_stride() const { return line_stride_; }
  int64_t line_places() const { return sides_.back(); }

  // Calls f(plane, place, window) for every line of places along the last side,
  // in threads. `place` is the first; the rows of `window` are the input's
  // lines that the windows of all its places see, each as its first element.
  template <typename F>
  void ForEachLine(F f) const;

  // Where one window is. visit(element, count, step) is called for its rows:
  // elements of the plane.
  class Placed {
   public:
    explicit Placed(const PoolPlan& plan);
    template <typename Visit>
    void ForEachRow(Visit visit);
    int64_t taps() const;
    double padded() const;

   private:
    friend class PoolPlan;
    const PoolPlan& plan_;
    std::vector<const Range*> ranges_;
    std::vector<int64_t> tap_;
  };

 private:
  void SetLineTaps(const PlacedWindow& placed);

  std::vector<int64_t> output_;   // All sides.
  std::vector<int64_t> sides_;    // Spatial ones.
  std::vector<int64_t> strides_;  // Strides of the input's plane.
  std::vector<int64_t> dilations_;
  std::vector<std::vector<Range>> ranges_;  // By side and place.
  std::vector<LineTap> line_taps_;
  int64_t line_stride_ = 1;
  int64_t planes_ = 0;
  int64_t plane_size_ = 1;
  int64_t places_ = 1;
  double window_size_ = 1;
};

template <typename Visit>
void PoolPlan::Placed::ForEachRow(Visit visit) {
  if (taps() == 0) return;
  const size_t last = ranges_.size() - 1;
  std::fill(tap_.begin(), tap_.end(), 0);
  while (true) {
    int64_t element = ranges_[last]->first;
    for (size_t s = 0; s < last; ++s) {
      element += (ranges_[s]->first + tap_[s] * plan_.dilations_[s]) *
                 plan_.strides_[s];
    }
    visit(element, ranges_[last]->taps, plan_.dilations_[last]);
    size_t s = last;
    while (s > 0 && ++tap_[s - 1] == ranges_[s - 1]->taps) tap_[--s] = 0;
    if (s == 0) return;
  }
}

template <typename F>
void PoolPlan::ForEachWindow(F f) const {
  if (planes_ == 0 || places_ == 0) return;
  const double work =
      static_cast<double>(places_) * (10 + std::min(window_size_, 1e6));
  ParallelFor(planes_, work, [&](int64_t begin, int64_t end) {
    Placed placed(*this);
    std::vector<int64_t> at(ranges_.size());
    for (int64_t plane = begin; plane < end; ++plane) {
      for (int64_t place = 0; place < places_; ++place) {
        for (size_t s = 0; s < at.size(); ++s) {
          placed.ranges_[s] = &ranges_[s][static_cast<size_t>(at[s])];
        }
        f(plane, place, placed);
        NextIndex(sides_, &at);
      }
    }
  });
}

template <typename F>
void PoolPlan::ForEachLine(F f) const {
  if (planes_ == 0 || places_ == 0) return;
  static constexpr Range kWholeLine{0, 1, 1};
  const int64_t lines = places_ / sides_.back();
  const double work =
      static_cast<double>(sides_.back()) * std::min(window_size_, 1e6);
  ParallelFor(planes_ * lines, work, [&](int64_t begin, int64_t end) {
    Placed placed(*this);
    placed.ranges_.back() = &kWholeLine;
    for (int64_t i = begin; i < end; ++i) {
      int64_t rest = i % lines;
      for (size_t s = ranges_.size() - 1; s-- > 0;) {
        placed.ranges_[s] = &ranges_[s][static_cast<size_t>(rest % sides_[s])];
        rest /= sides_[s];
      }
      f(i / lines, i % lines * sides_.back(), placed);
    }
  });
}

// The tables that pool.cc puts together.
absl::Span<const OperatorDef> GlobalPoolOperators();
absl::Span<const OperatorDef> RoiOperators();

// Taps k of [0, kernel) with low <= first + k * dilation < high.
std::pair<int64_t, int64_t> TapsWithin(int64_t first, int64_t dilation,
                                       int64_t kernel, int64_t low,
                                       int64_t high) {
  const int64_t begin =
      first >= low ? 0 : (low - first + dilation - 1) / dilation;
  const int64_t end = first >= high ? 0 : (high - 1 - first) / dilation + 1;
  const int64_t from = std::min(begin, kernel);
  return {from, std::max(from, std::min(end, kernel))};
}

WindowAttributes WindowOf(const ops::PoolAttributes& pool) {
  return {pool.auto_pad,  pool.kernel_shape, pool.strides,
          pool.dilations, pool.pads,         pool.ceil_mode};
}

WindowAttributes WindowOf(const ops::LpPool1& pool) {
  return {pool.auto_pad, pool.kernel_shape, pool.strides, {}, pool.pads, false};
}

absl::Status CheckPool(const WindowAttributes& window, const Inputs& in) {
  NODEWISE_RETURN_IF_ERROR(RequireRank(in, 0, 3, INT_MAX));
  return ResolveWindow(window, static_cast<int>(window.kernel_shape.size()))
      .status();
}

absl::StatusOr<TensorType> InferPool(const WindowAttributes& window,
                                     const Inputs& in) {
  TensorType type(in.type(0).dtype);
  if (!in.type(0).has_rank()) return type;
  const Shape& x = *in.type(0).shape;
  NODEWISE_ASSIGN_OR_RETURN(const Shape sides, WindowedSides(window, x));
  type.shape = x;
  std::copy(sides.begin(), sides.end(), type.shape->begin() + 2);
  if (const auto sizes = type.sizes()) {
    NODEWISE_RETURN_IF_ERROR(NumElements(*sizes).status());
  }
  return type;
}

absl::StatusOr<PoolPlan> PoolPlan::Make(const WindowAttributes& window,
                                        absl::Span<const int64_t> input) {
  NODEWISE_ASSIGN_OR_RETURN(const PlacedWindow placed,
                            PlaceWindow(window, input.subspan(2)));
  PoolPlan plan;
  plan.output_ = {input[0], input[1]};
  plan.output_.insert(plan.output_.end(), placed.output.begin(),
                      placed.output.end());
  plan.sides_ = placed.output;
  plan.strides_ = StridesOf(placed.input);
  plan.dilations_ = placed.window.dilations;
  NODEWISE_ASSIGN_OR_RETURN(const int64_t count, NumElements(plan.output_));
  plan.planes_ = count == 0 ? 0 : input[0] * input[1];
  if (count == 0) return plan;
  plan.plane_size_ = Product(placed.input);
  plan.places_ = Product(placed.output);
  const size_t spatial = placed.input.size();
  for (size_t s = 0; s < spatial; ++s) {
    const int64_t kernel = placed.window.kernel[s];
    const int64_t dilation = placed.window.dilations[s];
    const int64_t before = placed.window.pads[s];
    const int64_t size = placed.input[s];
    const int64_t behind = size + placed.window.pads[s + spatial];
    plan.window_size_ *= static_cast<double>(kernel);
    std::vector<Range> ranges;
    ranges.reserve(static_cast<size_t>(placed.output[s]));
    for (int64_t at = 0; at < placed.output[s]; ++at) {
      const int64_t first = at * placed.window.strides[s] - before;
      const auto inside = TapsWithin(first, dilation, kernel, 0, size);
      const auto padded = TapsWithin(first, dilation, kernel, -before, behind);
      ranges.push_back({first + inside.first * dilation,
                        inside.second - inside.first,
                        padded.second - padded.first});
    }
    plan.ranges_.push_back(std::move(ranges));
  }
  plan.SetLineTaps(placed);
  return plan;
}

// Only taps that some place sees inside: what a window has in padding may be
// longer than any loop. They are found from the last place to the first, whose
// windows see ever later taps.
void PoolPlan::SetLineTaps(const PlacedWindow& placed) {
  const Window& window = placed.window;
  const size_t last = placed.input.size() - 1;
  const int64_t size = placed.input[last];
  const int64_t kernel = window.kernel[last];
  const int64_t dilation = window.dilations[last];
  line_stride_ = window.strides[last];
  int64_t next = 0;
  for (int64_t place = sides_[last]; place-- > 0;) {
    const auto [low, high] = TapsWithin(
        place * line_stride_ - window.pads[last], dilation, kernel, 0, size);
    for (int64_t k = std::max(low, next); k < high; ++k) {
      const int64_t first = k * dilation - window.pads[last];
      const auto [begin, end] =
          TapsWithin(first, line_stride_, sides_[last], 0, size);
      line_taps_.push_back({begin, end - begin, first + begin * line_stride_});
    }
    next = std::max(next, high);
  }
}

PoolPlan::Placed::Placed(const PoolPlan& plan)
    : plan_(plan), ranges_(plan.ranges_.size()), tap_(plan.ranges_.size()) {}

int64_t PoolPlan::Placed::taps() const {
  int64_t taps = 1;
  for (const Range* range : ranges_) taps *= range->taps;
  return taps;
}

double PoolPlan::Placed::padded() const {
  double taps = 1;
  for (const Range* range : ranges_) taps *= static_cast<double>(range->padded);
  return taps;
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
  absl::Status Evaluate(EvalArgs& args) const {
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

 private:
  // Returns the index of an element within its plane.
  int64_t IndexOf(int64_t element, absl::Span<const int64_t> sides) const {
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
  // For elements of any type: finds the places of the largest.
  void TakeLargest(const PoolPlan& plan, const NDArray& x, const NDArray& out,
                   int64_t* indices) const {
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
};

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
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const PoolPlan plan,
                              PoolPlan::Make(WindowOf(*this), args.shape(0)));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray out,
                              args.MakeOutput(0, plan.output(), args.dtype(0)));
    Bounds* const bounds = ResizedBounds(args);
    return MapPlanes(args.in(0), out, [&](const auto* x, auto* y) {
      plan.ForEachWindow([&](int64_t plane, int64_t place,
                             PoolPlan::Placed& window) {
        const WindowSums sums = SumsOf(x + plane * plan.plane_size(), window);
        const auto taps = static_cast<double>(window.taps());
        const double count = count_include_pad ? window.padded() : taps;
        const auto at = static_cast<size_t>(plane * plan.places() + place);
        SetRounded(sums.plain / count, &y[at]);
        if (bounds == nullptr) return;
        BoundSum(out.dtype(), {taps + 1, sums.absolute / count,
                               sums.squares / (count * count),
                               sums.plain / count, sums.absolute})
            .SetAt(at, bounds);
      });
    });
  }
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    const auto sizes = out[0].type.sizes();
    if (!sizes) return 0;
    double flops = 1;
    for (const int64_t size : *sizes) flops *= static_cast<double>(size);
    for (const int64_t size : kernel_shape) flops *= static_cast<double>(size);
    return flops;
  }
};

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
    plan.ForEachWindow(
        [&](int64_t plane, int64_t place, PoolPlan::Placed& window) {
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
          BoundSum(out.dtype(), {terms, norm, norm * norm / terms, norm, sum,
                                 LostInPowers(out.dtype(), terms, p, sum)})
              .SetAt(at, bounds);
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

absl::Status CheckPlanes(const Inputs& in) {
  return All(RequireFloat(in, 0), RequireRank(in, 0, 2, INT_MAX));
}

OutputInfos InferPlanes(const Inputs& in) {
  TensorType type = in.type(0);
  if (!type.has_rank()) return {type};
  for (size_t s = 2; s < type.shape->size(); ++s) (*type.shape)[s] = 1;
  return {std::move(type)};
}

// Calls f(x, size) for every plane, in threads; it returns the result and what
// its bounds follow from.
template <typename F>
absl::Status ReducePlanes(EvalArgs& args, F f) {
  std::vector<int64_t> shape(args.shape(0).size(), 1);
  std::copy_n(args.shape(0).begin(), 2, shape.begin());
  NODEWISE_ASSIGN_OR_RETURN(const NDArray out,
                            args.MakeOutput(0, shape, args.dtype(0)));
  const int64_t planes = CountOf(out);
  const int64_t size = Product(args.shape(0).subspan(2));
  Bounds* const bounds = SizedBounds(args, 0, planes);
  std::vector<double> results(static_cast<size_t>(planes));
  const auto run = [&](const auto* x) {
    ParallelFor(
        planes, static_cast<double>(size) + 10,
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const SumOfTerms sum = f(x + i * size, size);
            results[static_cast<size_t>(i)] = sum.result;
            if (bounds == nullptr) continue;
            BoundSum(out.dtype(), sum).SetAt(static_cast<size_t>(i), bounds);
          }
        });
  };
  std::vector<double> copy;
  if (args.dtype(0) == kFloat32) {
    run(args.in(0).As<float>());
  } else {
    run(WideElements(args.in(0), &copy));
  }
  StoreDoubles(results.data(), 0, planes, out);
  return absl::OkStatus();
}

struct GlobalAveragePool : ops::GlobalAveragePool {
  absl::Status Check(const Inputs& in) const { return CheckPlanes(in); }
  OutputInfos Infer(const Inputs& in) const { return InferPlanes(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    return ReducePlanes(args, [](const auto* x, int64_t size) {
      SumOfTerms sum{static_cast<double>(size) + 1};
      for (int64_t i = 0; i < size; ++i) {
        const double value = ToDouble(x[i]);
        sum.Add(value);
      }
      const auto count = static_cast<double>(size);
      sum.on_the_way = sum.absolute;
      sum.result /= count;
      sum.absolute /= count;
      sum.squares /= count * count;
      return sum;
    });
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo>) const {
    const auto sizes = in.type(0).sizes();
    return sizes ? static_cast<double>(Product(*sizes)) : 0;
  }
};

struct GlobalMaxPool : ops::GlobalMaxPool {
  absl::Status Check(const Inputs& in) const { return CheckPlanes(in); }
  OutputInfos Infer(const Inputs& in) const { return InferPlanes(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_RETURN_IF_ERROR(
        ReducePlanes(args, [](const auto* x, int64_t size) {
          SumOfTerms best{.result = -std::numeric_limits<double>::infinity()};
          for (int64_t i = 0; i < size; ++i) {
            const double value = ToDouble(x[i]);
            if (value > best.result || std::isnan(value)) best.result = value;
          }
          return best;
        }));
    // Nothing is rounded.
    if (Bounds* const bounds = args.bounds(0)) {
      std::fill(bounds->proved.begin(), bounds->proved.end(), 0);
      bounds->expected = bounds->proved;
    }
    AllowAnyForNan(args);
    return absl::OkStatus();
  }
};

absl::Status EvaluateGlobalLp(double p, EvalArgs& args) {
  return ReducePlanes(args, [p, dtype = args.dtype(0)](const auto* x,
                                                       int64_t size) {
    double sum = 0;
    for (int64_t i = 0; i < size; ++i) {
      const double value = std::fabs(ToDouble(x[i]));
      sum += p == 2 ? value * value : p == 1 ? value : std::pow(value, p);
    }
    const double norm = p == 2   ? std::sqrt(sum)
                        : p == 1 ? sum
                                 : std::pow(sum, 1 / p);
    // The relative error of a sum of terms of one sign, and of the powers.
    const double terms = static_cast<double>(size) + 8 + 8 * p;
    const double lost = LostInPowers(dtype, static_cast<double>(size), p, sum);
    return SumOfTerms{terms, norm, norm * norm / terms, norm, sum, lost};
  });
}

struct GlobalLpPool : ops::GlobalLpPool {
  static constexpr auto Fields() {
    return FieldList(Field<&GlobalLpPool::p>("p"));
  }
  absl::Status Check(const Inputs& in) const {
    if (p >= 1) return CheckPlanes(in);
    return AttributeError("p", fmt::format("is {}, expected 1 or more", p));
  }
  OutputInfos Infer(const Inputs& in) const { return InferPlanes(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    return EvaluateGlobalLp(static_cast<double>(p), args);
  }
};

struct GlobalLpPool1 : ops::GlobalLpPool1 {
  static constexpr auto Fields() {
    return FieldList(Field<&GlobalLpPool1::p>("p"));
  }
  absl::Status Check(const Inputs& in) const {
    if (p > 0) return CheckPlanes(in);
    return AttributeError("p", fmt::format("is {:g}, expected more than 0", p));
  }
  OutputInfos Infer(const Inputs& in) const { return InferPlanes(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    return EvaluateGlobalLp(p, args);
  }
};

constexpr OperatorDef kGlobalPools[] = {
    Row<ops::GlobalAveragePool, GlobalAveragePool>({.name = "GlobalAveragePool",
                                                    .since = 1,
                                                    .inputs = {"X"},
                                                    .outputs = {"Y"},
                                                    .bound = kSum}),
    Row<ops::GlobalMaxPool, GlobalMaxPool>({.name = "GlobalMaxPool",
                                            .since = 1,
                                            .inputs = {"X"},
                                            .outputs = {"Y"},
                                            .bound = kExact}),
    Row<ops::GlobalLpPool1, GlobalLpPool1>({.name = "GlobalLpPool",
                                            .since = 1,
                                            .inputs = {"X"},
                                            .outputs = {"Y"},
                                            .bound = kSum}),
    Row<ops::GlobalLpPool, GlobalLpPool>({.name = "GlobalLpPool",
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

absl::Span<const OperatorDef> GlobalPoolOperators() { return kGlobalPools; }

}  // namespace nodewise
