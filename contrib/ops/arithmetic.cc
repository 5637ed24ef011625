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
    return MapSame(args, plan,
                   [](auto a, auto b) { return Calculation::Of(a, b); });
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

// Below opset 28.
struct ModOfIntegers : Mod {
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(Mod::Check(in));
    if (fmod || !IsFloat(SharedType(in))) return absl::OkStatus();
    return AttributeError("fmod", "is 0, expected 1 for a float");
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
  static absl::Status RunDouble(EvalArgs& args, const Broadcast& plan) {
    return MapPairBlocks<double>(
        args, plan, args.dtype(0), 20,
        [](double* x, const double* y, int64_t n) {
          // Just as exact as std::pow, and much faster.
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

  // An exponent of any integer type.
  struct Exponent {
    uint64_t size;
    bool is_negative;
  };
  static int64_t IntegerPower(int64_t base, Exponent exponent) {
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

// y = Of(x, slope): the slope must not make the result larger.
struct Sloping {
  static absl::Status Check(const Inputs& in) {
    return Arithmetic<Multiplying>::Check(in);
  }
  static DLDataType ResultType(const Inputs& in) { return SharedType(in); }
  static absl::Status Run(EvalArgs& args, const Broadcast& plan) {
    const auto sloped = [](auto x, auto slope) {
      return x < 0 ? Multiplying::Of(slope, x) : x;
    };
    if (args.dtype(0) != kFloat32) {
      return MapWide(args, plan, args.dtype(0), sloped);
    }
    return MapPairs<float, float>(args, plan, kFloat32, sloped);
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
    if (args.dtype(0) == kFloat32) {
      NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                                args.MakeOutput(0, args.shape(0), kFloat32));
      const Limits<float> limits = LimitsOf<float>(args);
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

 private:
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
  // The limits that are not given are the ends of the element type.
  template <typename T>
  static Limits<T> LimitsOf(const EvalArgs& args) {
    Limits<T> limits{std::numeric_limits<T>::lowest(),
                     std::numeric_limits<T>::max()};
    if constexpr (std::is_floating_point_v<T>) {
      limits.high = static_cast<T>(LargestOf(args.dtype(0)));
      limits.low = -limits.high;
    }
    SetLimit(args, 1, &limits.low);
    SetLimit(args, 2, &limits.high);
    return limits;
  }
  template <typename T>
  static void SetLimit(const EvalArgs& args, size_t i, T* limit) {
    if (!args.has(i)) return;
    if constexpr (std::is_same_v<T, float>) {
      *limit = *args.in(i).As<float>();
    } else {
      LoadWide(args.in(i), 0, 1, limit);
    }
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
    Row<ops::Mod, ModOfIntegers>(
        {.name = "Mod", .since = 10, .inputs = {"A", "B"}, .outputs = {"C"}}),
    Row<ops::Mod, Mod>(
        {.name = "Mod", .since = 28, .inputs = {"A", "B"}, .outputs = {"C"}}),
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
