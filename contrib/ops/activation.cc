#include "nodewise/ops/activation.h"

#include <array>
#include <cmath>
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

double SigmoidOf(double x) {
  // The exponential must not overflow: inf / inf is NaN.
  const double small = std::exp(-std::fabs(x));
  return (x < 0 ? small : 1) / (1 + small);
}
double SoftplusOf(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
}

// The scale of the bounds of x times a factor: by the formulas an infinity
// times a factor of 0 is NaN, where others take the limit, as is done here.
double OpenAtEnds(double x, double y, double scale) {
  return std::isinf(x) && y == 0 ? std::numeric_limits<double>::infinity()
                                 : scale;
}

struct Relu : ops::Relu, NumberMap<Relu> {
  template <typename T>
  static T Of(T x) {
    return x < 0 ? 0 : x;
  }
};

struct LeakyRelu : ops::LeakyRelu, FloatMap<LeakyRelu, kSimple> {
  static constexpr auto Fields() {
    return FieldList(Field<&LeakyRelu::alpha>("alpha"));
  }
  double Of(double x) const { return x < 0 ? alpha * x : x; }
};

struct ThresholdedRelu : ops::ThresholdedRelu,
                         FloatMap<ThresholdedRelu, kSimple> {
  static constexpr auto Fields() {
    return FieldList(Field<&ThresholdedRelu::alpha>("alpha"));
  }
  // A NaN is not above alpha: 0, as the text and the function body say.
  double Of(double x) const { return x > alpha ? x : 0; }
};

struct Elu : ops::Elu, FloatMap<Elu> {
  static constexpr auto Fields() {
    return FieldList(Field<&Elu::alpha>("alpha"));
  }
  double Of(double x) const { return x < 0 ? alpha * std::expm1(x) : x; }
  double Scale(double x, double) const { return x < 0 ? std::fabs(alpha) : 0; }
};

struct Selu : ops::Selu, FloatMap<Selu> {
  static constexpr auto Fields() {
    return FieldList(Field<&Selu::alpha>("alpha"),
                     Field<&Selu::gamma>("gamma"));
  }
  double Of(double x) const {
    return gamma * (x <= 0 ? alpha * std::expm1(x) : x);
  }
  double Scale(double x, double) const {
    return x <= 0 ? std::fabs(double{gamma} * alpha) : 0;
  }
};

struct Celu : ops::Celu, FloatMap<Celu> {
  static constexpr auto Fields() {
    return FieldList(Field<&Celu::alpha>("alpha"));
  }
  double Of(double x) const {
    // The sum of the standard's two halves; NaN must pass through.
    return x > 0 || std::isnan(x) ? Positive(x) : Negative(x);
  }
  double Scale(double, double) const { return std::fabs(alpha); }

 private:
  double Negative(double x) const {
    return std::min(0.0, alpha * std::expm1(x / alpha)) + 0;
  }
  double Positive(double x) const {
    if (std::isnan(x) || alpha >= 0) return x;
    return x + Negative(x);
  }
};

struct Sigmoid : ops::Sigmoid, FloatMap<Sigmoid> {
  static void OfAll(double* x, int64_t n) {
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
  double Of(double x) const {
    const double y = alpha * x + beta;
    return y < 0 ? 0 : y > 1 ? 1 : y;
  }
  double Scale(double, double) const { return 1 + std::fabs(beta); }
};

struct HardSwish : ops::HardSwish, FloatMap<HardSwish> {
  static double Of(double x) {
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
  double Of(double x) const {
    // The formula would give 0 times infinity, which is NaN.
    if (x == -std::numeric_limits<double>::infinity()) return -0.0;
    if (approximate == GeluFormula::kErf) {
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    }
    const double inner =
        std::sqrt(2 * std::numbers::inv_pi) * (x + 0.044715 * x * x * x);
    return x * SigmoidOf(2 * inner);
  }
  static double Scale(double x, double y) {
    return OpenAtEnds(x, y, std::min(std::fabs(x), 16.0));
  }
};

struct Swish : ops::Swish, FloatMap<Swish> {
  static constexpr auto Fields() {
    return FieldList(Field<&Swish::alpha>("alpha"));
  }
  double Of(double x) const {
    const double sigmoid = SigmoidOf(alpha * x);
    return sigmoid == 0 ? -0.0 : x * sigmoid;
  }
  double Scale(double x, double y) const {
    return OpenAtEnds(
        x, y, std::fabs(y) * (1 + std::min(std::fabs(alpha * x), 1000.0)));
  }
};

struct SwiGLU : ops::SwiGLU {
  static constexpr auto Fields() {
    return FieldList(Field<&SwiGLU::alpha>("alpha"));
  }
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
    const Swish swish{{alpha}, {}};
    NODEWISE_RETURN_IF_ERROR(
        MapPairBlocks<double>(args, plan, args.dtype(0), 10,
                              [swish](double* a, const double* b, int64_t n) {
                                for (int64_t i = 0; i < n; ++i)
                                  a[i] = swish.Of(a[i]) * b[i];
                              }));
    if (Bounds* const bounds = args.bounds(0)) FillBounds(args, bounds);
    return absl::OkStatus();
  }
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    return 5 * CountOf(out[0]);
  }

 private:
  // What a kernel has between its two steps may be too small for its type to
  // have all digits, and B large.
  void FillBounds(const EvalArgs& args, Bounds* bounds) const {
    const Swish swish{{alpha}, {}};
    const NDArray& y = args.outputs()[0];
    FillScaledBounds(args.in(0), y, bounds, [&swish](double a, double z) {
      return swish.Scale(a, z);
    });
    const std::vector<double> a = ToDoubles(args.in(0));
    const std::vector<double> b = ToDoubles(args.in(1));
    for (size_t i = 0; i < a.size(); ++i) {
      bounds->proved[i] +=
          2 * HalfUlp(y.dtype(), swish.Of(a[i])) * std::fabs(b[i]);
    }
    bounds->expected = bounds->proved;
  }
};

struct Softplus : ops::Softplus, FloatMap<Softplus> {
  static double Of(double x) { return SoftplusOf(x); }
  static double Scale(double, double) { return 1; }
};

struct Mish : ops::Mish, FloatMap<Mish> {
  static double Of(double x) {
    const double gate = std::tanh(SoftplusOf(x));
    return gate == 0 ? -0.0 : x * gate;
  }
  static double Scale(double x, double y) {
    return OpenAtEnds(x, y,
                      std::max(std::min(std::fabs(x), 100.0), std::fabs(y)));
  }
};

struct Softsign : ops::Softsign, FloatMap<Softsign> {
  static double Of(double x) {
    return std::isinf(x) ? std::copysign(1, x) : x / (1 + std::fabs(x));
  }
  // By the formula it is infinity over infinity.
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
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                              args.MakeOutput(0, args.shape(0), args.dtype(0)));
    // Results that do not fit depend on the element's own type.
    return WithInteger(args.dtype(0), [&](auto zero) {
      using T = decltype(zero);
      const T* const x = args.in(0).As<T>();
      for (int64_t i = 0; i < CountOf(y); ++i) y.As<T>()[i] = Of(x[i]);
      return absl::OkStatus();
    });
  }
  double Of(double x) const {
    if (x < -double{lambd}) return x + bias;
    return x > lambd ? x - bias : 0;  // NaN is "otherwise".
  }
  template <typename T>
  requires std::is_integral_v<T> T Of(T x)
  const {
    // A long double holds all integers of 64 bits.
    const auto wide = static_cast<long double>(x);
    if (wide < -lambd) return Truncated<T>(wide + bias);
    return wide > lambd ? Truncated<T>(wide - bias) : T{0};
  }

 private:
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

constexpr OperatorDef kActivationOperators[] = {
    Row<ops::Relu, Relu>({.name = "Relu", .inputs = {"X"}, .outputs = {"Y"}}),
    Row<ops::LeakyRelu, LeakyRelu>({.name = "LeakyRelu",
                                    .inputs = {"X"},
                                    .outputs = {"Y"},
                                    .bound = Ulps(1)}),
    Row<ops::ThresholdedRelu, ThresholdedRelu>({.name = "ThresholdedRelu",
                                                .since = 10,
                                                .inputs = {"X"},
                                                .outputs = {"Y"}}),
    Row<ops::Elu, Elu>(
        {.name = "Elu", .inputs = {"X"}, .outputs = {"Y"}, .bound = kSum}),
    Row<ops::Selu, Selu>({.name = "Selu",
                          .since = 6,
                          .inputs = {"X"},
                          .outputs = {"Y"},
                          .bound = kSum}),
    Row<ops::Celu, Celu>({.name = "Celu",
                          .since = 12,
                          .inputs = {"X"},
                          .outputs = {"Y"},
                          .bound = kSum}),
    Row<ops::Sigmoid, Sigmoid>({.name = "Sigmoid",
                                .inputs = {"X"},
                                .outputs = {"Y"},
                                .bound = Ulps(4)}),
    Row<ops::HardSigmoid, HardSigmoid>({.name = "HardSigmoid",
                                        .inputs = {"X"},
                                        .outputs = {"Y"},
                                        .bound = kSum}),
    Row<ops::HardSwish, HardSwish>({.name = "HardSwish",
                                    .since = 14,
                                    .inputs = {"X"},
                                    .outputs = {"Y"},
                                    .bound = kSum}),
    Row<ops::Gelu, Gelu>({.name = "Gelu",
                          .since = 20,
                          .inputs = {"X"},
                          .outputs = {"Y"},
                          .bound = kSum}),
    Row<ops::Swish, Swish>({.name = "Swish",
                            .since = 24,
                            .inputs = {"X"},
                            .outputs = {"Y"},
                            .bound = kSum}),
    Row<ops::SwiGLU, SwiGLU>({.name = "SwiGLU",
                              .since = 28,
                              .inputs = {"A", "B"},
                              .outputs = {"Y"},
                              .bound = kSum}),
    Row<ops::Softplus, Softplus>(
        {.name = "Softplus", .inputs = {"X"}, .outputs = {"Y"}, .bound = kSum}),
    Row<ops::Mish, Mish>({.name = "Mish",
                          .since = 18,
                          .inputs = {"X"},
                          .outputs = {"Y"},
                          .bound = kSum}),
    Row<ops::Softsign, Softsign>({.name = "Softsign",
                                  .inputs = {"input"},
                                  .outputs = {"output"},
                                  .bound = Ulps(2)}),
    Row<ops::Shrink, Shrink>({.name = "Shrink",
                              .since = 9,
                              .inputs = {"input"},
                              .outputs = {"output"},
                              .bound = Ulps(1)}),
};

}  // namespace

absl::Span<const OperatorDef> ActivationOperators() {
  return kActivationOperators;
}

}  // namespace nodewise
