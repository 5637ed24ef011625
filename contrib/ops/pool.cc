#include "nodewise/ops/pool.h"

#include <cmath>
#include <cstring>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/field_lists.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/sum_bounds.h"
#include "contrib/ops/util/window_rules.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

namespace {

// The pools walk over windows in two ways. What needs all elements of a window
// at once, a mean or the place of the largest, goes from window to window. The
// plain maximum goes along a whole line of windows at once, one tap of the
// kernel after the other, which compilers vectorise. In both the windows have
// been cut to the input beforehand, so that no loop asks whether an element
// lies in the padding.

WindowAttributes WindowOf(const ops::PoolAttributes& pool) {
  return {pool.auto_pad,  pool.kernel_shape, pool.strides,
          pool.dilations, pool.pads,         pool.ceil_mode};
}
WindowAttributes WindowOf(const ops::LpPool1& pool) {
  return {pool.auto_pad, pool.kernel_shape, pool.strides, {}, pool.pads, false};
}

// kernel_shape has no default: a pool without a window means nothing.
constexpr auto PoolFields() {
  using Class = ops::PoolAttributes;
  return FieldList(Field<&Class::auto_pad>("auto_pad"),
                   Field<&Class::ceil_mode>("ceil_mode"),
                   Field<&Class::dilations>("dilations"),
                   RequiredField<&Class::kernel_shape>("kernel_shape"),
                   Field<&Class::pads>("pads"),
                   Field<&Class::strides>("strides"));
}

absl::Status CheckPool(const WindowAttributes& window, const Inputs& in) {
  NODEWISE_RETURN_IF_ERROR(RequireRank(in, 0, 3, INT_MAX));
  return ResolveWindow(window, static_cast<int>(window.kernel_shape.size()))
      .status();
}

absl::StatusOr<OutputInfos> InferPool(const WindowAttributes& window,
                                      const Inputs& in) {
  TensorType type(in.type(0).dtype);
  if (!in.type(0).has_rank()) return OutputInfos{type};
  const Shape& x = *in.type(0).shape;
  NODEWISE_ASSIGN_OR_RETURN(const Shape sides, WindowedSides(window, x));
  type.shape = x;
  std::ranges::copy(sides, type.shape->begin() + 2);
  return Countable(OutputInfos{std::move(type)});
}

// Returns taps k of [0, kernel) with low <= first + k * dilation < high.
std::pair<int64_t, int64_t> TapsWithin(int64_t first, int64_t dilation,
                                       int64_t kernel, int64_t low,
                                       int64_t high) {
  const int64_t begin =
      first >= low ? 0 : (low - first + dilation - 1) / dilation;
  const int64_t end = first >= high ? 0 : (high - 1 - first) / dilation + 1;
  const int64_t from = std::min(begin, kernel);
  return {from, std::max(from, std::min(end, kernel))};
}

// Which elements of a plane each place of the output sees: along every side a
// range of taps, cut to the input.
struct PoolPlan {
  struct Range {
    int64_t first;   // Input.
    int64_t taps;    // Within the input.
    int64_t padded;  // Within the input and its padding.
  };
  // One tap of the kernel along the last side: places [place, place + count) of
  // a line of the output see it inside the input, the first of them as element
  // `first` of the input's line.
  struct LineTap {
    int64_t place;
    int64_t count;
    int64_t first;
  };

  std::vector<int64_t> output;   // All sides.
  std::vector<int64_t> sides;    // Spatial ones.
  std::vector<int64_t> strides;  // Strides of the input's plane.
  std::vector<int64_t> dilations;
  std::vector<std::vector<Range>> ranges;  // By side and place.
  std::vector<LineTap> line_taps;
  int64_t line_stride = 1;
  int64_t planes = 0;
  int64_t plane_size = 1;
  int64_t places = 1;
  double window_size = 1;  // The number of taps of a complete window.

  // Counts, places and strides are computed once for all planes, since they do
  // not depend on the data. A plan for an output without elements has no
  // planes, and no loop runs.
  static absl::StatusOr<PoolPlan> Make(const WindowAttributes& window,
                                       absl::Span<const int64_t> input);

  struct Placed {
    const PoolPlan& plan;
    std::vector<const Range*> ranges;
    std::vector<int64_t> tap;

    explicit Placed(const PoolPlan& of)
        : plan(of), ranges(of.ranges.size()), tap(of.ranges.size()) {}
    int64_t taps() const {
      int64_t taps = 1;
      for (const Range* range : ranges) taps *= range->taps;
      return taps;
    }
    // A double, since what lies in padding may be more than can be counted.
    double padded() const {
      double taps = 1;
      for (const Range* range : ranges) {
        taps *= static_cast<double>(range->padded);
      }
      return taps;
    }
    // Calls visit(element, count, step) for its rows: elements of the plane.
    template <typename Visit>
    void ForEachRow(Visit visit) {
      if (taps() == 0) return;
      const size_t last = ranges.size() - 1;
      std::fill(tap.begin(), tap.end(), 0);
      while (true) {
        int64_t element = ranges[last]->first;
        for (size_t s = 0; s < last; ++s) {
          element +=
              (ranges[s]->first + tap[s] * plan.dilations[s]) * plan.strides[s];
        }
        visit(element, ranges[last]->taps, plan.dilations[last]);
        size_t s = last;
        while (s > 0 && ++tap[s - 1] == ranges[s - 1]->taps) tap[--s] = 0;
        if (s == 0) return;
      }
    }
  };

  // Calls f(plane, place, window) for every window of every plane, in threads.
  // The estimate of work is capped, as a window may reach far into padding
  // where it costs nothing.
  template <typename F>
  void ForEachWindow(F f) const {
    if (planes == 0 || places == 0) return;
    const double work =
        static_cast<double>(places) * (10 + std::min(window_size, 1e6));
    ParallelFor(planes, work, [&](int64_t begin, int64_t end) {
      Placed placed(*this);
      std::vector<int64_t> at(ranges.size());
      for (int64_t plane = begin; plane < end; ++plane) {
        for (int64_t place = 0; place < places; ++place) {
          for (size_t s = 0; s < at.size(); ++s) {
            placed.ranges[s] = &ranges[s][static_cast<size_t>(at[s])];
          }
          f(plane, place, placed);
          NextIndex(sides, &at);
        }
      }
    });
  }

  // Calls f(plane, place, window) for every line of places along the last side,
  // in threads. `place` is the first; the rows of `window` are the input's
  // lines that the windows of all its places see, each as its first element.
  template <typename F>
  void ForEachLine(F f) const {
    if (planes == 0 || places == 0) return;
    static constexpr Range kWholeLine{0, 1, 1};
    const int64_t lines = places / sides.back();
    const double work =
        static_cast<double>(sides.back()) * std::min(window_size, 1e6);
    ParallelFor(planes * lines, work, [&](int64_t begin, int64_t end) {
      Placed placed(*this);
      placed.ranges.back() = &kWholeLine;
      for (int64_t i = begin; i < end; ++i) {
        int64_t rest = i % lines;
        for (size_t s = ranges.size() - 1; s-- > 0;) {
          placed.ranges[s] = &ranges[s][static_cast<size_t>(rest % sides[s])];
          rest /= sides[s];
        }
        f(i / lines, i % lines * sides.back(), placed);
      }
    });
  }

 private:
  void SetLineTaps(const PlacedWindow& placed);
};

absl::StatusOr<PoolPlan> PoolPlan::Make(const WindowAttributes& window,
                                        absl::Span<const int64_t> input) {
  NODEWISE_ASSIGN_OR_RETURN(const PlacedWindow placed,
                            PlaceWindow(window, input.subspan(2)));
  PoolPlan plan;
  plan.output = {input[0], input[1]};
  plan.output.insert(plan.output.end(), placed.output.begin(),
                     placed.output.end());
  plan.sides = placed.output;
  plan.strides = StridesOf(placed.input);
  plan.dilations = placed.window.dilations;
  NODEWISE_ASSIGN_OR_RETURN(const int64_t count, NumElements(plan.output));
  plan.planes = count == 0 ? 0 : input[0] * input[1];
  if (count == 0) return plan;
  plan.plane_size = Product(placed.input);
  plan.places = Product(placed.output);
  const size_t spatial = placed.input.size();
  for (size_t s = 0; s < spatial; ++s) {
    const int64_t kernel = placed.window.kernel[s];
    const int64_t dilation = placed.window.dilations[s];
    const int64_t before = placed.window.pads[s];
    const int64_t size = placed.input[s];
    const int64_t behind = size + placed.window.pads[s + spatial];
    plan.window_size *= static_cast<double>(kernel);
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
    plan.ranges.push_back(std::move(ranges));
  }
  plan.SetLineTaps(placed);
  return plan;
}

// Only taps that some place sees inside are kept: what a window has in padding
// may be longer than any loop. They are found from the last place to the first,
// whose windows see ever later taps.
void PoolPlan::SetLineTaps(const PlacedWindow& placed) {
  const Window& window = placed.window;
  const size_t last = placed.input.size() - 1;
  const int64_t size = placed.input[last];
  const int64_t kernel = window.kernel[last];
  const int64_t dilation = window.dilations[last];
  line_stride = window.strides[last];
  int64_t next = 0;
  for (int64_t place = sides[last]; place-- > 0;) {
    const auto [low, high] = TapsWithin(place * line_stride - window.pads[last],
                                        dilation, kernel, 0, size);
    for (int64_t k = std::max(low, next); k < high; ++k) {
      const int64_t first = k * dilation - window.pads[last];
      const auto [begin, end] =
          TapsWithin(first, line_stride, sides[last], 0, size);
      line_taps.push_back({begin, end - begin, first + begin * line_stride});
    }
    next = std::max(next, high);
  }
}

// The maximum of no elements.
template <typename T>
constexpr T kLowest = std::is_integral_v<T>
                          ? std::numeric_limits<T>::lowest()
                          : -std::numeric_limits<T>::infinity();
// A window that lies in the padding alone has no elements, and gets the number
// that its maximum starts from.
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

// best[i] becomes from[i * stride] where that is larger, or a NaN. Without
// branches, which the two loops need to be vectorised.
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

// Without indices: all windows along a line at once, tap by tap. Each line of
// outputs begins with the lowest number and is raised by each tap.
template <typename T>
void MaxOfWindows(const PoolPlan& plan, const T* x, T* y) {
  plan.ForEachLine([&](int64_t plane, int64_t place, PoolPlan::Placed& window) {
    T* const line = y + plane * plan.places + place;
    std::fill_n(line, plan.sides.back(), kLowest<T>);
    window.ForEachRow([&](int64_t element, int64_t, int64_t) {
      const T* const from = x + plane * plan.plane_size + element;
      for (const PoolPlan::LineTap& tap : plan.line_taps) {
        TakeLarger(from + tap.first, plan.line_stride, tap.count,
                   line + tap.place);
      }
    });
  });
}

// Without indices the common types have a fast way. All others, and those with
// indices, compare keys that sort as the elements do, so that one loop serves
// every type, NaN included.
struct MaxPool : ops::MaxPool {
  static constexpr auto Fields() {
    return SortedFields(
        PoolFields(),
        FieldList(Field<&MaxPool::storage_order>("storage_order")));
  }
  absl::Status Check(const Inputs& in) const {
    return All(RequireNumber(in, 0), CheckPool(WindowOf(*this), in));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in,
                                    size_t num_outputs) const {
    NODEWISE_ASSIGN_OR_RETURN(OutputInfos out, InferPool(WindowOf(*this), in));
    TensorType indices = out[0].type;
    indices.dtype = kInt64;
    if (num_outputs > 1) out.emplace_back(std::move(indices));
    return out;
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const PoolPlan plan,
                              PoolPlan::Make(WindowOf(*this), args.shape(0)));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray out,
                              args.MakeOutput(0, plan.output, args.dtype(0)));
    int64_t* indices = nullptr;
    if (args.wants(1)) {
      NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor,
                                args.MakeOutput(1, plan.output, kInt64));
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
  void TakeLargest(const PoolPlan& plan, const NDArray& x, const NDArray& out,
                   int64_t* indices) const {
    const std::vector<uint64_t> keys = SortKeys(x);
    const auto sides = x.shape().subspan(2);
    const size_t width = ElementBytes(x.dtype());
    plan.ForEachWindow([&](int64_t plane, int64_t place,
                           PoolPlan::Placed& window) {
      const int64_t first = plane * plan.plane_size;
      int64_t best = -1;
      window.ForEachRow([&](int64_t element, int64_t count, int64_t step) {
        for (int64_t i = 0; i < count; ++i, element += step) {
          const auto at = static_cast<size_t>(first + element);
          if (best < 0 || keys[at] > keys[static_cast<size_t>(first + best)]) {
            best = element;
          }
        }
      });
      const int64_t at = plane * plan.places + place;
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

// Pools with one output, of a float type. The mean and the norm are not defined
// for integers by ONNX.
template <typename Class>
struct FloatPool : Class {
  absl::Status Check(const Inputs& in) const {
    return All(RequireFloat(in, 0), CheckPool(WindowOf(*this), in));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return InferPool(WindowOf(*this), in);
  }
};

// Calls f(x, y) with the elements of a tensor of floats and the place of the
// results, both as floats or doubles. float32 is read and written in place;
// everything else goes through doubles, which hold every element exactly.
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

// Returns the sums of a window's elements, which are not counted.
template <typename T>
SumOfTerms SumsOf(const T* from, PoolPlan::Placed& window) {
  SumOfTerms sums;
  window.ForEachRow([&](int64_t element, int64_t count, int64_t step) {
    for (int64_t i = 0; i < count; ++i, element += step) {
      sums.Add(ToDouble(from[element]));
    }
  });
  return sums;
}

// f(x, window, with_bounds) gives the result of a window, where x is the first
// element of its plane; what bounds follow from is needed only if with_bounds
// is true.
template <typename F>
absl::Status MapWindows(const WindowAttributes& attributes, EvalArgs& args,
                        F f) {
  NODEWISE_ASSIGN_OR_RETURN(const PoolPlan plan,
                            PoolPlan::Make(attributes, args.shape(0)));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray out,
                            args.MakeOutput(0, plan.output, args.dtype(0)));
  Bounds* const bounds = SizedBounds(args, 0, CountOf(out));
  return MapPlanes(args.in(0), out, [&](const auto* x, auto* y) {
    plan.ForEachWindow(
        [&](int64_t plane, int64_t place, PoolPlan::Placed& window) {
          const auto at = static_cast<size_t>(plane * plan.places + place);
          const SumOfTerms sum =
              f(x + plane * plan.plane_size, window, bounds != nullptr);
          SetRounded(sum.result, &y[at]);
          if (bounds != nullptr) BoundSum(out.dtype(), sum).SetAt(at, bounds);
        });
  });
}

// A last window that reaches beyond the padding, by ceil_mode, counts only what
// lies within the padding.
struct AveragePool : FloatPool<ops::AveragePool> {
  static constexpr auto Fields() {
    return SortedFields(
        PoolFields(),
        FieldList(Field<&AveragePool::count_include_pad>("count_include_pad")));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return MapWindows(
        WindowOf(*this), args,
        [&](const auto* x, PoolPlan::Placed& window, bool with_bounds) {
          SumOfTerms sum = SumsOf(x, window);
          const auto taps = static_cast<double>(window.taps());
          const double count = count_include_pad ? window.padded() : taps;
          sum.result /= count;
          if (!with_bounds) return sum;
          return SumOfTerms{taps + 1, sum.absolute / count,
                            sum.squares / (count * count), sum.result,
                            sum.absolute};
        });
  }
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    double flops = CountOf(out[0]);
    for (const int64_t size : kernel_shape) flops *= static_cast<double>(size);
    return flops;
  }
};

// The usual powers by themselves: std::pow() takes far longer.
double PowerOf(double x, double p) {
  if (p == 1) return std::fabs(x);
  if (p == 2) return x * x;
  return std::pow(std::fabs(x), p);
}
double RootOf(double sum, double p) {
  if (p == 1) return sum;
  if (p == 2) return std::sqrt(sum);
  return std::pow(sum, 1 / p);
}
// The bounds of a norm follow from the relative error of a sum of so many terms
// of one sign, and a few units more for the powers.
SumOfTerms NormTerms(double count, double p, double sum, double lost) {
  const double terms = count + 8 + 8 * p;
  const double norm = RootOf(sum, p);
  return {terms, norm, norm * norm / terms, norm, sum, lost};
}

// In opset 1, p was a float.
absl::Status CheckPower(int64_t p) {
  if (p >= 1) return absl::OkStatus();
  return WrongAttribute("p", "is {}, expected 1 or more", p);
}
absl::Status CheckPower(float p) {
  if (p > 0) return absl::OkStatus();
  return WrongAttribute("p", "is {:g}, expected more than 0", p);
}

// (sum of |x|^p)^(1/p) of each window.
template <typename Class>
struct LpPoolRules : FloatPool<Class> {
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(CheckPower(this->p));
    return FloatPool<Class>::Check(in);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return MapWindows(
        WindowOf(*this), args,
        [p = static_cast<double>(this->p), dtype = args.dtype(0)](
            const auto* x, PoolPlan::Placed& window, bool with_bounds) {
          double sum = 0;
          window.ForEachRow([&](int64_t element, int64_t count, int64_t step) {
            for (int64_t i = 0; i < count; ++i, element += step) {
              sum += PowerOf(ToDouble(x[element]), p);
            }
          });
          if (!with_bounds) return SumOfTerms{.result = RootOf(sum, p)};
          const auto taps = static_cast<double>(window.taps());
          return NormTerms(
              taps, p, sum,
              UnderflowLossInPowers(dtype, taps + 8 + 8 * p, p, sum));
        });
  }
};

struct LpPool : LpPoolRules<ops::LpPool> {
  static constexpr auto Fields() {
    return SortedFields(PoolFields(), FieldList(Field<&LpPool::p>("p")));
  }
};

struct OldLpPool : LpPoolRules<ops::LpPool1> {
  static constexpr auto Fields() {
    return FieldList(Field<&OldLpPool::auto_pad>("auto_pad"),
                     RequiredField<&OldLpPool::kernel_shape>("kernel_shape"),
                     Field<&OldLpPool::p>("p"), Field<&OldLpPool::pads>("pads"),
                     Field<&OldLpPool::strides>("strides"));
  }
};

// Pools whose window is all of a plane. A rank of 2 is allowed: a plane is one
// element then.
template <typename Class>
struct GlobalPool : Class {
  absl::Status Check(const Inputs& in) const {
    return All(RequireFloat(in, 0), RequireRank(in, 0, 2, INT_MAX));
  }
  OutputInfos Infer(const Inputs& in) const {
    TensorType type = in.type(0);
    if (!type.has_rank()) return {type};
    for (size_t s = 2; s < type.shape->size(); ++s) (*type.shape)[s] = 1;
    return {std::move(type)};
  }
};

// Calls f(x, size) for every plane, in threads; it returns the result and what
// its bounds follow from. A plane is contiguous, so that no plan is needed. The
// bounds of an average count the division as one more term.
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
    const double work = static_cast<double>(size) + 10;
    ParallelFor(planes, work, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto at = static_cast<size_t>(i);
        const SumOfTerms sum = f(x + i * size, size);
        results[at] = sum.result;
        if (bounds != nullptr) BoundSum(out.dtype(), sum).SetAt(at, bounds);
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

struct GlobalAveragePool : GlobalPool<ops::GlobalAveragePool> {
  absl::Status Evaluate(EvalArgs& args) const {
    return ReducePlanes(args, [](const auto* x, int64_t size) {
      SumOfTerms sum{static_cast<double>(size) + 1};
      for (int64_t i = 0; i < size; ++i) sum.Add(ToDouble(x[i]));
      const auto count = static_cast<double>(size);
      sum.on_the_way = sum.absolute;
      sum.result /= count;
      sum.absolute /= count;
      sum.squares /= count * count;
      return sum;
    });
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo>) const {
    return CountOf(OutputInfo(in.type(0)));
  }
};

struct GlobalMaxPool : GlobalPool<ops::GlobalMaxPool> {
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
    // Nothing is rounded. An element of the input is the result, so that bounds
    // from sums do not apply.
    SetAllBounds(CountOf(args.outputs()[0]), 0, args.bounds(0));
    AllowAnyForNan(args);
    return absl::OkStatus();
  }
};

template <typename Class>
struct GlobalLpPool : GlobalPool<Class> {
  static constexpr auto Fields() { return FieldList(Field<&Class::p>("p")); }
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(CheckPower(this->p));
    return GlobalPool<Class>::Check(in);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return ReducePlanes(
        args, [p = static_cast<double>(this->p), dtype = args.dtype(0)](
                  const auto* x, int64_t size) {
          double sum = 0;
          for (int64_t i = 0; i < size; ++i) sum += PowerOf(ToDouble(x[i]), p);
          const auto count = static_cast<double>(size);
          return NormTerms(count, p, sum,
                           UnderflowLossInPowers(dtype, count, p, sum));
        });
  }
};

template <typename Class, typename Rules>
constexpr OperatorDef PoolRow(const char* name, int since,
                              const OperatorTraits& traits = {}) {
  return Row<Class, Rules>(name, since, {"X"}, {"Y"}, kSum, traits);
}

constexpr OperatorTraits kPool{.form = "pool"};
constexpr OperatorTraits kGlobalPool{.form = "global pool"};

constexpr OperatorDef kPools[] = {
    Row<ops::MaxPool, MaxPool>("MaxPool", 1, {"X"}, {"Y", Optional("Indices")},
                               kExact, kPool),
    PoolRow<ops::AveragePool, AveragePool>("AveragePool", 1, kPool),
    PoolRow<ops::LpPool1, OldLpPool>("LpPool", 1),
    PoolRow<ops::LpPool, LpPool>("LpPool", 2),
    PoolRow<ops::GlobalAveragePool, GlobalAveragePool>("GlobalAveragePool", 1,
                                                       kGlobalPool),
    Row<ops::GlobalMaxPool, GlobalMaxPool>("GlobalMaxPool", 1, {"X"}, {"Y"},
                                           kExact, kGlobalPool),
    PoolRow<ops::GlobalLpPool1, GlobalLpPool<ops::GlobalLpPool1>>(
        "GlobalLpPool", 1),
    PoolRow<ops::GlobalLpPool, GlobalLpPool<ops::GlobalLpPool>>("GlobalLpPool",
                                                                2),
};

}  // namespace

absl::Span<const OperatorDef> PoolOperators() { return kPools; }

}  // namespace nodewise
