#include "nodewise/ops/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/sum_bounds.h"
#include "contrib/ops/util/tensor_moves.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Integers wrap around: they are calculated without signs, since an overflow
// with one is undefined in C++. What the standard leaves undefined (division by
// 0, and of the smallest integer by -1) gives what NumPy gives.
template <typename Operation>
struct Wrapping {
  template <typename T>
  static T Eval(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return Operation()(a, b);
    } else {
      return Wrapped<T>(Operation()(Bits(a), Bits(b)));
    }
  }
};

// Element() of these calculates with sides of shapes, of which some are known
// by a name only, or not at all. It must not say more than holds for each value
// of the names.
struct Adding : Wrapping<std::plus<>> {
  static Dim Element(const Dim& a, const Dim& b) { return Plus(a, b); }
};

struct Subtracting : Wrapping<std::minus<>> {
  static Dim Element(const Dim& a, const Dim& b) {
    int64_t difference = 0;
    if (b == Dim(0)) return a;
    if (!a.name().empty() && a == b) return 0;
    if (!a.is_known() || !b.is_known() ||
        __builtin_sub_overflow(a.size(), b.size(), &difference)) {
      return Dim();
    }
    return difference;
  }
};

struct Multiplying : Wrapping<std::multiplies<>> {
  static Dim Element(const Dim& a, const Dim& b) { return Times(a, b); }
};

struct Dividing {
  static Dim Element(const Dim& a, const Dim& b) {
    if (b == Dim(1)) return a;
    if (!a.is_known() || !b.is_known() || b == Dim(0) || b == Dim(-1)) {
      return Dim();
    }
    return a.size() / b.size();
  }
  template <typename T>
  static T Eval(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return a / b;
    } else {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) return Wrapped<T>(0 - Bits(a));
      }
      return static_cast<T>(a / b);
    }
  }
};

template <typename Calculation>
struct Arithmetic {
  static absl::Status Check(const Inputs& in) {
    return All(RequireNumber(in, 0), RequireNumber(in, 1), RequireSameType(in));
  }
  static DLDataType ResultType(const Inputs& in) { return SharedType(in); }
  static constexpr auto kElement = &Calculation::Element;
  static absl::Status Run(EvalArgs& args, const Broadcast& plan) {
    return MapSame(args, plan,
                   [](auto a, auto b) { return Calculation::Eval(a, b); });
  }
};

struct Mod : ops::Mod {
  static constexpr auto Fields() {
    return FieldList(Field<&Mod::fmod>("fmod"));
  }
  absl::Status Check(const Inputs& in) const {
    return Arithmetic<Dividing>::Check(in);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return Countable(BroadcastInputs(in, SharedType(in)));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const Broadcast plan, BroadcastPair(args));
    const bool like_c = fmod;
    return MapWide(args, plan, args.dtype(0), [like_c](auto a, auto b) {
      return like_c ? LikeC(a, b) : LikePython(a, b);
    });
  }

 private:
  template <typename T>
  static T LikeC(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::fmod(a, b);
    } else {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) return 0;  // The smallest number would overflow.
      }
      return static_cast<T>(a % b);
    }
  }
  // The remainder in C has the sign of the dividend; where the divisor has the
  // other sign, one divisor is added. A remainder of 0 gets the sign of the
  // divisor.
  template <typename T>
  static T LikePython(T a, T b) {
    const T rest = LikeC(a, b);
    if constexpr (std::is_unsigned_v<T>) {
      return rest;
    } else if constexpr (std::is_floating_point_v<T>) {
      if (rest == 0) return std::copysign(rest, b);
      return (rest < 0) != (b < 0) ? rest + b : rest;
    } else {
      return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b)
                                                : rest;
    }
  }
};

// Below opset 28 Mod took floats only with fmod.
struct ModOfIntegers : Mod {
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(Mod::Check(in));
    if (fmod || !IsFloat(SharedType(in))) return absl::OkStatus();
    return AttributeError("fmod", "is 0, expected 1 for a float");
  }
};

// Size and sign lie apart, since an exponent without a sign may need all 64
// bits.
struct Exponent {
  uint64_t size;
  bool is_negative;
};

// By squaring, and without signs, so that it wraps around.
int64_t IntegerPower(int64_t base, Exponent exponent) {
  if (exponent.is_negative) {
    // 1 / x^n, truncated; undefined for 0.
    if (base == -1) return exponent.size % 2 == 0 ? 1 : -1;
    return base == 1 ? 1 : 0;
  }
  uint64_t power = 1;
  uint64_t square = Bits(base);
  for (uint64_t rest = exponent.size; rest != 0; rest >>= 1) {
    if (rest & 1) power *= square;
    square *= square;
  }
  return Wrapped<int64_t>(power);
}

// The exponent may be of another type than the base. If one of both is a float
// the power is calculated in double and made the type of the base, truncated
// for an integer.
struct Raising : NoElement {
  static absl::Status Check(const Inputs& in) {
    return All(RequireNumber(in, 0), RequireNumber(in, 1));
  }
  static DLDataType ResultType(const Inputs& in) { return in.type(0).dtype; }
  static absl::Status Run(EvalArgs& args, const Broadcast& plan) {
    const bool is_float = IsFloat(args.dtype(0)) || IsFloat(args.dtype(1));
    return is_float ? RunDouble(args, plan) : RunInteger(args, plan);
  }

 private:
  static absl::Status RunDouble(EvalArgs& args, const Broadcast& plan) {
    return MapPairBlocks<double>(
        args, plan, args.dtype(0), 20,
        [](double* x, const double* y, int64_t n) {
          // Just as exact as std::pow, and much faster: a block of nothing but
          // squares has a loop of its own, which compilers vectorise.
          const auto is_two = [](double exponent) { return exponent == 2; };
          if (std::all_of(y, y + n, is_two)) {
            for (int64_t i = 0; i < n; ++i) x[i] *= x[i];
            return;
          }
          for (int64_t i = 0; i < n; ++i) {
            x[i] = y[i] == 2 ? x[i] * x[i] : std::pow(x[i], y[i]);
          }
        });
  }
  // Both are read as integers with a sign; the bits of an exponent without one
  // are taken as they are.
  static absl::Status RunInteger(EvalArgs& args, const Broadcast& plan) {
    const bool is_signed = !IsUnsigned(args.dtype(1));
    return MapPairBlocks<int64_t>(
        args, plan, args.dtype(0), 20,
        [is_signed](int64_t* x, const int64_t* y, int64_t n) {
          for (int64_t i = 0; i < n; ++i) {
            const bool is_negative = is_signed && y[i] < 0;
            const uint64_t size = is_negative ? 0 - Bits(y[i]) : Bits(y[i]);
            x[i] = IntegerPower(x[i], {size, is_negative});
          }
        });
  }
};

// The result has the shape of x: that of the slope is repeated over it, never
// the other way round.
absl::Status MultiplySlope(EvalArgs& args, const Broadcast& plan) {
  const auto sloped = [](auto x, auto slope) {
    return x < 0 ? Multiplying::Eval(slope, x) : x;
  };
  if (args.dtype(0) != kFloat32) {
    return MapWide(args, plan, args.dtype(0), sloped);
  }
  return MapPairs<float, float>(args, plan, kFloat32, sloped);
}

struct PRelu : ops::PRelu, OneFlopEach, KeepsType {
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(Arithmetic<Multiplying>::Check(in));
    if (!in.type(0).has_rank() || !in.type(1).has_rank()) {
      return absl::OkStatus();
    }
    NODEWISE_ASSIGN_OR_RETURN(const OutputInfos out, BroadcastInputs(in));
    if (AreCompatible(out[0].type, in.type(0))) return absl::OkStatus();
    return InputError(1,
                      "is larger than input 0, expected a slope that can be "
                      "repeated over it");
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const Broadcast plan, BroadcastPair(args));
    return MultiplySlope(args, plan);
  }
};

// Below opset 7 the slope is one number, or one for each channel.
struct PReluByChannel : ops::PRelu, KeepsType {
  absl::Status Check(const Inputs& in) const {
    return All(Arithmetic<Multiplying>::Check(in),
               CheckAligned(in, RuleFor(in.type(0), in.type(1))));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const ops::AxisBroadcast rule =
        RuleFor(TensorType::From(*args.in(0)), TensorType::From(*args.in(1)));
    NODEWISE_ASSIGN_OR_RETURN(const Broadcast plan, AlignedPair(args, rule));
    return MultiplySlope(args, plan);
  }

 private:
  // A list of slopes goes with side 1, the channels; without channels, or as
  // one number, with the last sides.
  static ops::AxisBroadcast RuleFor(const TensorType& x,
                                    const TensorType& slope) {
    const bool is_list = slope.has_rank() && slope.rank() == 1;
    const bool has_channels = x.has_rank() && x.rank() >= 2;
    if (is_list && has_channels) return {true, 1};
    return {true, std::nullopt};
  }
};

template <typename T>
struct Limits {
  T low;
  T high;

  // NaN stays NaN.
  T Clipped(T x) const {
    x = x < low ? low : x;
    return x > high ? high : x;
  }
};

// The limits that are not given are the ends of the element type, so that an
// infinity becomes the largest number even then.
template <typename T>
Limits<T> LimitsOf(const EvalArgs& args) {
  Limits<T> limits{std::numeric_limits<T>::lowest(),
                   std::numeric_limits<T>::max()};
  if constexpr (std::is_floating_point_v<T>) {
    limits.high = LargestOf(args.dtype(0));
    limits.low = -limits.high;
  }
  if (args.has(1)) LoadWide(args.in(1), 0, 1, &limits.low);
  if (args.has(2)) LoadWide(args.in(2), 0, 1, &limits.high);
  return limits;
}

// The limits may be left out, each by itself.
struct Clip : ops::Clip, KeepsType {
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(RequireNumber(in, 0));
    for (const size_t i : {1, 2}) {
      // Limits that were attributes below opset 11 are float32.
      const bool may_differ =
          IsFloat(in.type(0).dtype) && in.type(i).dtype == kFloat32;
      if (!may_differ && in.type(0).has_dtype()) {
        NODEWISE_RETURN_IF_ERROR(RequireType(in, i, in.type(0).dtype));
      }
      const auto sizes = in.type(i).sizes();
      if (!sizes.has_value()) continue;
      NODEWISE_ASSIGN_OR_RETURN(const int64_t count, NumElements(*sizes));
      if (count != 1) return InputError(i, "is a tensor, expected one number");
    }
    return absl::OkStatus();
  }
  absl::Status Evaluate(EvalArgs& args) const {
    // The usual type is clipped as it is; all others go through a wide type,
    // block by block.
    if (args.dtype(0) == kFloat32) {
      NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                                args.MakeOutput(0, args.shape(0), kFloat32));
      const auto [low, high] = LimitsOf<double>(args);
      const Limits<float> limits{static_cast<float>(low),
                                 static_cast<float>(high)};
      const float* const from = args.in(0).As<float>();
      float* const to = y.As<float>();
      ParallelFor(CountOf(y), 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) to[i] = limits.Clipped(from[i]);
      });
      return absl::OkStatus();
    }
    return WithWide(args.dtype(0), [&](auto zero) {
      using W = decltype(zero);
      const Limits<W> limits = LimitsOf<W>(args);
      return MapBlocks<W>(args, 1, [&limits](W* x, int64_t n) {
        for (int64_t i = 0; i < n; ++i) x[i] = limits.Clipped(x[i]);
      });
    });
  }
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    return 2 * CountOf(out[0]);
  }
};

// What follows is for operators with any number of inputs. Their rows would
// allow none at all, which is refused here.
absl::Status CheckAll(const Inputs& in,
                      absl::Status (*require)(const Inputs&, size_t)) {
  if (in.size() == 0) {
    return InvalidArgument("has no input, expected at least one");
  }
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in.has(i)) return InputError(i, "is left out, expected a tensor");
    NODEWISE_RETURN_IF_ERROR(require(in, i));
  }
  return RequireSameType(in);
}

absl::StatusOr<Broadcast> BroadcastAll(const EvalArgs& args) {
  std::vector<absl::Span<const int64_t>> shapes;
  for (size_t i = 0; i < args.num_inputs(); ++i) {
    shapes.push_back(args.shape(i));
  }
  return MakeBroadcast(shapes);
}

template <typename Class, bool kLargest>
struct Extreme : Class {
  template <typename T>
  static T Eval(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a)) return a;
      if (std::isnan(b)) return b;
    }
    return (kLargest ? a < b : b < a) ? b : a;
  }
  static Dim Element(const Dim& a, const Dim& b) {
    if (a == b && (a.is_known() || !a.name().empty())) return a;
    if (!a.is_known() || !b.is_known()) return Dim();
    return Eval(a.size(), b.size());
  }

  absl::Status Check(const Inputs& in) const {
    return CheckAll(in, &RequireNumber);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    NODEWISE_ASSIGN_OR_RETURN(OutputInfos out, Countable(BroadcastInputs(in)));
    // Models clamp lengths and axes by Min and Max of two inputs, so known
    // elements are passed on.
    if (in.size() == 2) out[0].elements = PairElements(in, &Element);
    return out;
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const Broadcast plan, BroadcastAll(args));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                              args.MakeOutput(0, plan.shape, args.dtype(0)));
    // A single input keeps its bits, those of a NaN too.
    if (args.num_inputs() == 1) {
      CopyAll(args.in(0), y);
      return absl::OkStatus();
    }
    if (args.dtype(0) == kFloat32) {
      RunFloat32(args, plan, y.As<float>());
      return absl::OkStatus();
    }
    return WithWide(args.dtype(0),
                    [&](auto zero) { RunWide<decltype(zero)>(args, plan, y); });
  }

 private:
  // The usual type is compared in the memory of the result.
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
              to[out + i] = Eval(to[out + i], next[i * steps[k]]);
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
              for (int64_t i = 0; i < m; ++i) best[i] = Eval(best[i], next[i]);
            }
            StoreWide(best, out + begin, out + begin + m, y);
          }
        });
  }
};
using Min = Extreme<ops::Min, false>;
using Max = Extreme<ops::Max, true>;

// All inputs are added up in double, in their order, and rounded once.
template <typename Class, bool kMean>
struct Total : Class {
  absl::Status Check(const Inputs& in) const {
    return CheckAll(in, &RequireFloat);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return Countable(BroadcastInputs(in));
  }
  // The elements of a run are added up block by block; their bounds follow, one
  // by one, where they are wanted.
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const Broadcast plan, BroadcastAll(args));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                              args.MakeOutput(0, plan.shape, args.dtype(0)));
    Bounds* const bounds = SizedBounds(args, 0, plan.count);
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
            BoundAt(args, at, steps, i)
                .SetAt(static_cast<size_t>(out + i), bounds);
          }
        });
    return absl::OkStatus();
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo> out) const {
    return CountOf(out[0]) * static_cast<double>(in.size());
  }

 private:
  // Adds up a block of elements of all inputs, so that the totals stay in the
  // first cache.
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
      sum.Add(x);
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

constexpr OperatorTraits kArithmetic{.is_elementwise = true,
                                     .form = "arithmetic"};

// One function for the rows of both opsets: the class says which sides are
// repeated.
template <typename Class, typename Calculation>
constexpr OperatorDef ArithmeticRow(const char* name, int since,
                                    ErrorBound bound) {
  return Row<Class, Binary<Class, Arithmetic<Calculation>>>(
      {.name = name,
       .since = since,
       .inputs = {"A", "B"},
       .outputs = {"C"},
       .bound = bound,
       .traits = kArithmetic});
}
// Only the name of the output tells these rows apart.
template <typename Class, typename Rules>
constexpr OperatorDef VariadicRow(const char* name, int since,
                                  const char* output, ErrorBound bound) {
  return Row<Class, Rules>(
      {.name = name,
       .since = since,
       .inputs = {Variadic("data_0")},
       .outputs = {output},
       .bound = bound,
       .traits = {.is_elementwise = true, .form = "fold"}});
}

constexpr OperatorDef kArithmeticOperators[] = {
    ArithmeticRow<ops::Add1, Adding>("Add", 1, kExact),
    ArithmeticRow<ops::Add, Adding>("Add", 7, kExact),
    ArithmeticRow<ops::Sub1, Subtracting>("Sub", 1, kExact),
    ArithmeticRow<ops::Sub, Subtracting>("Sub", 7, kExact),
    ArithmeticRow<ops::Mul1, Multiplying>("Mul", 1, kExact),
    ArithmeticRow<ops::Mul, Multiplying>("Mul", 7, kExact),
    ArithmeticRow<ops::Div1, Dividing>("Div", 1, Ulps(1)),
    ArithmeticRow<ops::Div, Dividing>("Div", 7, Ulps(1)),
    Row<ops::Mod, ModOfIntegers>("Mod", 10, {"A", "B"}, {"C"}),
    Row<ops::Mod, Mod>("Mod", 28, {"A", "B"}, {"C"}),
    Row<ops::Pow1, Binary<ops::Pow1, Raising>>("Pow", 1, {"X", "Y"}, {"Z"},
                                               Ulps(16), kArithmetic),
    Row<ops::Pow, Binary<ops::Pow, Raising>>("Pow", 7, {"X", "Y"}, {"Z"},
                                             Ulps(16), kArithmetic),
    Row<ops::PRelu, PReluByChannel>("PRelu", 1, {"X", "slope"}, {"Y"}, kExact,
                                    kArithmetic),
    Row<ops::PRelu, PRelu>("PRelu", 7, {"X", "slope"}, {"Y"}, kExact,
                           kArithmetic),
    Row<ops::Clip, Clip>({.name = "Clip",
                          .inputs = {"input", Optional("min"), Optional("max")},
                          .outputs = {"output"},
                          .moved = {{"min", 1, 11}, {"max", 2, 11}},
                          .traits = kElementwise}),
    VariadicRow<ops::Max, Old<Max>>("Max", 1, "max", kExact),
    VariadicRow<ops::Max, Max>("Max", 8, "max", kExact),
    VariadicRow<ops::Min, Old<Min>>("Min", 1, "min", kExact),
    VariadicRow<ops::Min, Min>("Min", 8, "min", kExact),
    VariadicRow<ops::Sum, Old<Sum>>("Sum", 1, "sum", kSum),
    VariadicRow<ops::Sum, Sum>("Sum", 8, "sum", kSum),
    VariadicRow<ops::Mean, Old<Mean>>("Mean", 1, "mean", kSum),
    VariadicRow<ops::Mean, Mean>("Mean", 8, "mean", kSum),
};

}  // namespace

absl::Span<const OperatorDef> ArithmeticOperators() {
  return kArithmeticOperators;
}

}  // namespace nodewise
