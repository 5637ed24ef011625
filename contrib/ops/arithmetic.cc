#include "nodewise/ops/arithmetic.h"

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"

namespace nodewise {
namespace {

// Integers wrap around; what the standard leaves undefined (division by 0, and
// of the smallest integer by -1) gives what NumPy gives.
struct Adding {
  static Dim Element(const Dim& a, const Dim& b) { return Plus(a, b); }
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return a + b;
    } else {
      return Wrapped<T>(Bits(a) + Bits(b));
    }
  }
};

struct Subtracting {
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
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return a - b;
    } else {
      return Wrapped<T>(Bits(a) - Bits(b));
    }
  }
};

struct Multiplying {
  static Dim Element(const Dim& a, const Dim& b) { return Times(a, b); }
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return a * b;
    } else {
      return Wrapped<T>(Bits(a) * Bits(b));
    }
  }
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
  static T Of(T a, T b) {
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

// Both inputs and the result are of one type.
template <typename Calculation>
struct Arithmetic {
  static absl::Status Check(const Inputs& in) {
    return All(RequireNumber(in, 0), RequireNumber(in, 1), RequireSameType(in));
  }
  static DLDataType ResultType(const Inputs& in) { return SharedType(in); }
  static constexpr auto kElement = &Calculation::Element;
  static absl::Status Run(EvalArgs& args, const Broadcast& plan) {
    return WithNumber(args.dtype(0), [&](auto zero) {
      return MapSame<decltype(zero)>(
          args, plan, [](auto a, auto b) { return Calculation::Of(a, b); });
    });
  }
};

struct Mod : ops::Mod {
  static constexpr auto Fields() {
    return FieldList(Field<&Mod::fmod>("fmod"));
  }
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(Arithmetic<Dividing>::Check(in));
    const DLDataType dtype = SharedType(in);
    if (fmod || !IsFloat(dtype)) return absl::OkStatus();
    return AttributeError("fmod", "is 0, expected 1 for a float");
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return Countable(BroadcastInputs(in, SharedType(in)));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const Broadcast plan, BroadcastPair(args));
    const bool like_c = fmod;
    return WithNumber(args.dtype(0), [&](auto zero) {
      return MapSame<decltype(zero)>(args, plan, [like_c](auto a, auto b) {
        return like_c ? LikeC(a, b) : LikePython(a, b);
      });
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
  template <typename T>
  static T LikePython(T a, T b) {
    const T rest = LikeC(a, b);
    if constexpr (std::is_unsigned_v<T>) {
      return rest;
    } else {
      return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b)
                                                : rest;
    }
  }
};

struct Raising {
  static absl::Status Check(const Inputs& in) {
    return All(RequireNumber(in, 0), RequireNumber(in, 1));
  }
  static DLDataType ResultType(const Inputs& in) { return in.type(0).dtype; }
  static constexpr Dim (*kElement)(const Dim&, const Dim&) = nullptr;

  static absl::Status Run(EvalArgs& args, const Broadcast& plan) {
    const bool is_float = IsFloat(args.dtype(0)) || IsFloat(args.dtype(1));
    return is_float ? RunDouble(args, plan) : RunInteger(args, plan);
  }

 private:
  static double Power(double x, double y) {
    // Just as exact as std::pow, and much faster.
    return y == 2 ? x * x : std::pow(x, y);
  }
  static absl::Status RunDouble(EvalArgs& args, const Broadcast& plan) {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray z,
                              args.MakeOutput(0, plan.shape, args.dtype(0)));
    const std::vector<double> y = ToDoubles(args.in(1));
    return WithNumber(args.dtype(0), [&](auto zero) {
      using T = decltype(zero);
      const T* const x = args.in(0).As<T>();
      T* const to = z.As<T>();
      ForEachRun(
          plan, 20,
          [&](int64_t out, const int64_t* at, int64_t n, const int64_t* steps) {
            MapRun(Strided{x + at[0], steps[0]},
                   Strided{y.data() + at[1], steps[1]}, n, to + out,
                   [](T base, double exponent) {
                     return FromDouble<T>(Power(ToDouble(base), exponent));
                   });
          });
      return absl::OkStatus();
    });
  }

  // An exponent of any integer type.
  struct Exponent {
    uint64_t size;
    bool is_negative;
  };
  template <typename T>
  static T IntegerPower(T base, Exponent exponent) {
    if (exponent.is_negative) {
      // 1 / x^n, truncated; undefined for 0.
      const bool is_minus_one = static_cast<int64_t>(base) == -1;
      if (is_minus_one) return exponent.size % 2 == 0 ? T{1} : base;
      return base == 1 ? T{1} : T{0};
    }
    uint64_t power = 1;
    uint64_t square = Bits(base);
    for (uint64_t rest = exponent.size; rest != 0; rest >>= 1) {
      if (rest & 1) power *= square;
      square *= square;
    }
    return Wrapped<T>(power);
  }
  static absl::StatusOr<std::vector<Exponent>> Exponents(const NDArray& y) {
    std::vector<Exponent> exponents(static_cast<size_t>(CountOf(y)));
    NODEWISE_RETURN_IF_ERROR(WithInteger(y.dtype(), [&](auto zero) {
      const auto* from = y.As<decltype(zero)>();
      for (Exponent& exponent : exponents) {
        const bool is_negative = *from < 0;
        exponent = {is_negative ? 0 - Bits(*from) : Bits(*from), is_negative};
        ++from;
      }
      return absl::OkStatus();
    }));
    return exponents;
  }
  static absl::Status RunInteger(EvalArgs& args, const Broadcast& plan) {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray z,
                              args.MakeOutput(0, plan.shape, args.dtype(0)));
    NODEWISE_ASSIGN_OR_RETURN(const auto exponents, Exponents(args.in(1)));
    return WithInteger(args.dtype(0), [&](auto zero) {
      using T = decltype(zero);
      const T* const x = args.in(0).As<T>();
      T* const to = z.As<T>();
      ForEachRun(
          plan, 20,
          [&](int64_t out, const int64_t* at, int64_t n, const int64_t* steps) {
            MapRun(Strided{x + at[0], steps[0]},
                   Strided{exponents.data() + at[1], steps[1]}, n, to + out,
                   &IntegerPower<T>);
          });
      return absl::OkStatus();
    });
  }
};

// y = Of(x, slope): the slope must not make the result larger.
struct Sloping {
  static absl::Status Check(const Inputs& in) {
    return Arithmetic<Multiplying>::Check(in);
  }
  static DLDataType ResultType(const Inputs& in) { return SharedType(in); }
  static absl::Status Run(EvalArgs& args, const Broadcast& plan) {
    return WithNumber(args.dtype(0), [&](auto zero) {
      return MapSame<decltype(zero)>(args, plan, [](auto x, auto slope) {
        return x < 0 ? Multiplying::Of(slope, x) : x;
      });
    });
  }
};

struct PRelu : ops::PRelu {
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(Sloping::Check(in));
    if (!in.type(0).has_rank() || !in.type(1).has_rank()) {
      return absl::OkStatus();
    }
    NODEWISE_ASSIGN_OR_RETURN(const OutputInfos out, BroadcastInputs(in));
    if (AreCompatible(out[0].type, in.type(0))) return absl::OkStatus();
    return InputError(1,
                      "is larger than input 0, expected a slope that can be "
                      "repeated over it");
  }
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const Broadcast plan, BroadcastPair(args));
    return Sloping::Run(args, plan);
  }
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    return CountOf(out[0]);
  }
};

// Below opset 7 the slope is one number, or one for each channel.
struct PReluByChannel : ops::PRelu {
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(Sloping::Check(in));
    return CheckAligned(in, RuleFor(in.type(0), in.type(1)));
  }
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    const ops::AxisBroadcast rule =
        RuleFor(TensorType::Of(*args.in(0)), TensorType::Of(*args.in(1)));
    NODEWISE_ASSIGN_OR_RETURN(const Broadcast plan, AlignedPair(args, rule));
    return Sloping::Run(args, plan);
  }

 private:
  static ops::AxisBroadcast RuleFor(const TensorType& x,
                                    const TensorType& slope) {
    const bool is_list = slope.has_rank() && slope.rank() == 1;
    const bool has_channels = x.has_rank() && x.rank() >= 2;
    if (is_list && has_channels) return {true, 1};
    return {true, std::nullopt};
  }
};

struct Clip : ops::Clip {
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
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                              args.MakeOutput(0, args.shape(0), args.dtype(0)));
    return WithNumber(args.dtype(0), [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_arithmetic_v<T>) {
        Limit<T>(args, y, LimitOf<T>(args, 1, std::numeric_limits<T>::lowest()),
                 LimitOf<T>(args, 2, std::numeric_limits<T>::max()));
      } else {
        Limit<T>(args, y, LimitOf<double>(args, 1, -Largest<T>()),
                 LimitOf<double>(args, 2, Largest<T>()));
      }
      return absl::OkStatus();
    });
  }
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    return 2 * CountOf(out[0]);
  }

 private:
  template <typename T>
  static double Largest() {
    return std::is_same_v<T, Half> ? 65504 : BfloatToFloat(0x7F7F);
  }
  template <typename T>
  static T LimitOf(const EvalArgs& args, size_t i, T otherwise) {
    if (!args.has(i)) return otherwise;
    T limit{};
    (void)WithNumber(args.dtype(i), [&](auto zero) {
      using Given = decltype(zero);
      const Given given = *args.in(i).As<Given>();
      if constexpr (std::is_arithmetic_v<Given>) {
        limit = static_cast<T>(given);
      } else {
        limit = static_cast<T>(ToDouble(given));
      }
      return absl::OkStatus();
    });
    return limit;
  }
  // NaN stays NaN.
  template <typename T, typename Number>
  static void Limit(const EvalArgs& args, const NDArray& y, Number low,
                    Number high) {
    const T* const from = args.in(0).As<T>();
    T* const to = y.As<T>();
    ParallelFor(CountOf(y), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if constexpr (std::is_same_v<T, Number>) {
          T value = from[i] < low ? low : from[i];
          to[i] = value > high ? high : value;
        } else {
          Number value = ToDouble(from[i]);
          value = value < low ? low : value;
          to[i] = FromDouble<T>(value > high ? high : value);
        }
      }
    });
  }
};

template <typename Class, typename Calculation>
constexpr OperatorDef RowOf(const OperatorDef& row) {
  return Row<Class, Binary<Class, Arithmetic<Calculation>>>(row);
}
template <typename Class, typename Calculation>
constexpr OperatorDef RowAtAxisOf(const OperatorDef& row) {
  return Row<Class, BinaryAtAxis<Class, Arithmetic<Calculation>>>(row);
}

constexpr OperatorDef kArithmeticOperators[] = {
    RowAtAxisOf<ops::Add1, Adding>(
        {.name = "Add", .inputs = {"A", "B"}, .outputs = {"C"}}),
    RowOf<ops::Add, Adding>(
        {.name = "Add", .since = 7, .inputs = {"A", "B"}, .outputs = {"C"}}),
    RowAtAxisOf<ops::Sub1, Subtracting>(
        {.name = "Sub", .inputs = {"A", "B"}, .outputs = {"C"}}),
    RowOf<ops::Sub, Subtracting>(
        {.name = "Sub", .since = 7, .inputs = {"A", "B"}, .outputs = {"C"}}),
    RowAtAxisOf<ops::Mul1, Multiplying>(
        {.name = "Mul", .inputs = {"A", "B"}, .outputs = {"C"}}),
    RowOf<ops::Mul, Multiplying>(
        {.name = "Mul", .since = 7, .inputs = {"A", "B"}, .outputs = {"C"}}),
    RowAtAxisOf<ops::Div1, Dividing>({.name = "Div",
                                      .inputs = {"A", "B"},
                                      .outputs = {"C"},
                                      .bound = Ulps(1)}),
    RowOf<ops::Div, Dividing>({.name = "Div",
                               .since = 7,
                               .inputs = {"A", "B"},
                               .outputs = {"C"},
                               .bound = Ulps(1)}),
    Row<ops::Mod, Mod>(
        {.name = "Mod", .since = 10, .inputs = {"A", "B"}, .outputs = {"C"}}),
    Row<ops::Pow1, BinaryAtAxis<ops::Pow1, Raising>>({.name = "Pow",
                                                      .inputs = {"X", "Y"},
                                                      .outputs = {"Z"},
                                                      .bound = Ulps(16)}),
    Row<ops::Pow, Binary<ops::Pow, Raising>>({.name = "Pow",
                                              .since = 7,
                                              .inputs = {"X", "Y"},
                                              .outputs = {"Z"},
                                              .bound = Ulps(16)}),
    Row<ops::PRelu, PReluByChannel>(
        {.name = "PRelu", .inputs = {"X", "slope"}, .outputs = {"Y"}}),
    Row<ops::PRelu, PRelu>({.name = "PRelu",
                            .since = 7,
                            .inputs = {"X", "slope"},
                            .outputs = {"Y"}}),
    Row<ops::Clip, Clip>({.name = "Clip",
                          .inputs = {"input", Optional("min"), Optional("max")},
                          .outputs = {"output"},
                          .moved = {{"min", 1, 11}, {"max", 2, 11}}}),
};

}  // namespace

absl::Span<const OperatorDef> ArithmeticOperators() {
  return kArithmeticOperators;
}

}  // namespace nodewise
