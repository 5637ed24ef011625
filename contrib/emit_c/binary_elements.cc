// Functions of two numbers or more.

#include "contrib/emit_c/rows.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/logic.h"
#include "nodewise/ops/unary.h"

namespace nodewise::emit_c {
namespace {

using Text = absl::StatusOr<std::string>;

// Integers wrap around.
std::string Calculated(const ElementCode& code, char sign) {
  const Scalar& a = code.in[0];
  const Scalar& b = code.in[1];
  if (IsFloat(a.dtype)) return fmt::format("{} {} {}", a.name, sign, b.name);
  return fmt::format("({0})(({1}){2} {3} ({1}){4})", a.type(),
                     WrappingTypeOf(a.dtype), a.name, sign, b.name);
}
Text AddOf(const ElementCode& code) { return Calculated(code, '+'); }
Text SubOf(const ElementCode& code) { return Calculated(code, '-'); }
Text MulOf(const ElementCode& code) { return Calculated(code, '*'); }

// What C leaves undefined gives what NumPy gives.
Text DivOf(const ElementCode& code) {
  const Scalar& a = code.in[0];
  const Scalar& b = code.in[1];
  if (IsFloat(a.dtype)) return fmt::format("{} / {}", a.name, b.name);
  const std::string quotient =
      fmt::format("({}){} / {}", a.type(), a.name, b.name);
  if (IsUnsigned(a.dtype)) {
    return fmt::format("({})({} == 0 ? 0 : {})", a.type(), b.name, quotient);
  }
  return fmt::format(
      "({0})({1} == 0 ? 0 : {1} == -1 ? ({0})(0 - ({2}){3}) : {4})", a.type(),
      b.name, WrappingTypeOf(a.dtype), a.name, quotient);
}

Text ModOf(const ElementCode& code) {
  const Scalar& a = code.in[0];
  const Scalar& b = code.in[1];
  const bool like_c = code.As<ops::Mod>()->fmod;
  if (IsFloat(a.dtype)) {
    return fmt::format("({}){}({}, {})", a.type(),
                       like_c ? "fmod" : "nw_float_modulo", a.name, b.name);
  }
  if (IsUnsigned(a.dtype)) {
    return fmt::format("({0})({2} == 0 ? 0 : {1} % {2})", a.type(), a.name,
                       b.name);
  }
  return fmt::format("({})nw_{}({}, {})", a.type(),
                     like_c ? "remainder" : "modulo", a.name, b.name);
}

Text PowOf(const ElementCode& code) {
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

Text PReluOf(const ElementCode& code) {
  const Scalar& x = code.in[0];
  if (IsUnsigned(x.dtype)) return x.name;
  return fmt::format("{0} < 0 ? ({1})({2}) : {0}", x.name, x.type(),
                     Calculated(code, '*'));
}

std::string Joined(const ElementCode& code, std::string_view sign) {
  return fmt::format("{} {} {}", code.in[0].name, sign, code.in[1].name);
}
Text EqualOf(const ElementCode& code) { return Joined(code, "=="); }
Text GreaterOf(const ElementCode& code) { return Joined(code, ">"); }
Text LessOf(const ElementCode& code) { return Joined(code, "<"); }
Text GreaterOrEqualOf(const ElementCode& code) { return Joined(code, ">="); }
Text LessOrEqualOf(const ElementCode& code) { return Joined(code, "<="); }
Text AndOf(const ElementCode& code) { return Joined(code, "&&"); }
Text OrOf(const ElementCode& code) { return Joined(code, "||"); }
Text XorOf(const ElementCode& code) {
  return fmt::format("!{} != !{}", code.in[0].name, code.in[1].name);
}
std::string Bitwise(const ElementCode& code, std::string_view sign) {
  return fmt::format("({})({})", code.in[0].type(), Joined(code, sign));
}
Text BitwiseAndOf(const ElementCode& code) { return Bitwise(code, "&"); }
Text BitwiseOrOf(const ElementCode& code) { return Bitwise(code, "|"); }
Text BitwiseXorOf(const ElementCode& code) { return Bitwise(code, "^"); }

Text BitShiftOf(const ElementCode& code) {
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
Text SwiGLUOf(const ElementCode& code) {
  return fmt::format("({})(nw_swish({}, {}) * {})", code.in[0].type(),
                     code.in[0].name, DoubleText(code.As<ops::SwiGLU>()->alpha),
                     code.in[1].name);
}

Text WhereOf(const ElementCode& code) {
  return fmt::format("{} ? {} : {}", code.in[0].name, code.in[1].name,
                     code.in[2].name);
}

// Sums of floats are rounded once.
std::string SumText(const ElementCode& code) {
  const bool is_float = IsFloat(code.out);
  std::string sum;
  for (const Scalar& x : code.in) {
    sum += fmt::format("{}({}){}", sum.empty() ? "" : " + ",
                       is_float ? "double" : WrappingTypeOf(x.dtype), x.name);
  }
  return sum;
}
Text SumOf(const ElementCode& code) {
  return fmt::format("({})({})", CTypeOf(code.out), SumText(code));
}
Text MeanOf(const ElementCode& code) {
  if (!IsFloat(code.out)) return Refuse("is of integers");
  return fmt::format("({})(({}) / {})", CTypeOf(code.out), SumText(code),
                     code.in.size());
}

// NaN wins: `a` of "a SIGN b" is taken if it is one, and `b` if it is none.
Text Extreme(const ElementCode& code, std::string_view sign,
             std::string_view function) {
  std::string best = code.in[0].name;
  const bool is_float = IsFloat(code.out);
  if (code.in.size() == 1) return best;
  if (is_float || code.in.size() > 2) {
    if (!is_float && code.out == kUint64) {
      return Refuse("has more than two inputs of type uint64");
    }
    for (size_t i = 1; i < code.in.size(); ++i) {
      best = fmt::format("nw_{}{}({}, {})", is_float ? "" : "integer_",
                         function, best, code.in[i].name);
    }
    return fmt::format("({}){}", CTypeOf(code.out), best);
  }
  return fmt::format("{0} {2} {1} ? {0} : {1}", best, code.in[1].name, sign);
}
Text MaxOf(const ElementCode& code) { return Extreme(code, ">", "max"); }
Text MinOf(const ElementCode& code) { return Extreme(code, "<", "min"); }

constexpr Row kBinaryRows[] = {
    ElementRow<ops::Add>("Add", &AddOf),
    OldElementRow<ops::Add1>("Add", &AddOf),
    ElementRow<ops::Sub>("Sub", &SubOf),
    OldElementRow<ops::Sub1>("Sub", &SubOf),
    ElementRow<ops::Mul>("Mul", &MulOf),
    OldElementRow<ops::Mul1>("Mul", &MulOf),
    ElementRow<ops::Div>("Div", &DivOf),
    OldElementRow<ops::Div1>("Div", &DivOf),
    ElementRow<ops::Mod>("Mod", &ModOf),
    ElementRow<ops::Pow>("Pow", &PowOf),
    OldElementRow<ops::Pow1>("Pow", &PowOf),
    ElementRow<ops::PRelu>("PRelu", &PReluOf),
    ElementRow<ops::And>("And", &AndOf),
    OldElementRow<ops::And1>("And", &AndOf),
    ElementRow<ops::Or>("Or", &OrOf),
    OldElementRow<ops::Or1>("Or", &OrOf),
    ElementRow<ops::Xor>("Xor", &XorOf),
    OldElementRow<ops::Xor1>("Xor", &XorOf),
    ElementRow<ops::Equal>("Equal", &EqualOf),
    OldElementRow<ops::Equal1>("Equal", &EqualOf),
    ElementRow<ops::Greater>("Greater", &GreaterOf),
    OldElementRow<ops::Greater1>("Greater", &GreaterOf),
    ElementRow<ops::Less>("Less", &LessOf),
    OldElementRow<ops::Less1>("Less", &LessOf),
    ElementRow<ops::GreaterOrEqual>("GreaterOrEqual", &GreaterOrEqualOf),
    ElementRow<ops::LessOrEqual>("LessOrEqual", &LessOrEqualOf),
    ElementRow<ops::BitwiseAnd>("BitwiseAnd", &BitwiseAndOf),
    ElementRow<ops::BitwiseOr>("BitwiseOr", &BitwiseOrOf),
    ElementRow<ops::BitwiseXor>("BitwiseXor", &BitwiseXorOf),
    ElementRow<ops::BitShift>("BitShift", &BitShiftOf),
    ElementRow<ops::SwiGLU>("SwiGLU", &SwiGLUOf),
    ElementRow<ops::Where>("Where", &WhereOf),
    ElementRow<ops::Sum>("Sum", &SumOf),
    ElementRow<ops::Mean>("Mean", &MeanOf),
    ElementRow<ops::Max>("Max", &MaxOf),
    ElementRow<ops::Min>("Min", &MinOf),
};

}  // namespace

absl::Span<const Row> BinaryRows() { return kBinaryRows; }

}  // namespace nodewise::emit_c
