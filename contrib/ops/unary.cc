#include "nodewise/ops/unary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <limits>
#include <numbers>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "nodewise/kernels/vector_math.h"

namespace nodewise {

using ops::GeluFormula;
template <>
struct Words<GeluFormula> {
  static constexpr std::pair<GeluFormula, std::string_view> kAll[] = {
      {GeluFormula::kErf, "none"}, {GeluFormula::kTanh, "tanh"}};
};

namespace {

// Known elements of shapes go through Abs and Neg, with which an axis or a
// length may be calculated.
template <typename Class>
struct ShapeMap : NumberMap<Class> {
  OutputInfos Infer(const Inputs& in) const {
    OutputInfos out = LikeInput(in);
    out[0].elements = MapElements(in, [](const Dim& x) {
      return x.is_known() ? Dim(Class::Eval(x.size())) : Dim();
    });
    return out;
  }
};

struct Abs : ops::Abs, ShapeMap<Abs> {
  static double Eval(double x) { return std::fabs(x); }
  // The smallest integer has no positive counterpart: it stays itself, as
  // negation without signs makes it.
  template <std::integral T>
  static T Eval(T x) {
    return x < 0 ? Wrapped<T>(0 - Bits(x)) : x;
  }
};

struct Neg : ops::Neg, ShapeMap<Neg> {
  static double Eval(double x) { return -x; }
  template <std::integral T>
  static T Eval(T x) {
    return Wrapped<T>(0 - Bits(x));
  }
};

struct Sign : ops::Sign, NumberMap<Sign> {
  // Zeros keep their sign, and NaN stays NaN.
  static double Eval(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
  template <std::integral T>
  static T Eval(T x) {
    return static_cast<T>((x > 0 ? 1 : 0) - (x < 0 ? 1 : 0));
  }
};

// Opset 9 has Erf for integers, too.
struct Erf : ops::Erf, NumberMap<Erf> {
  absl::Status Evaluate(EvalArgs& args) const {
    if (IsFloat(args.dtype(0))) return MapBlocks<double>(args, 4, &ErfAll);
    return NumberMap::Evaluate(args);
  }
  static double Eval(double x) { return std::erf(x); }
  template <std::integral T>
  static T Eval(T x) {
    return FromDouble<T>(std::erf(ToDouble(x)));
  }
};

struct Sqrt : ops::Sqrt, FloatMap<Sqrt, kSimple> {
  static double Eval(double x) { return std::sqrt(x); }
};
struct Reciprocal : ops::Reciprocal, FloatMap<Reciprocal, kSimple> {
  static double Eval(double x) { return 1 / x; }
};
struct Exp : ops::Exp, FloatMap<Exp> {
  absl::Status Evaluate(EvalArgs& args) const {
    return MapBlocks<double>(args, 4, &ExpAll);
  }
};
struct Tanh : ops::Tanh, FloatMap<Tanh> {
  static void EvalAll(double* x, int64_t n) { TanhAll(x, n); }
};

// A function of the C library, whose error in double is lost in the rounding to
// a shorter type. std::nearbyint gives halves to the even number, which is the
// rounding mode throughout.
template <typename Class, double (*kFunction)(double)>
struct Library : Class, FloatMap<Library<Class, kFunction>> {
  static double Eval(double x) { return kFunction(x); }
};

// A function of the C library whose kernels are off by a few units at 1
// wherever the result is small: they reduce an angle, or take the logarithm of
// something near 1, or subtract what is about 1.
template <typename Class, double (*kFunction)(double)>
struct Coarse : Class, FloatMap<Coarse<Class, kFunction>> {
  static double Eval(double x) { return kFunction(x); }
  static double Scale(double, double) { return 1; }
};

// Next to a pole an error of the reduced angle grows with the derivative, which
// is 1 + tan(x)^2.
struct Tan : ops::Tan, FloatMap<Tan> {
  static double Eval(double x) { return std::tan(x); }
  static double Scale(double, double y) { return 1 + y * y; }
};

// Near x = 1 the result rises like a square root, so an error of x - 1 is
// divided by the result. The limit keeps the bound finite at 0.
struct Acosh : ops::Acosh, FloatMap<Acosh> {
  static double Eval(double x) { return std::acosh(x); }
  static double Scale(double, double y) { return 1 / std::max(y, 1e-4); }
};

double SigmoidOf(double x) {
  // The exponential must not overflow: inf / inf is NaN.
  const double small = std::exp(-std::fabs(x));
  return (x < 0 ? small : 1) / (1 + small);
}

// The larger half is split off, so that the exponential never overflows here
// either.
double SoftplusOf(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
}

// The scale of the bounds of x times a factor. An infinity times a factor of 0
// is NaN by the formulas; others take the limit, as is done here.
double OpenAtEnds(double x, double y, double scale) {
  return std::isinf(x) && y == 0 ? std::numeric_limits<double>::infinity()
                                 : scale;
}

template <typename Class>
struct WithAlpha : Class {
  static constexpr auto Fields() {
    return FieldList(Field<&Class::alpha>("alpha"));
  }
};

struct Relu : ops::Relu, NumberMap<Relu> {
  // NaN is not below 0 and stays.
  template <typename T>
  static T Eval(T x) {
    return x < 0 ? 0 : x;
  }
};

struct LeakyRelu : WithAlpha<ops::LeakyRelu>, FloatMap<LeakyRelu, kSimple> {
  double Eval(double x) const { return x < 0 ? alpha * x : x; }
};

struct ThresholdedRelu : WithAlpha<ops::ThresholdedRelu>,
                         FloatMap<ThresholdedRelu, kSimple> {
  // A NaN is not above alpha: 0, as the text and the function body say.
  double Eval(double x) const { return x > alpha ? x : 0; }
};

// Kernels of the exponential units may calculate exp(x) - 1, which has the
// error of exp(x) near 1: that is what Scale() of the next three says.
struct Elu : WithAlpha<ops::Elu>, FloatMap<Elu> {
  double Eval(double x) const { return x < 0 ? alpha * std::expm1(x) : x; }
  double Scale(double x, double) const { return x < 0 ? std::fabs(alpha) : 0; }
};

struct Selu : ops::Selu, FloatMap<Selu> {
  static constexpr auto Fields() {
    return FieldList(Field<&Selu::alpha>("alpha"),
                     Field<&Selu::gamma>("gamma"));
  }
  double Eval(double x) const {
    return gamma * (x <= 0 ? alpha * std::expm1(x) : x);
  }
  double Scale(double x, double) const {
    return x <= 0 ? std::fabs(double{gamma} * alpha) : 0;
  }
};

struct Celu : WithAlpha<ops::Celu>, FloatMap<Celu> {
  double Eval(double x) const {
    // The sum of the standard's two halves; NaN must pass through.
    return x > 0 || std::isnan(x) ? Positive(x) : Negative(x);
  }
  double Scale(double, double) const { return std::fabs(alpha); }

 private:
  double Negative(double x) const {
    return std::min(0.0, alpha * std::expm1(x / alpha)) + 0;
  }
  // An alpha below 0 makes the other half count for positive numbers too.
  double Positive(double x) const {
    if (std::isnan(x) || alpha >= 0) return x;
    return x + Negative(x);
  }
};

// SigmoidOf() of many numbers: the exponentials of a part are calculated
// together, with vector instructions, and a part fits into the first cache.
struct Sigmoid : ops::Sigmoid, FloatMap<Sigmoid> {
  static void EvalAll(double* x, int64_t n) {
    constexpr int64_t kPart = 256;
    std::array<double, kPart> powers{};
    for (int64_t begin = 0; begin < n; begin += kPart) {
      const int64_t count = std::min(kPart, n - begin);
      double* const part = x + begin;
      for (int64_t i = 0; i < count; ++i) powers[i] = -std::fabs(part[i]);
      ExpAll(powers.data(), count);
      for (int64_t i = 0; i < count; ++i) {
        part[i] = (part[i] < 0 ? powers[i] : 1) / (1 + powers[i]);
      }
    }
  }
};

struct HardSigmoid : ops::HardSigmoid, FloatMap<HardSigmoid, kSimple> {
  static constexpr auto Fields() {
    return FieldList(Field<&HardSigmoid::alpha>("alpha"),
                     Field<&HardSigmoid::beta>("beta"));
  }
  double Eval(double x) const {
    const double y = alpha * x + beta;
    return y < 0 ? 0 : y > 1 ? 1 : y;
  }
  double Scale(double, double) const { return 1 + std::fabs(beta); }
};

struct HardSwish : ops::HardSwish, FloatMap<HardSwish> {
  // Below -3 the factor is 0: a finite x gives a zero with its sign, and so
  // does an infinite one, for which the product would be NaN.
  static double Eval(double x) {
    if (x <= -3) return std::isinf(x) ? -0.0 : x * 0;
    return x >= 3 ? x : x * (x / 6 + 0.5);
  }
  static double Scale(double x, double y) {
    return OpenAtEnds(x, y, std::min(std::fabs(x), 3.0));
  }
};

struct Gelu : ops::Gelu, FloatMap<Gelu> {
  static constexpr auto Fields() {
    return FieldList(Field<&Gelu::approximate>("approximate"));
  }
  double Eval(double x) const {
    // The formula would give 0 times infinity, which is NaN.
    if (x == -std::numeric_limits<double>::infinity()) return -0.0;
    if (approximate == GeluFormula::kErf) {
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    }
    // 1 + tanh(z) is twice the sigmoid of 2 z, which keeps its digits where the
    // sum would cancel.
    const double inner =
        std::sqrt(2 * std::numbers::inv_pi) * (x + 0.044715 * x * x * x);
    return x * SigmoidOf(2 * inner);
  }
  static double Scale(double x, double y) {
    return OpenAtEnds(x, y, std::min(std::fabs(x), 16.0));
  }
};

struct Swish : WithAlpha<ops::Swish>, FloatMap<Swish> {
  double Eval(double x) const {
    const double sigmoid = SigmoidOf(alpha * x);
    return sigmoid == 0 ? -0.0 : x * sigmoid;
  }
  // A rounding of alpha * x changes the exponential by that many units.
  double Scale(double x, double y) const {
    return OpenAtEnds(
        x, y, std::fabs(y) * (1 + std::min(std::fabs(alpha * x), 1000.0)));
  }
};

// Not a function of one number, but Swish with a gate behind it.
struct SwiGLU : WithAlpha<ops::SwiGLU> {
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(
        All(RequireFloat(in, 0), RequireFloat(in, 1), RequireSameType(in)));
    if (!in.type(0).has_rank()) return absl::OkStatus();
    return RequireShape(in, 1, *in.type(0).shape);
  }
  OutputInfos Infer(const Inputs& in) const {
    return LikeInput(in, in.type(0).has_rank() ? 0 : 1, SharedType(in));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    if (args.shape(0) != args.shape(1)) {
      return InputError(1, "has another shape than input 0, expected the same");
    }
    NODEWISE_ASSIGN_OR_RETURN(const Broadcast plan, BroadcastPair(args));
    const Swish swish{{{alpha}}, {}};
    NODEWISE_RETURN_IF_ERROR(
        MapPairBlocks<double>(args, plan, args.dtype(0), 10,
                              [swish](double* a, const double* b, int64_t n) {
                                for (int64_t i = 0; i < n; ++i)
                                  a[i] = swish.Eval(a[i]) * b[i];
                              }));
    if (Bounds* const bounds = args.bounds(0)) FillBounds(args, bounds);
    return absl::OkStatus();
  }
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    return 5 * CountOf(out[0]);
  }

 private:
  // The value between a kernel's two steps may be too small for its type to
  // have all digits, and B large.
  void FillBounds(const EvalArgs& args, Bounds* bounds) const {
    const Swish swish{{{alpha}}, {}};
    const NDArray& y = args.outputs()[0];
    FillScaledBounds(args.in(0), y, bounds, [&swish](double a, double z) {
      return swish.Scale(a, z);
    });
    const std::vector<double> a = ToDoubles(args.in(0));
    const std::vector<double> b = ToDoubles(args.in(1));
    for (size_t i = 0; i < a.size(); ++i) {
      bounds->proved[i] +=
          2 * HalfUlp(y.dtype(), swish.Eval(a[i])) * std::fabs(b[i]);
    }
    bounds->expected = bounds->proved;
  }
};

struct Mish : ops::Mish, FloatMap<Mish> {
  static double Eval(double x) {
    const double gate = std::tanh(SoftplusOf(x));
    return gate == 0 ? -0.0 : x * gate;
  }
  static double Scale(double x, double y) {
    return OpenAtEnds(x, y,
                      std::max(std::min(std::fabs(x), 100.0), std::fabs(y)));
  }
};

struct Softsign : ops::Softsign, FloatMap<Softsign> {
  static double Eval(double x) {
    return std::isinf(x) ? std::copysign(1, x) : x / (1 + std::fabs(x));
  }
  // At infinities the formula gives infinity over infinity.
  static double Scale(double x, double y) {
    return std::isinf(x) ? std::fabs(x) : std::fabs(y);
  }
};

struct Shrink : ops::Shrink, NumberMap<Shrink> {
  static constexpr auto Fields() {
    return FieldList(Field<&Shrink::bias>("bias"),
                     Field<&Shrink::lambd>("lambd"));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    if (IsFloat(args.dtype(0))) return NumberMap::Evaluate(args);
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    // Results that do not fit depend on the element's own type.
    return WithInteger(args.dtype(0), [&](auto zero) {
      using T = decltype(zero);
      const T* const x = args.in(0).As<T>();
      for (int64_t i = 0; i < CountOf(y); ++i) y.As<T>()[i] = Eval(x[i]);
    });
  }
  double Eval(double x) const {
    if (x < -double{lambd}) return x + bias;
    return x > lambd ? x - bias : 0;  // NaN is "otherwise".
  }
  template <std::integral T>
  T Eval(T x) const {
    // A long double holds all integers of 64 bits.
    const auto wide = static_cast<long double>(x);
    if (wide < -lambd) return Truncated<T>(wide + bias);
    return wide > lambd ? Truncated<T>(wide - bias) : T{0};
  }

 private:
  // Converts as FromDouble() does, whose doubles have too few digits here.
  template <typename T>
  static T Truncated(long double x) {
    if (std::isnan(x)) return 0;
    constexpr auto kLow = std::numeric_limits<T>::min();
    constexpr auto kHigh = std::numeric_limits<T>::max();
    if (x <= static_cast<long double>(kLow)) return kLow;
    if (x >= static_cast<long double>(kHigh)) return kHigh;
    return static_cast<T>(x);
  }
};

// ONNX calls the tensors of half of these X and Y, those of the others input
// and output. `bound` is kSum where Scale() gives the bounds.
template <typename Class, typename Rules>
constexpr OperatorDef UnaryRow(const char* name, int since, ErrorBound bound,
                               const OperatorTraits& traits) {
  return Row<Class, Rules>(name, since, {"X"}, {"Y"}, bound, traits);
}
template <typename Class, typename Rules>
constexpr OperatorDef InputToOutput(const char* name, int since,
                                    ErrorBound bound,
                                    const OperatorTraits& traits = {}) {
  return Row<Class, Rules>(name, since, {"input"}, {"output"}, bound, traits);
}

constexpr OperatorTraits kMath{.is_elementwise = true, .form = "math"};
constexpr OperatorTraits kActivation{.is_elementwise = true,
                                     .form = "activation"};

constexpr OperatorDef kUnaryRows[] = {
    InputToOutput<ops::Exp, Exp>("Exp", 1, Ulps(4), kMath),
    InputToOutput<ops::Log, Library<ops::Log, &std::log>>("Log", 1, Ulps(4),
                                                          kMath),
    UnaryRow<ops::Sqrt, Sqrt>("Sqrt", 1, Ulps(1), kMath),
    UnaryRow<ops::Reciprocal, Reciprocal>("Reciprocal", 1, Ulps(1), kMath),
    UnaryRow<ops::Neg, Neg>("Neg", 1, kExact, kMath),
    UnaryRow<ops::Abs, Abs>("Abs", 1, kExact, kMath),
    UnaryRow<ops::Floor, Library<ops::Floor, &std::floor>>("Floor", 1, kExact,
                                                           kMath),
    UnaryRow<ops::Ceil, Library<ops::Ceil, &std::ceil>>("Ceil", 1, kExact,
                                                        kMath),
    UnaryRow<ops::Round, Library<ops::Round, &std::nearbyint>>("Round", 11,
                                                               kExact, kMath),
    InputToOutput<ops::Sin, Coarse<ops::Sin, &std::sin>>("Sin", 7, kSum, kMath),
    InputToOutput<ops::Cos, Coarse<ops::Cos, &std::cos>>("Cos", 7, kSum, kMath),
    InputToOutput<ops::Sign, Sign>("Sign", 9, kExact, kElementwise),
    InputToOutput<ops::Tan, Tan>("Tan", 7, kSum),
    InputToOutput<ops::Asin, Library<ops::Asin, &std::asin>>("Asin", 7,
                                                             Ulps(4)),
    InputToOutput<ops::Acos, Coarse<ops::Acos, &std::acos>>("Acos", 7, kSum),
    InputToOutput<ops::Atan, Library<ops::Atan, &std::atan>>("Atan", 7,
                                                             Ulps(4)),
    InputToOutput<ops::Sinh, Coarse<ops::Sinh, &std::sinh>>("Sinh", 9, kSum),
    InputToOutput<ops::Cosh, Library<ops::Cosh, &std::cosh>>("Cosh", 9,
                                                             Ulps(4)),
    InputToOutput<ops::Asinh, Coarse<ops::Asinh, &std::asinh>>("Asinh", 9,
                                                               kSum),
    InputToOutput<ops::Acosh, Acosh>("Acosh", 9, kSum),
    InputToOutput<ops::Atanh, Coarse<ops::Atanh, &std::atanh>>("Atanh", 9,
                                                               kSum),
    UnaryRow<ops::Relu, Relu>("Relu", 1, kExact, kActivation),
    UnaryRow<ops::LeakyRelu, LeakyRelu>("LeakyRelu", 1, Ulps(1), kActivation),
    UnaryRow<ops::Elu, Elu>("Elu", 1, kSum, kActivation),
    UnaryRow<ops::Selu, Selu>("Selu", 6, kSum, kActivation),
    UnaryRow<ops::Celu, Celu>("Celu", 12, kSum, kActivation),
    UnaryRow<ops::Sigmoid, Sigmoid>("Sigmoid", 1, Ulps(4), kActivation),
    UnaryRow<ops::HardSigmoid, HardSigmoid>("HardSigmoid", 1, kSum,
                                            kActivation),
    UnaryRow<ops::HardSwish, HardSwish>("HardSwish", 14, kSum, kActivation),
    InputToOutput<ops::Tanh, Tanh>("Tanh", 1, Ulps(4), kActivation),
    UnaryRow<ops::Softplus, Coarse<ops::Softplus, &SoftplusOf>>(
        "Softplus", 1, kSum, kActivation),
    InputToOutput<ops::Softsign, Softsign>("Softsign", 1, Ulps(2), kActivation),
    UnaryRow<ops::ThresholdedRelu, ThresholdedRelu>("ThresholdedRelu", 10,
                                                    kExact, kActivation),
    UnaryRow<ops::Gelu, Gelu>("Gelu", 20, kSum, kActivation),
    UnaryRow<ops::Mish, Mish>("Mish", 18, kSum, kActivation),
    UnaryRow<ops::Swish, Swish>("Swish", 24, kSum, kActivation),
    InputToOutput<ops::Erf, Erf>("Erf", 9, Ulps(4), kActivation),
    InputToOutput<ops::Shrink, Shrink>("Shrink", 9, Ulps(1), kElementwise),
    Row<ops::SwiGLU, SwiGLU>("SwiGLU", 28, {"A", "B"}, {"Y"}, kSum),
};

}  // namespace

absl::Span<const OperatorDef> UnaryOperators() { return kUnaryRows; }

}  // namespace nodewise
