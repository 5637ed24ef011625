// Functions of one number.

#include "contrib/emit_c/rows.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/cast.h"
#include "nodewise/ops/logic.h"
#include "nodewise/ops/unary.h"

namespace nodewise::emit_c {
namespace {

using Text = absl::StatusOr<std::string>;

std::string AsDouble(const ElementCode& code, size_t i = 0) {
  return fmt::format("(double){}", code.in[i].name);
}

// A number that an expression names. It holds the text, which formatting only
// refers to.
struct Named {
  const char* name;
  std::string text;
  Named(const char* n, double number) : name(n), text(DoubleText(number)) {}
};

// A function of doubles, rounded once.
template <typename... Args>
Text OfDouble(const ElementCode& code, std::string_view format,
              const Args&... named) {
  if (!IsFloat(code.in[0].dtype)) {
    return Refuse(fmt::format("input 0: is {}, expected a float",
                              ToString(code.in[0].dtype)));
  }
  return fmt::format(
      "({})({})", CTypeOf(code.out),
      fmt::format(fmt::runtime(format), fmt::arg("x", AsDouble(code)),
                  fmt::arg(named.name, named.text)...));
}

Text ReluOf(const ElementCode& code) {
  const Scalar& x = code.in[0];
  if (IsUnsigned(x.dtype)) return x.name;
  return fmt::format("{0} < 0 ? 0 : {0}", x.name);
}

Text AbsOf(const ElementCode& code) {
  const Scalar& x = code.in[0];
  if (IsFloat(x.dtype)) return fmt::format("({})fabs({})", x.type(), x.name);
  if (IsUnsigned(x.dtype)) return x.name;
  return fmt::format("({0})({1} < 0 ? 0 - ({2}){1} : ({2}){1})", x.type(),
                     x.name, WrappingTypeOf(x.dtype));
}

Text NegOf(const ElementCode& code) {
  const Scalar& x = code.in[0];
  if (IsFloat(x.dtype)) return fmt::format("-{}", x.name);
  return fmt::format("({})(0 - ({}){})", x.type(), WrappingTypeOf(x.dtype),
                     x.name);
}

Text SignOf(const ElementCode& code) {
  const Scalar& x = code.in[0];
  if (IsUnsigned(x.dtype)) return fmt::format("{} > 0", x.name);
  return fmt::format("{0} > 0 ? 1 : {0} < 0 ? -1 : {0}", x.name);
}

Text LeakyReluOf(const ElementCode& code) {
  return OfDouble(code, "{x} < 0 ? {alpha} * {x} : {x}",
                  Named("alpha", code.As<ops::LeakyRelu>()->alpha));
}
Text ThresholdedReluOf(const ElementCode& code) {
  return OfDouble(code, "{x} > {alpha} ? {x} : 0.0",
                  Named("alpha", code.As<ops::ThresholdedRelu>()->alpha));
}
Text EluOf(const ElementCode& code) {
  return OfDouble(code, "{x} < 0 ? {alpha} * expm1({x}) : {x}",
                  Named("alpha", code.As<ops::Elu>()->alpha));
}
Text SeluOf(const ElementCode& code) {
  const auto& op = *code.As<ops::Selu>();
  return OfDouble(code, "{gamma} * ({x} <= 0 ? {alpha} * expm1({x}) : {x})",
                  Named("alpha", op.alpha), Named("gamma", op.gamma));
}
Text CeluOf(const ElementCode& code) {
  const double alpha = code.As<ops::Celu>()->alpha;
  if (!(alpha > 0)) return Refuse("attribute alpha: is not above 0");
  return OfDouble(code, "{x} <= 0 ? {alpha} * expm1({x} / {alpha}) : {x}",
                  Named("alpha", alpha));
}
Text HardSigmoidOf(const ElementCode& code) {
  const auto& op = *code.As<ops::HardSigmoid>();
  return OfDouble(code, "nw_clamp({alpha} * {x} + {beta}, 0.0, 1.0)",
                  Named("alpha", op.alpha), Named("beta", op.beta));
}
Text GeluOf(const ElementCode& code) {
  const bool is_tanh =
      code.As<ops::Gelu>()->approximate == ops::GeluFormula::kTanh;
  return OfDouble(code, is_tanh ? "nw_gelu_tanh({x})" : "nw_gelu({x})");
}
Text SwishOf(const ElementCode& code) {
  return OfDouble(code, "nw_swish({x}, {alpha})",
                  Named("alpha", code.As<ops::Swish>()->alpha));
}
Text ShrinkOf(const ElementCode& code) {
  const auto& op = *code.As<ops::Shrink>();
  return OfDouble(code,
                  "{x} < -{lambd} ? {x} + {bias} : {x} > {lambd} ? {x} - "
                  "{bias} : 0.0",
                  Named("lambd", op.lambd), Named("bias", op.bias));
}

Text NotOf(const ElementCode& code) {
  return fmt::format("!{}", code.in[0].name);
}
Text BitwiseNotOf(const ElementCode& code) {
  return fmt::format("({})~{}", code.in[0].type(), code.in[0].name);
}
Text IsNaNOf(const ElementCode& code) {
  return fmt::format("{0} != {0}", code.in[0].name);
}
Text IsInfOf(const ElementCode& code) {
  const auto& op = *code.As<ops::IsInf>();
  const std::string& x = code.in[0].name;
  if (op.detect_negative && op.detect_positive) {
    return fmt::format("isinf({}) != 0", x);
  }
  if (!op.detect_negative && !op.detect_positive) return std::string("0");
  return fmt::format("isinf({0}) && {0} {1} 0", x,
                     op.detect_positive ? ">" : "<");
}

Text CastOf(const ElementCode& code) {
  // A double is rounded to 16 bits at once, and not first to a float.
  if (!ShortFloatName(code.stored).empty()) return code.in[0].name;
  return CastText(code.in[0].name, code.in[0].dtype, code.out);
}

// min may be above max. Limits that are not given are the ends of the type,
// which show where an element is infinite.
Text ClipOf(const ElementCode& code) {
  std::string x = code.in[0].name;
  const double largest = LargestOf(code.stored);
  const auto limit = [&](size_t i, double end) {
    if (code.has(i)) return code.in[i].name;
    return IsFloat(code.out) ? DoubleText(end) : std::string();
  };
  const std::string low = limit(1, -largest);
  const std::string high = limit(2, largest);
  if (!low.empty()) x = fmt::format("({0} < {1} ? {1} : {0})", x, low);
  if (!high.empty()) x = fmt::format("{0} > {1} ? {1} : {0}", x, high);
  return x;
}

constexpr Row kUnaryRows[] = {
    ElementRow<ops::Relu>("Relu", &ReluOf),
    ElementRow<ops::Abs>("Abs", &AbsOf),
    ElementRow<ops::Neg>("Neg", &NegOf),
    ElementRow<ops::Sign>("Sign", &SignOf),
    FormulaRow<ops::Erf>("Erf", "erf({x})"),
    FormulaRow<ops::Sqrt>("Sqrt", "sqrt({x})"),
    FormulaRow<ops::Reciprocal>("Reciprocal", "(1 / {x})"),
    FormulaRow<ops::Exp>("Exp", "exp({x})"),
    FormulaRow<ops::Log>("Log", "log({x})"),
    FormulaRow<ops::Floor>("Floor", "floor({x})"),
    FormulaRow<ops::Ceil>("Ceil", "ceil({x})"),
    FormulaRow<ops::Round>("Round", "nearbyint({x})"),
    FormulaRow<ops::Sin>("Sin", "sin({x})"),
    FormulaRow<ops::Cos>("Cos", "cos({x})"),
    FormulaRow<ops::Tan>("Tan", "tan({x})"),
    FormulaRow<ops::Asin>("Asin", "asin({x})"),
    FormulaRow<ops::Acos>("Acos", "acos({x})"),
    FormulaRow<ops::Atan>("Atan", "atan({x})"),
    FormulaRow<ops::Sinh>("Sinh", "sinh({x})"),
    FormulaRow<ops::Cosh>("Cosh", "cosh({x})"),
    FormulaRow<ops::Tanh>("Tanh", "tanh({x})"),
    FormulaRow<ops::Asinh>("Asinh", "asinh({x})"),
    FormulaRow<ops::Acosh>("Acosh", "acosh({x})"),
    FormulaRow<ops::Atanh>("Atanh", "atanh({x})"),
    ElementRow<ops::LeakyRelu>("LeakyRelu", &LeakyReluOf),
    ElementRow<ops::ThresholdedRelu>("ThresholdedRelu", &ThresholdedReluOf),
    ElementRow<ops::Elu>("Elu", &EluOf),
    ElementRow<ops::Selu>("Selu", &SeluOf),
    ElementRow<ops::Celu>("Celu", &CeluOf),
    FormulaRow<ops::Sigmoid>("Sigmoid", "nw_sigmoid({x})"),
    ElementRow<ops::HardSigmoid>("HardSigmoid", &HardSigmoidOf),
    FormulaRow<ops::HardSwish>("HardSwish", "nw_hard_swish({x})"),
    ElementRow<ops::Gelu>("Gelu", &GeluOf),
    ElementRow<ops::Swish>("Swish", &SwishOf),
    FormulaRow<ops::Softplus>("Softplus", "nw_softplus({x})"),
    FormulaRow<ops::Mish>("Mish", "nw_mish({x})"),
    FormulaRow<ops::Softsign>("Softsign", "nw_softsign({x})"),
    ElementRow<ops::Shrink>("Shrink", &ShrinkOf),
    ElementRow<ops::Not>("Not", &NotOf),
    ElementRow<ops::BitwiseNot>("BitwiseNot", &BitwiseNotOf),
    ElementRow<ops::IsNaN>("IsNaN", &IsNaNOf),
    ElementRow<ops::IsInf>("IsInf", &IsInfOf),
    ElementRow<ops::Cast>("Cast", &CastOf),
    ElementRow<ops::CastLike>("CastLike", &CastOf),
    ElementRow<ops::Clip>("Clip", &ClipOf),
};

}  // namespace

absl::Span<const Row> UnaryRows() { return kUnaryRows; }

}  // namespace nodewise::emit_c
