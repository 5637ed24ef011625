#include <cmath>
#include <numbers>

#include "contrib/lab/gradient/rules.h"
#include "nodewise/ops/dropout.h"
#include "nodewise/ops/quantize.h"

// Operators that calculate each element by itself: functions of one number,
// calculations with several, and choices between them.

namespace nodewise::gradient {
namespace {

Term AboveZero(Term x, Term a, Term b) { return Choose(Greater(x, 0), a, b); }

// Where the condition fails the result is constant, and passes nothing on.
Term GradientWhere(Term condition, Term dy) {
  return Choose(condition, dy, 0.0);
}

// The coefficients of the second formula are ONNX's.
Terms DefineGelu(Rule& r) {
  const Term x = r.x();
  if (r.As<ops::Gelu>().approximate == ops::GeluFormula::kErf) {
    const Term erf = Apply(ops::Erf{}, x * std::numbers::sqrt2 * 0.5);
    return {x * 0.5 * (erf + 1)};
  }
  const Term inner =
      (x + Power(x, 3) * 0.044715) * std::sqrt(2 / std::numbers::pi);
  return {x * 0.5 * (Tanh(inner) + 1)};
}

Term HardSigmoidFormula(Point p, const ops::HardSigmoid& op) {
  const Term line = p.x * double{op.alpha} + double{op.beta};
  const Term is_inside = Both(Greater(line, 0), Less(line, 1));
  return GradientWhere(is_inside, p.dy * double{op.alpha});
}

Term SeluFormula(Point p, const ops::Selu& op) {
  const Term below = p.dy * Exp(p.x) * (double{op.alpha} * op.gamma);
  return AboveZero(p.x, p.dy * double{op.gamma}, below);
}

// In training the mask is another one in each run.
void DropoutRule(Rule& r) {
  if (r.has(2)) return r.Refuse("where a mode of training is given");
  r.SetGradient(0, r.dy());
}

// Reading bits as another type is not a function with a derivative.
void BitCastRule(Rule& r) {
  if (!(r.x().dtype() == r.dy().dtype())) {
    return r.Refuse("where bits of one float are read as another one");
  }
  r.SetGradient(0, r.dy());
}

// The exponent may be of another type than the base, also an integer. x^(y - 1)
// is written anew, and not as the result over x, which is NaN at 0.
void PowRule(Rule& r) {
  const Term x = r.x();
  const Term y = CastTo(r.x(1), x.dtype());
  r.SetGradient(0, r.dy() * y * Apply(ops::Pow{}, x, y - 1));
  r.SetGradient(1, r.dy() * r.y() * Apply(ops::Log{}, x));
}

// In Add, Sum and Mean all inputs have an equal share in the result.
void ShareEvenly(Rule& r, double share) {
  for (size_t i = 0; i < r.num_inputs(); ++i) r.SetGradient(i, r.dy() * share);
}

// The first input that is the extreme one gets all. Inputs are compared with
// each other and not with the result, which a runtime may have rounded.
template <typename Class, typename Beats>
void FoldedExtremeRule(Rule& r) {
  Terms wins = {Term()};
  Term best = r.x();
  for (size_t i = 1; i < r.num_inputs(); ++i) {
    wins.push_back(Apply(Beats{}, r.x(i), best));
    best = Apply(Class{}, best, r.x(i));
  }
  // From the last input on, since a later one that wins takes it from all
  // before it.
  Term left = r.dy();
  for (size_t i = r.num_inputs() - 1; i > 0; --i) {
    r.SetGradient(i, Choose(wins[i], left, 0.0));
    left = Choose(wins[i], 0.0, left);
  }
  r.SetGradient(0, left);
}

// Limits that were attributes are float32, also where the input has 16 bits.
Terms DefineClip(Rule& r) {
  Term y = r.x();
  const auto limit = [&](size_t i) { return CastTo(r.x(i), y.dtype()); };
  if (r.has(1)) y = AtLeast(y, limit(1));
  if (r.has(2)) y = AtMost(y, limit(2));
  return {y};
}

void PReluRule(Rule& r) {
  const Term is_below = Less(r.x(), 0);
  r.SetGradient(0, Choose(is_below, r.dy() * r.x(1), r.dy()));
  r.SetGradient(1, GradientWhere(is_below, r.dy() * r.x()));
}

// A scale or a zero point for each element of the data, or numbers that
// broadcast with it. They come in three ways: one for all, one for each index
// of the axis, or one for each block of `block_size` along it. The last block
// may be cut short.
Term SpreadOver(Term numbers, const ops::DequantizeLinear& op,
                const Sizes& data) {
  const Sizes sizes = numbers.sizes();
  if (Product(sizes) == 1 && sizes.size() <= 1) return ReshapeTo(numbers, {});
  const auto rank = static_cast<int64_t>(data.size());
  const int64_t axis = rank == 1 ? 0 : FromFront(op.axis, rank);
  const auto at = static_cast<size_t>(axis);
  if (sizes.size() == 1) {
    return ReshapeTo(numbers, LineAlong(data.size(), axis, sizes[0]));
  }
  Sizes repeated = sizes;
  repeated.insert(repeated.begin() + axis + 1, 1);
  const Term blocks = ReshapeTo(numbers, repeated);
  repeated[at + 1] = op.block_size;
  Sizes whole = sizes;
  whole[at] *= op.block_size;
  return Part(ReshapeTo(ExpandTo(blocks, repeated), whole), axis, 0, data[at]);
}

Terms DefineDequantize(Rule& r, const ops::DequantizeLinear& op) {
  const Sizes data = r.x().sizes();
  // Codes may have more digits than short floats.
  const DLDataType dtype = r.y().dtype() == kFloat64 ? kFloat64 : kFloat32;
  Term codes = CastTo(r.x(), dtype);
  if (r.has(2)) codes = codes - SpreadOver(CastTo(r.x(2), dtype), op, data);
  return {codes * SpreadOver(CastTo(r.x(1), dtype), op, data)};
}

// A derivative is written by the result where that is shorter: exp, sqrt, tan,
// tanh and the sigmoid need nothing else then.
constexpr Row kElementwiseRows[] = {
    FormulaOf<ops::Abs>([](Point p) { return p.dy * Sign(p.x); }),
    FormulaOf<ops::Acos>(
        [](Point p) { return -(p.dy / Sqrt(1 - Square(p.x))); }),
    FormulaOf<ops::Acosh>([](Point p) { return p.dy / Sqrt(Square(p.x) - 1); }),
    RuleOf<ops::Add>([](Rule& r) { ShareEvenly(r, 1); }),
    FormulaOf<ops::Asin>([](Point p) { return p.dy / Sqrt(1 - Square(p.x)); }),
    FormulaOf<ops::Asinh>([](Point p) { return p.dy / Sqrt(Square(p.x) + 1); }),
    FormulaOf<ops::Atan>([](Point p) { return p.dy / (Square(p.x) + 1); }),
    FormulaOf<ops::Atanh>([](Point p) { return p.dy / (1 - Square(p.x)); }),
    RuleOf<ops::BitCast>(&BitCastRule),
    FormulaOf<ops::Cast>([](Point p) { return p.dy; }),
    FormulaOf<ops::CastLike>([](Point p) { return p.dy; }),
    ZeroOf<ops::Ceil>(),
    FormulaOf<ops::Celu>([](Point p) {
      const Term below = Exp(p.x / double{p.r.As<ops::Celu>().alpha});
      return AboveZero(p.x, p.dy, p.dy * below);
    }),
    DefinitionOf<ops::Clip>(&DefineClip),
    FormulaOf<ops::Cos>(
        [](Point p) { return -(p.dy * Apply(ops::Sin{}, p.x)); }),
    FormulaOf<ops::Cosh>(
        [](Point p) { return p.dy * Apply(ops::Sinh{}, p.x); }),
    DefinitionOf<ops::DequantizeLinear, &DefineDequantize>(),
    RuleOf<ops::Div>([](Rule& r) {
      r.SetGradient(0, r.dy() / r.x(1));
      r.SetGradient(1, -(r.dy() * r.y() / r.x(1)));
    }),
    RuleOf<ops::Dropout>(&DropoutRule),
    FormulaOf<ops::Elu>([](Point p) {
      const double alpha = p.r.As<ops::Elu>().alpha;
      return AboveZero(p.x, p.dy, p.dy * Exp(p.x) * alpha);
    }),
    FormulaOf<ops::Erf>([](Point p) {
      const double scale = 2 / std::sqrt(std::numbers::pi);
      return p.dy * Exp(-Square(p.x)) * scale;
    }),
    FormulaOf<ops::Exp>([](Point p) { return p.dy * p.y; }),
    ZeroOf<ops::Floor>(),
    DefinitionOf<ops::Gelu>(&DefineGelu),
    FormulaOf<ops::HardSigmoid, &HardSigmoidFormula>(),
    DefinitionOf<ops::HardSwish>([](Rule& r) -> Terms {
      return {r.x() * AtMost(AtLeast(r.x() / 6.0 + 0.5, 0), 1)};
    }),
    FormulaOf<ops::LeakyRelu>([](Point p) {
      const double alpha = p.r.As<ops::LeakyRelu>().alpha;
      return AboveZero(p.x, p.dy, p.dy * alpha);
    }),
    FormulaOf<ops::Log>([](Point p) { return p.dy / p.x; }),
    RuleOf<ops::Max>(&FoldedExtremeRule<ops::Max, ops::Greater>),
    RuleOf<ops::Mean>([](Rule& r) {
      ShareEvenly(r, 1.0 / static_cast<double>(r.num_inputs()));
    }),
    RuleOf<ops::Min>(&FoldedExtremeRule<ops::Min, ops::Less>),
    DefinitionOf<ops::Mish>([](Rule& r) -> Terms {
      return {r.x() * Tanh(Apply(ops::Softplus{}, r.x()))};
    }),
    RuleOf<ops::Mod>([](Rule& r) {
      r.SetGradient(0, r.dy());
      r.SetGradient(1, -(r.dy() * ((r.x() - r.y()) / r.x(1))));
    }),
    RuleOf<ops::Mul>([](Rule& r) {
      r.SetGradient(0, r.dy() * r.x(1));
      r.SetGradient(1, r.dy() * r.x());
    }),
    FormulaOf<ops::Neg>([](Point p) { return -p.dy; }),
    RuleOf<ops::PRelu>(&PReluRule),
    RuleOf<ops::Pow>(&PowRule),
    FormulaOf<ops::Reciprocal>([](Point p) { return -(p.dy * Square(p.y)); }),
    FormulaOf<ops::Relu>(
        [](Point p) { return GradientWhere(Greater(p.x, 0), p.dy); }),
    ZeroOf<ops::Round>(),
    FormulaOf<ops::Selu, &SeluFormula>(),
    FormulaOf<ops::Shrink>([](Point p) {
      const double limit = p.r.As<ops::Shrink>().lambd;
      return GradientWhere(Greater(Abs(p.x), limit), p.dy);
    }),
    FormulaOf<ops::Sigmoid>([](Point p) { return p.dy * p.y * (1 - p.y); }),
    ZeroOf<ops::Sign>(),
    FormulaOf<ops::Sin>([](Point p) { return p.dy * Apply(ops::Cos{}, p.x); }),
    FormulaOf<ops::Sinh>(
        [](Point p) { return p.dy * Apply(ops::Cosh{}, p.x); }),
    FormulaOf<ops::Softplus>([](Point p) { return p.dy * Sigmoid(p.x); }),
    FormulaOf<ops::Softsign>(
        [](Point p) { return p.dy / Square(Abs(p.x) + 1); }),
    FormulaOf<ops::Sqrt>([](Point p) { return p.dy * 0.5 / p.y; }),
    RuleOf<ops::Sub>([](Rule& r) {
      r.SetGradient(0, r.dy());
      r.SetGradient(1, -r.dy());
    }),
    RuleOf<ops::Sum>([](Rule& r) { ShareEvenly(r, 1); }),
    DefinitionOf<ops::SwiGLU>([](Rule& r) -> Terms {
      const double alpha = r.As<ops::SwiGLU>().alpha;
      return {r.x() * Sigmoid(r.x() * alpha) * r.x(1)};
    }),
    DefinitionOf<ops::Swish>([](Rule& r) -> Terms {
      return {r.x() * Sigmoid(r.x() * double{r.As<ops::Swish>().alpha})};
    }),
    FormulaOf<ops::Tan>([](Point p) { return p.dy * (Square(p.y) + 1); }),
    FormulaOf<ops::Tanh>([](Point p) { return p.dy * (1 - Square(p.y)); }),
    FormulaOf<ops::ThresholdedRelu>([](Point p) {
      const double alpha = p.r.As<ops::ThresholdedRelu>().alpha;
      return GradientWhere(Greater(p.x, alpha), p.dy);
    }),
    RuleOf<ops::Where>([](Rule& r) {
      r.SetGradient(1, GradientWhere(r.x(), r.dy()));
      r.SetGradient(2, Choose(r.x(), 0.0, r.dy()));
    }),
};

}  // namespace

absl::Span<const Row> ElementwiseRows() { return kElementwiseRows; }

}  // namespace nodewise::gradient
