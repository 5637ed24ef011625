// Operators that compute each element of their output by itself, from the
// elements of their inputs at the same place.

#include "contrib/emit_c/operation_code.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/cast.h"
#include "nodewise/ops/logic.h"
#include "nodewise/ops/unary.h"

namespace nodewise::emit_c {
namespace {

using Text = absl::StatusOr<std::string>;

// A function of doubles, rounded once: the reference computes it so, and C's
// functions of floats would give other bits.
Text FormulaText(const ElementCode& code, std::string_view formula,
                 const Row::Numbers& attributes) {
  if (!IsFloat(code.in[0].dtype)) {
    return Refuse("input 0: is {}, expected a float",
                  ToString(code.in[0].dtype));
  }
  return fmt::format(
      "({}){}", CTypeOf(code.out),
      fmt::format(fmt::runtime(formula), DoubleText(attributes[0]),
                  DoubleText(attributes[1]),
                  fmt::arg("x", "(double)" + code.in[0].name)));
}

// The formula divides by alpha.
Text CeluText(const ElementCode& code) {
  const double alpha = code.As<ops::Celu>()->alpha;
  if (!(alpha > 0)) return Refuse("attribute alpha: is not above 0");
  return FormulaText(code, "({x} <= 0 ? {0} * expm1({x} / {0}) : {x})",
                     {alpha});
}

// The formulas are functions of C, which keep the infinities from becoming NaN.
Text GeluText(const ElementCode& code) {
  const bool is_tanh =
      code.As<ops::Gelu>()->approximate == ops::GeluFormula::kTanh;
  return FormulaText(code, is_tanh ? "(nw_gelu_tanh({x}))" : "(nw_gelu({x}))",
                     {});
}

// isinf() may give any number but 0 for an infinity, so it is compared.
Text IsInfText(const ElementCode& code) {
  const auto& op = *code.As<ops::IsInf>();
  const std::string& x = code.in[0].name;
  if (op.detect_negative && op.detect_positive) {
    return fmt::format("isinf({}) != 0", x);
  }
  if (!op.detect_negative && !op.detect_positive) return std::string("0");
  return fmt::format("isinf({0}) && {0} {1} 0", x,
                     op.detect_positive ? ">" : "<");
}

Text CastedText(const ElementCode& code) {
  // A double is rounded to 16 bits at once, and not first to a float.
  if (!ShortFloatName(code.stored).empty()) return code.in[0].name;
  return CastText(code.in[0].name, code.in[0].dtype, code.out);
}

// min may be above max. Limits that are not given are the ends of the type,
// which show where an element is infinite.
Text ClipText(const ElementCode& code) {
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

// Unsigned integers have no sign to choose, so both kinds of remainder are the
// same. Those with a sign need a function, since C leaves open what a remainder
// by 0 is, and that of the smallest number by -1.
Text ModText(const ElementCode& code) {
  const Scalar& a = code.in[0];
  const bool like_c = code.As<ops::Mod>()->fmod;
  if (IsUnsigned(a.dtype)) {
    return fmt::format("({0})({2} == 0 ? 0 : {1} % {2})", a.type(), a.name,
                       code.in[1].name);
  }
  const std::string_view function =
      IsFloat(a.dtype) ? (like_c ? "fmod" : "nw_float_modulo")
                       : (like_c ? "nw_remainder" : "nw_modulo");
  return fmt::format("({}){}({}, {})", a.type(), function, a.name,
                     code.in[1].name);
}

// Integers are multiplied as often as the exponent says, without a sign so that
// they wrap around. An exponent of uint64 may not fit into int64_t, which the
// helper takes.
Text PowText(const ElementCode& code) {
  const Scalar& a = code.in[0];
  const Scalar& b = code.in[1];
  if (!IsFloat(a.dtype) && IsFloat(b.dtype)) {
    return Refuse("raises integers to the power of floats");
  }
  if (IsFloat(a.dtype)) {
    return fmt::format("({})pow({}, (double){})", a.type(), a.name, b.name);
  }
  if (b.dtype == kUint64) return Refuse("has exponents of type uint64");
  return fmt::format("({})nw_integer_power((int64_t){}, (int64_t){})", a.type(),
                     a.name, b.name);
}

// C leaves open what a shift by as many bits as a number has gives.
Text BitShiftText(const ElementCode& code) {
  const Scalar& x = code.in[0];
  const bool is_left =
      code.As<ops::BitShift>()->direction == ops::ShiftDirection::kLeft;
  if (IsUnsigned(x.dtype) || is_left) {
    return fmt::format(
        "({0})((uint64_t){1} >= {2} ? 0 : (uint64_t){3} {4} {1})", x.type(),
        code.in[1].name, x.dtype.bits, x.name, is_left ? "<<" : ">>");
  }
  return fmt::format("({0})nw_shift_right({1}, {2}, {3})", x.type(), x.name,
                     code.in[1].name, x.dtype.bits);
}

Text SwiGluText(const ElementCode& code) {
  return fmt::format("({})(nw_swish({}, {}) * {})", code.in[0].type(),
                     code.in[0].name, DoubleText(code.As<ops::SwiGLU>()->alpha),
                     code.in[1].name);
}

// Sums of floats are rounded once.
std::string TermsText(const ElementCode& code) {
  std::vector<std::string> terms;
  for (const Scalar& x : code.in) {
    terms.push_back(fmt::format(
        "({}){}", IsFloat(code.out) ? "double" : WrappingTypeOf(x.dtype),
        x.name));
  }
  return SumOf(terms);
}
Text SumText(const ElementCode& code) {
  return fmt::format("({})({})", CTypeOf(code.out), TermsText(code));
}
Text MeanText(const ElementCode& code) {
  if (!IsFloat(code.out)) return Refuse("is of integers");
  return fmt::format("({})(({}) / {})", CTypeOf(code.out), TermsText(code),
                     code.in.size());
}

// NaN wins: `a` of "a SIGN b" is taken if it is one, and `b` if it is none. Two
// integers need no function; more are compared as int64_t, which does not hold
// all of uint64.
template <bool kIsLargest>
Text ExtremeText(const ElementCode& code) {
  std::string best = code.in[0].name;
  const bool is_float = IsFloat(code.out);
  if (code.in.size() == 1) return best;
  if (!is_float && code.in.size() == 2) {
    return fmt::format("{0} {2} {1} ? {0} : {1}", best, code.in[1].name,
                       kIsLargest ? ">" : "<");
  }
  if (!is_float && code.out == kUint64) {
    return Refuse("has more than two inputs of type uint64");
  }
  for (size_t i = 1; i < code.in.size(); ++i) {
    best = fmt::format("nw_{}{}({}, {})", is_float ? "" : "integer_",
                       kIsLargest ? "max" : "min", best, code.in[i].name);
  }
  return fmt::format("({}){}", CTypeOf(code.out), best);
}

// Integers wrap around: they are calculated without a sign, since C leaves open
// what an overflow of a signed type gives. It also leaves open what a division
// by 0 is, and what the smallest number divided by -1 is; here they are what
// NumPy gives.
constexpr Row kElementRows[] = {
    TextRow<ops::Relu>("{a} < 0 ? 0 : {a}", "{a} < 0 ? 0 : {a}", "{a}"),
    TextRow<ops::Abs>("({type})fabs({a})",
                      "({type})({a} < 0 ? 0 - ({wrap}){a} : ({wrap}){a})",
                      "{a}"),
    TextRow<ops::Neg>("-{a}", "({type})(0 - ({wrap}){a})"),
    // The last branch gives 0 or NaN as it is.
    TextRow<ops::Sign>("{a} > 0 ? 1 : {a} < 0 ? -1 : {a}",
                       "{a} > 0 ? 1 : {a} < 0 ? -1 : {a}", "{a} > 0"),
    FormulaRow<ops::Erf>("erf({x})"),
    FormulaRow<ops::Sqrt>("sqrt({x})"),
    FormulaRow<ops::Reciprocal>("(1 / {x})"),
    FormulaRow<ops::Exp>("exp({x})"),
    FormulaRow<ops::Log>("log({x})"),
    FormulaRow<ops::Floor>("floor({x})"),
    FormulaRow<ops::Ceil>("ceil({x})"),
    FormulaRow<ops::Round>("nearbyint({x})"),
    FormulaRow<ops::Sin>("sin({x})"),
    FormulaRow<ops::Cos>("cos({x})"),
    FormulaRow<ops::Tan>("tan({x})"),
    FormulaRow<ops::Asin>("asin({x})"),
    FormulaRow<ops::Acos>("acos({x})"),
    FormulaRow<ops::Atan>("atan({x})"),
    FormulaRow<ops::Sinh>("sinh({x})"),
    FormulaRow<ops::Cosh>("cosh({x})"),
    FormulaRow<ops::Tanh>("tanh({x})"),
    FormulaRow<ops::Asinh>("asinh({x})"),
    FormulaRow<ops::Acosh>("acosh({x})"),
    FormulaRow<ops::Atanh>("atanh({x})"),
    FormulaRow<ops::LeakyRelu, &ops::LeakyRelu::alpha>(
        "({x} < 0 ? {0} * {x} : {x})"),
    FormulaRow<ops::ThresholdedRelu, &ops::ThresholdedRelu::alpha>(
        "({x} > {0} ? {x} : 0.0)"),
    FormulaRow<ops::Elu, &ops::Elu::alpha>(
        "({x} < 0 ? {0} * expm1({x}) : {x})"),
    FormulaRow<ops::Selu, &ops::Selu::alpha, &ops::Selu::gamma>(
        "({1} * ({x} <= 0 ? {0} * expm1({x}) : {x}))"),
    ElementRow<ops::Celu>(&CeluText),
    FormulaRow<ops::Sigmoid>("nw_sigmoid({x})"),
    FormulaRow<ops::HardSigmoid, &ops::HardSigmoid::alpha,
               &ops::HardSigmoid::beta>(
        "(nw_clamp({0} * {x} + {1}, 0.0, 1.0))"),
    FormulaRow<ops::HardSwish>("nw_hard_swish({x})"),
    ElementRow<ops::Gelu>(&GeluText),
    FormulaRow<ops::Swish, &ops::Swish::alpha>("(nw_swish({x}, {0}))"),
    FormulaRow<ops::Softplus>("nw_softplus({x})"),
    FormulaRow<ops::Mish>("nw_mish({x})"),
    FormulaRow<ops::Softsign>("nw_softsign({x})"),
    FormulaRow<ops::Shrink, &ops::Shrink::lambd, &ops::Shrink::bias>(
        "({x} < -{0} ? {x} + {1} : {x} > {0} ? {x} - {1} : 0.0)"),
    TextRow<ops::Not>("!{a}"),
    TextRow<ops::BitwiseNot>("({type})~{a}"),
    TextRow<ops::IsNaN>("{a} != {a}"),
    ElementRow<ops::IsInf>(&IsInfText),
    ElementRow<ops::Cast>(&CastedText),
    ElementRow<ops::CastLike>(&CastedText),
    ElementRow<ops::Clip>(&ClipText),
    TextRow<ops::Add, ops::Add1>("{a} + {b}",
                                 "({type})(({wrap}){a} + ({wrap}){b})"),
    TextRow<ops::Sub, ops::Sub1>("{a} - {b}",
                                 "({type})(({wrap}){a} - ({wrap}){b})"),
    TextRow<ops::Mul, ops::Mul1>("{a} * {b}",
                                 "({type})(({wrap}){a} * ({wrap}){b})"),
    TextRow<ops::Div, ops::Div1>(
        "{a} / {b}",
        "({type})({b} == 0 ? 0 : {b} == -1 ? ({type})(0 - ({wrap}){a}) : "
        "({type}){a} / {b})",
        "({type})({b} == 0 ? 0 : ({type}){a} / {b})"),
    ElementRow<ops::Mod>(&ModText),
    ElementRow<ops::Pow, ops::Pow1>(&PowText),
    TextRow<ops::PRelu>(
        "{a} < 0 ? ({type})({a} * {b}) : {a}",
        "{a} < 0 ? ({type})(({type})(({wrap}){a} * ({wrap}){b})) : {a}", "{a}"),
    TextRow<ops::And, ops::And1>("{a} && {b}"),
    TextRow<ops::Or, ops::Or1>("{a} || {b}"),
    TextRow<ops::Xor, ops::Xor1>("!{a} != !{b}"),
    TextRow<ops::Equal, ops::Equal1>("{a} == {b}"),
    TextRow<ops::Greater, ops::Greater1>("{a} > {b}"),
    TextRow<ops::Less, ops::Less1>("{a} < {b}"),
    TextRow<ops::GreaterOrEqual>("{a} >= {b}"),
    TextRow<ops::LessOrEqual>("{a} <= {b}"),
    TextRow<ops::BitwiseAnd>("({type})({a} & {b})"),
    TextRow<ops::BitwiseOr>("({type})({a} | {b})"),
    TextRow<ops::BitwiseXor>("({type})({a} ^ {b})"),
    ElementRow<ops::BitShift>(&BitShiftText),
    ElementRow<ops::SwiGLU>(&SwiGluText),
    TextRow<ops::Where>("{a} ? {b} : {c}"),
    ElementRow<ops::Sum>(&SumText),
    ElementRow<ops::Mean>(&MeanText),
    ElementRow<ops::Max>(&ExtremeText<true>),
    ElementRow<ops::Min>(&ExtremeText<false>),
};

}  // namespace

absl::StatusOr<std::string> ExpressionOf(const Row& row,
                                         const ElementCode& code) {
  if (row.element != nullptr) return row.element(code);
  if (!row.formula.empty()) {
    return FormulaText(code, row.formula, row.attributes(code.operation.attrs));
  }
  const auto name = [&](size_t i) {
    return code.has(i) ? code.in[i].name : std::string();
  };
  const Scalar& a = code.in[0];
  const size_t kind = IsFloat(a.dtype) ? 0 : IsUnsigned(a.dtype) ? 2 : 1;
  return fmt::format(fmt::runtime(row.texts[kind]), fmt::arg("a", a.name),
                     fmt::arg("b", name(1)), fmt::arg("c", name(2)),
                     fmt::arg("type", a.type()),
                     fmt::arg("wrap", WrappingTypeOf(a.dtype)));
}

absl::Span<const Row> ElementRows() { return kElementRows; }

}  // namespace nodewise::emit_c
