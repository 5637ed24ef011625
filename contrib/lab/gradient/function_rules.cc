#include <cmath>
#include <numbers>

#include "contrib/lab/gradient/rules.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/cast.h"
#include "nodewise/ops/dropout.h"
#include "nodewise/ops/unary.h"

// Functions of one number.

namespace nodewise::gradient {
namespace {

using Terms = std::vector<Term>;

// What is taken of `a` above 0, and of `b` elsewhere.
Term AboveZero(Term x, Term a, Term b) { return Choose(Greater(x, 0), a, b); }

Terms DefineGelu(Rule& r) {
  const Term x = r.x();
  if (r.As<ops::Gelu>().approximate == ops::GeluFormula::kErf) {
    const Term erf = Apply(ops::Erf{}, x * std::numbers::sqrt2 * 0.5);
    return {x * 0.5 * (erf + 1)};
  }
  const Term inner =
      (x + Power(x, 3) * 0.044715) * std::sqrt(2 / std::numbers::pi);
  return {x * 0.5 * (Apply(ops::Tanh{}, inner) + 1)};
}

Terms DefineHardSwish(Rule& r) {
  const Term x = r.x();
  Writer& w = r.writer();
  const Term line = x / 6.0 + 0.5;
  const Term above = w.Add(ops::Max{}, {line, w.Number(0, x.dtype())});
  return {x * w.Add(ops::Min{}, {above, w.Number(1, x.dtype())})};
}

Terms DefineSwiGlu(Rule& r) {
  const Term a = r.x();
  return {a * Sigmoid(a * double{r.As<ops::SwiGLU>().alpha}) * r.x(1)};
}

void HardSigmoidRule(Rule& r) {
  const auto& op = r.As<ops::HardSigmoid>();
  const Term line = r.x() * double{op.alpha} + double{op.beta};
  const Term is_inside = Both(Greater(line, 0), Less(line, 1));
  r.Give(0, Choose(is_inside, r.dy() * double{op.alpha}, 0.0));
}

void EluRule(Rule& r) {
  const double alpha = r.As<ops::Elu>().alpha;
  r.Give(0, AboveZero(r.x(), r.dy(), r.dy() * Exp(r.x()) * alpha));
}

void SeluRule(Rule& r) {
  const auto& op = r.As<ops::Selu>();
  const Term below = r.dy() * Exp(r.x()) * (double{op.alpha} * op.gamma);
  r.Give(0, AboveZero(r.x(), r.dy() * double{op.gamma}, below));
}

void ShrinkRule(Rule& r) {
  const Term is_outside = Greater(Abs(r.x()), r.As<ops::Shrink>().lambd);
  r.Give(0, Choose(is_outside, r.dy(), 0.0));
}

// Trained, the mask is another one in each run.
void DropoutRule(Rule& r) {
  if (r.has(2)) return r.Refuse("where a mode of training is given");
  r.Give(0, r.dy());
}

// Reading bits as another type is not a function with a derivative.
void BitCastRule(Rule& r) {
  if (!(r.x().dtype() == r.dy().dtype())) {
    return r.Refuse("where bits of one float are read as another one");
  }
  r.Give(0, r.dy());
}

constexpr Row kFunctionRows[] = {
    RuleOf<ops::Abs>([](Rule& r) { r.Give(0, r.dy() * Sign(r.x())); }),
    RuleOf<ops::Acos>(
        [](Rule& r) { r.Give(0, -(r.dy() / Sqrt(1 - Square(r.x())))); }),
    RuleOf<ops::Acosh>(
        [](Rule& r) { r.Give(0, r.dy() / Sqrt(Square(r.x()) - 1)); }),
    RuleOf<ops::Asin>(
        [](Rule& r) { r.Give(0, r.dy() / Sqrt(1 - Square(r.x()))); }),
    RuleOf<ops::Asinh>(
        [](Rule& r) { r.Give(0, r.dy() / Sqrt(Square(r.x()) + 1)); }),
    RuleOf<ops::Atan>([](Rule& r) { r.Give(0, r.dy() / (Square(r.x()) + 1)); }),
    RuleOf<ops::Atanh>(
        [](Rule& r) { r.Give(0, r.dy() / (1 - Square(r.x()))); }),
    RuleOf<ops::BitCast>(&BitCastRule),
    RuleOf<ops::Cast>([](Rule& r) { r.Give(0, r.dy()); }),
    RuleOf<ops::CastLike>([](Rule& r) { r.Give(0, r.dy()); }),
    RuleOf<ops::Celu>([](Rule& r) {
      const Term below = Exp(r.x() / double{r.As<ops::Celu>().alpha});
      r.Give(0, AboveZero(r.x(), r.dy(), r.dy() * below));
    }),
    RuleOf<ops::Cos>(
        [](Rule& r) { r.Give(0, -(r.dy() * Apply(ops::Sin{}, r.x()))); }),
    RuleOf<ops::Cosh>(
        [](Rule& r) { r.Give(0, r.dy() * Apply(ops::Sinh{}, r.x())); }),
    RuleOf<ops::Dropout>(&DropoutRule),
    RuleOf<ops::Elu>(&EluRule),
    RuleOf<ops::Erf>([](Rule& r) {
      const double scale = 2 / std::sqrt(std::numbers::pi);
      r.Give(0, r.dy() * Exp(-Square(r.x())) * scale);
    }),
    RuleOf<ops::Exp>([](Rule& r) { r.Give(0, r.dy() * r.y()); }),
    DefinitionOf<ops::Gelu>(&DefineGelu),
    RuleOf<ops::HardSigmoid>(&HardSigmoidRule),
    DefinitionOf<ops::HardSwish>(&DefineHardSwish),
    RuleOf<ops::LeakyRelu>([](Rule& r) {
      const double alpha = r.As<ops::LeakyRelu>().alpha;
      r.Give(0, AboveZero(r.x(), r.dy(), r.dy() * alpha));
    }),
    RuleOf<ops::Log>([](Rule& r) { r.Give(0, r.dy() / r.x()); }),
    DefinitionOf<ops::Mish>([](Rule& r) -> Terms {
      const Term softplus = Apply(ops::Softplus{}, r.x());
      return {r.x() * Apply(ops::Tanh{}, softplus)};
    }),
    RuleOf<ops::Neg>([](Rule& r) { r.Give(0, -r.dy()); }),
    RuleOf<ops::Reciprocal>(
        [](Rule& r) { r.Give(0, -(r.dy() * Square(r.y()))); }),
    RuleOf<ops::Relu>(
        [](Rule& r) { r.Give(0, Choose(Greater(r.x(), 0), r.dy(), 0.0)); }),
    RuleOf<ops::Selu>(&SeluRule),
    RuleOf<ops::Shrink>(&ShrinkRule),
    RuleOf<ops::Sigmoid>(
        [](Rule& r) { r.Give(0, r.dy() * r.y() * (1 - r.y())); }),
    RuleOf<ops::Sin>(
        [](Rule& r) { r.Give(0, r.dy() * Apply(ops::Cos{}, r.x())); }),
    RuleOf<ops::Sinh>(
        [](Rule& r) { r.Give(0, r.dy() * Apply(ops::Cosh{}, r.x())); }),
    RuleOf<ops::Softplus>([](Rule& r) { r.Give(0, r.dy() * Sigmoid(r.x())); }),
    RuleOf<ops::Softsign>(
        [](Rule& r) { r.Give(0, r.dy() / Square(Abs(r.x()) + 1)); }),
    RuleOf<ops::Sqrt>([](Rule& r) { r.Give(0, r.dy() * 0.5 / r.y()); }),
    DefinitionOf<ops::SwiGLU>(&DefineSwiGlu),
    DefinitionOf<ops::Swish>([](Rule& r) -> Terms {
      return {r.x() * Sigmoid(r.x() * double{r.As<ops::Swish>().alpha})};
    }),
    RuleOf<ops::Tan>([](Rule& r) { r.Give(0, r.dy() * (Square(r.y()) + 1)); }),
    RuleOf<ops::Tanh>([](Rule& r) { r.Give(0, r.dy() * (1 - Square(r.y()))); }),
    RuleOf<ops::ThresholdedRelu>([](Rule& r) {
      const double alpha = r.As<ops::ThresholdedRelu>().alpha;
      r.Give(0, Choose(Greater(r.x(), alpha), r.dy(), 0.0));
    }),
    ZeroOf<ops::Ceil>(),
    ZeroOf<ops::Floor>(),
    ZeroOf<ops::Round>(),
    ZeroOf<ops::Sign>(),
};

}  // namespace

absl::Span<const Row> FunctionRows() { return kFunctionRows; }

}  // namespace nodewise::gradient
