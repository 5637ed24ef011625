#include "nodewise/ops/elementary.h"

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "nodewise/kernels/vector_math.h"

namespace nodewise {
namespace {

struct Abs : ops::Abs, NumberMap<Abs> {
  OutputInfos Infer(const Inputs& in) const {
    OutputInfos out = LikeInput(in);
    out[0].elements = MapElements(in, [](const Dim& x) {
      if (!x.is_known()) return Dim();
      return Dim(static_cast<int64_t>(Of(x.size())));
    });
    return out;
  }
  static double Of(double x) { return std::fabs(x); }
  template <typename T>
  requires std::is_integral_v<T>
  static T Of(T x) { return x < 0 ? Wrapped<T>(0 - Bits(x)) : x; }
};

struct Neg : ops::Neg, NumberMap<Neg> {
  OutputInfos Infer(const Inputs& in) const {
    OutputInfos out = LikeInput(in);
    out[0].elements = MapElements(in, [](const Dim& x) {
      return x.is_known() ? Dim(Of(x.size())) : Dim();
    });
    return out;
  }
  static double Of(double x) { return -x; }
  template <typename T>
  requires std::is_integral_v<T>
  static T Of(T x) { return Wrapped<T>(0 - Bits(x)); }
};

struct Sign : ops::Sign, NumberMap<Sign> {
  static double Of(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
  template <typename T>
  requires std::is_integral_v<T>
  static T Of(T x) { return static_cast<T>((x > 0 ? 1 : 0) - (x < 0 ? 1 : 0)); }
};

// Opset 9 has it for integers too.
struct Erf : ops::Erf, NumberMap<Erf> {
  absl::Status Evaluate(EvalArgs& args) const {
    if (IsFloat(args.dtype(0))) return MapBlocks<double>(args, 4, &ErfAll);
    return NumberMap::Evaluate(args);
  }
  static double Of(double x) { return std::erf(x); }
  template <typename T>
  requires std::is_integral_v<T>
  static T Of(T x) { return FromDouble<T>(std::erf(ToDouble(x))); }
};

struct Sqrt : ops::Sqrt, FloatMap<Sqrt, kSimple> {
  static double Of(double x) { return std::sqrt(x); }
};
struct Reciprocal : ops::Reciprocal, FloatMap<Reciprocal, kSimple> {
  static double Of(double x) { return 1 / x; }
};
struct Exp : ops::Exp, FloatMap<Exp> {
  absl::Status Evaluate(EvalArgs& args) const {
    return MapBlocks<double>(args, 4, &ExpAll);
  }
};
struct Log : ops::Log, FloatMap<Log> {
  static double Of(double x) { return std::log(x); }
};
struct Tanh : ops::Tanh, FloatMap<Tanh> {
  static void OfAll(double* x, int64_t n) { TanhAll(x, n); }
};
struct Floor : ops::Floor, FloatMap<Floor> {
  static double Of(double x) { return std::floor(x); }
};
struct Ceil : ops::Ceil, FloatMap<Ceil> {
  static double Of(double x) { return std::ceil(x); }
};
// Halves go to the even number, which is the rounding mode throughout.
struct Round : ops::Round, FloatMap<Round> {
  static double Of(double x) { return std::nearbyint(x); }
};

// Kernels reduce the angle with an error of a few units at 1.
struct Sin : ops::Sin, FloatMap<Sin> {
  static double Of(double x) { return std::sin(x); }
  static double Scale(double, double) { return 1; }
};
struct Cos : ops::Cos, FloatMap<Cos> {
  static double Of(double x) { return std::cos(x); }
  static double Scale(double, double) { return 1; }
};
struct Tan : ops::Tan, FloatMap<Tan> {
  static double Of(double x) { return std::tan(x); }
  static double Scale(double, double y) { return 1 + y * y; }
};
struct Asin : ops::Asin, FloatMap<Asin> {
  static double Of(double x) { return std::asin(x); }
};
struct Acos : ops::Acos, FloatMap<Acos> {
  static double Of(double x) { return std::acos(x); }
  static double Scale(double, double) { return 1; }
};
struct Atan : ops::Atan, FloatMap<Atan> {
  static double Of(double x) { return std::atan(x); }
};
struct Sinh : ops::Sinh, FloatMap<Sinh> {
  static double Of(double x) { return std::sinh(x); }
  static double Scale(double, double) { return 1; }
};
struct Cosh : ops::Cosh, FloatMap<Cosh> {
  static double Of(double x) { return std::cosh(x); }
};
// The inverses are logarithms of something near 1.
struct Asinh : ops::Asinh, FloatMap<Asinh> {
  static double Of(double x) { return std::asinh(x); }
  static double Scale(double, double) { return 1; }
};
struct Acosh : ops::Acosh, FloatMap<Acosh> {
  static double Of(double x) { return std::acosh(x); }
  static double Scale(double, double y) { return 1 / std::max(y, 1e-4); }
};
struct Atanh : ops::Atanh, FloatMap<Atanh> {
  static double Of(double x) { return std::atanh(x); }
  static double Scale(double, double) { return 1; }
};

constexpr OperatorDef kElementaryOperators[] = {
    Row<ops::Abs, Abs>({.name = "Abs", .inputs = {"X"}, .outputs = {"Y"}}),
    Row<ops::Neg, Neg>({.name = "Neg", .inputs = {"X"}, .outputs = {"Y"}}),
    Row<ops::Sign, Sign>({.name = "Sign",
                          .since = 9,
                          .inputs = {"input"},
                          .outputs = {"output"}}),
    Row<ops::Erf, Erf>({.name = "Erf",
                        .since = 9,
                        .inputs = {"input"},
                        .outputs = {"output"},
                        .bound = Ulps(4)}),
    Row<ops::Sqrt, Sqrt>(
        {.name = "Sqrt", .inputs = {"X"}, .outputs = {"Y"}, .bound = Ulps(1)}),
    Row<ops::Reciprocal, Reciprocal>({.name = "Reciprocal",
                                      .inputs = {"X"},
                                      .outputs = {"Y"},
                                      .bound = Ulps(1)}),
    Row<ops::Exp, Exp>({.name = "Exp",
                        .inputs = {"input"},
                        .outputs = {"output"},
                        .bound = Ulps(4)}),
    Row<ops::Log, Log>({.name = "Log",
                        .inputs = {"input"},
                        .outputs = {"output"},
                        .bound = Ulps(4)}),
    Row<ops::Tanh, Tanh>({.name = "Tanh",
                          .inputs = {"input"},
                          .outputs = {"output"},
                          .bound = Ulps(4)}),
    Row<ops::Floor, Floor>(
        {.name = "Floor", .inputs = {"X"}, .outputs = {"Y"}}),
    Row<ops::Ceil, Ceil>({.name = "Ceil", .inputs = {"X"}, .outputs = {"Y"}}),
    Row<ops::Round, Round>(
        {.name = "Round", .since = 11, .inputs = {"X"}, .outputs = {"Y"}}),
    Row<ops::Sin, Sin>({.name = "Sin",
                        .since = 7,
                        .inputs = {"input"},
                        .outputs = {"output"},
                        .bound = kSum}),
    Row<ops::Cos, Cos>({.name = "Cos",
                        .since = 7,
                        .inputs = {"input"},
                        .outputs = {"output"},
                        .bound = kSum}),
    Row<ops::Tan, Tan>({.name = "Tan",
                        .since = 7,
                        .inputs = {"input"},
                        .outputs = {"output"},
                        .bound = kSum}),
    Row<ops::Asin, Asin>({.name = "Asin",
                          .since = 7,
                          .inputs = {"input"},
                          .outputs = {"output"},
                          .bound = Ulps(4)}),
    Row<ops::Acos, Acos>({.name = "Acos",
                          .since = 7,
                          .inputs = {"input"},
                          .outputs = {"output"},
                          .bound = kSum}),
    Row<ops::Atan, Atan>({.name = "Atan",
                          .since = 7,
                          .inputs = {"input"},
                          .outputs = {"output"},
                          .bound = Ulps(4)}),
    Row<ops::Sinh, Sinh>({.name = "Sinh",
                          .since = 9,
                          .inputs = {"input"},
                          .outputs = {"output"},
                          .bound = kSum}),
    Row<ops::Cosh, Cosh>({.name = "Cosh",
                          .since = 9,
                          .inputs = {"input"},
                          .outputs = {"output"},
                          .bound = Ulps(4)}),
    Row<ops::Asinh, Asinh>({.name = "Asinh",
                            .since = 9,
                            .inputs = {"input"},
                            .outputs = {"output"},
                            .bound = kSum}),
    Row<ops::Acosh, Acosh>({.name = "Acosh",
                            .since = 9,
                            .inputs = {"input"},
                            .outputs = {"output"},
                            .bound = kSum}),
    Row<ops::Atanh, Atanh>({.name = "Atanh",
                            .since = 9,
                            .inputs = {"input"},
                            .outputs = {"output"},
                            .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> ElementaryOperators() {
  return kElementaryOperators;
}

}  // namespace nodewise
