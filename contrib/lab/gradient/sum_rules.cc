#include <algorithm>
#include <functional>

#include "absl/strings/str_split.h"
#include "contrib/lab/gradient/rules.h"
#include "fmt/format.h"
#include "nodewise/ops/axis.h"
#include "nodewise/ops/einsum.h"
#include "nodewise/ops/layer_norm.h"
#include "nodewise/ops/linear_algebra.h"
#include "nodewise/ops/norm.h"
#include "nodewise/ops/selection.h"
#include "nodewise/ops/softmax.h"

// Operators that make one number from many along some sides: products of
// matrices, reductions, and what is normalized by a reduction.

namespace nodewise::gradient {
namespace {

// A list on the left is a row, one on the right a column, and the result has no
// side for it.
void MatMulRule(Rule& r) {
  Sizes left = r.x().sizes();
  Sizes right = r.x(1).sizes();
  Sizes result = r.dy().sizes();
  if (left.empty() || right.empty()) return;
  const bool is_row = left.size() == 1;
  const bool is_column = right.size() == 1;
  if (is_row) {
    left.insert(left.begin(), 1);
    result.insert(result.end() - (is_column ? 0 : 1), 1);
  }
  if (is_column) {
    right.push_back(1);
    result.push_back(1);
  }
  const Term a = ReshapeTo(r.x(), left);
  const Term b = ReshapeTo(r.x(1), right);
  const Term dy = ReshapeTo(r.dy(), result);
  r.SetGradient(0,
                ReshapeTo(SumTo(Times(dy, SwapLast(b)), left), r.x().sizes()));
  r.SetGradient(
      1, ReshapeTo(SumTo(Times(SwapLast(a), dy), right), r.x(1).sizes()));
}

// The products of the gradient are those of the matrices as they are
// multiplied, so a matrix that is given transposed gets its gradient
// transposed.
void GemmRule(Rule& r, const ops::Gemm& op) {
  const auto turned_if = [](bool is_turned, Term x) {
    return is_turned ? SwapLast(x) : x;
  };
  const Term a = turned_if(op.transA, r.x());
  const Term b = turned_if(op.transB, r.x(1));
  const Term da = Times(r.dy(), SwapLast(b)) * double{op.alpha};
  const Term db = Times(SwapLast(a), r.dy()) * double{op.alpha};
  r.SetGradient(0, turned_if(op.transA, da));
  r.SetGradient(1, turned_if(op.transB, db));
  if (r.has(2)) r.SetGradient(2, r.dy() * double{op.beta});
}

struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

Equation ParseEquation(std::string text) {
  std::erase(text, ' ');
  Equation equation;
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  if (arrow != std::string::npos) {
    equation.result = text.substr(arrow + 2);
  } else {
    // Without a result it has the letters that occur once, in their order.
    std::string letters = left;
    std::ranges::sort(letters);
    for (const char each : letters) {
      if (each != ',' && std::count(left.begin(), left.end(), each) == 1) {
        equation.result += each;
      }
    }
  }
  equation.operands = absl::StrSplit(left, ',');
  return equation;
}

// The gradient of an operand is the sum of products of the cotangent and all
// other operands: an Einsum in which the result and this operand have changed
// places. Sides that are in this operand alone are in none of the factors; they
// are left out of that sum, and then repeated.
Term OperandGradient(const Rule& r, const Equation& equation, size_t operand) {
  const std::string& wanted = equation.operands[operand];
  const Sizes sizes = r.x(operand).sizes();
  Terms factors = {r.dy()};
  std::string sides = equation.result;
  for (size_t k = 0; k < r.num_inputs(); ++k) {
    if (k == operand) continue;
    factors.push_back(r.x(k));
    sides += "," + equation.operands[k];
  }
  std::string made;
  for (const char each : wanted) {
    if (sides.find(each) != std::string::npos) made += each;
  }
  const Term sum =
      r.writer.Add(ops::Einsum{fmt::format("{}->{}", sides, made)}, factors);
  // A side of 1 may have been repeated.
  const Sizes found = sum.sizes();
  Sizes shape;
  size_t at = 0;
  for (const char each : wanted) {
    const bool is_there = sides.find(each) != std::string::npos;
    shape.push_back(is_there && at < found.size() ? found[at++] : 1);
  }
  return SumTo(ReshapeTo(sum, shape), sizes);
}

void EinsumRule(Rule& r) {
  const Equation equation = ParseEquation(r.As<ops::Einsum>().equation.get());
  if (equation.result.find('.') != std::string::npos ||
      equation.operands.size() != r.num_inputs()) {
    return r.Refuse("with \"...\" in its equation");
  }
  for (size_t i = 0; i < r.num_inputs(); ++i) {
    const std::string& wanted = equation.operands[i];
    const std::set<char> letters(wanted.begin(), wanted.end());
    if (letters.size() != wanted.size() || letters.contains('.')) {
      return r.Refuse("where a letter comes twice in an operand");
    }
    r.SetGradient(i, OperandGradient(r, equation, i));
  }
}

Term InverseFormula(Point p) {
  const Term turned = SwapLast(p.y);
  return -Times(Times(turned, p.dy), turned);
}

// The inverse is an operator of onnxruntime's. A matrix that has none has a
// gradient all the same, which is not found.
Term DetFormula(Point p) {
  Sizes ones = p.x.sizes();
  if (ones.size() < 2) return {};
  ones[ones.size() - 1] = ones[ones.size() - 2] = 1;
  const Term scale = ReshapeTo(p.dy * p.y, ones);
  Writer& w = p.r.writer;
  const std::string_view domain =
      AllOperators().FindType(&kTypeTag<ops::Inverse>)->domain;
  if (w.network().opset(domain) == 0) w.Fail(w.network().SetOpset(domain, 1));
  return SwapLast(Apply(ops::Inverse{}, p.x)) * scale;
}

// More numbers than these are not multiplied each without one of them, since
// that takes the square of as many.
constexpr int64_t kMostFactors = 4096;

// What is reduced: the axes from the front, in ascending order, and the result
// with a side of 1 for each.
struct Reduced {
  Sizes axes;
  Sizes kept;
  int64_t count = 1;  // Elements of one result.
};

template <typename Class>
Reduced ReducedBy(const Rule& r) {
  Reduced reduced;
  reduced.kept = r.x().sizes();
  const auto rank = static_cast<int64_t>(reduced.kept.size());
  if (r.has(1)) reduced.axes = r.Ints(1);
  if (reduced.axes.empty() && !r.As<Class>().noop_with_empty_axes) {
    reduced.axes = Counting(0, rank);
  }
  for (int64_t& axis : reduced.axes) {
    axis = FromFront(axis, rank);
    int64_t& side = reduced.kept[static_cast<size_t>(axis)];
    reduced.count *= side;
    side = 1;
  }
  std::ranges::sort(reduced.axes);
  return reduced;
}

// y and dy as they broadcast with x, also where the sides that were reduced are
// gone.
template <typename Class>
Point ReducedPoint(const Rule& r) {
  const Sizes kept = ReducedBy<Class>(r).kept;
  return {r, r.x(), ReshapeTo(r.y(), kept), ReshapeTo(r.dy(), kept)};
}
template <typename Class>
constexpr Row ReductionOf(Term (*formula)(Point p)) {
  return FormulaOf<Class>(formula, &ReducedPoint<Class>);
}

// The elements of each result as the rows of a matrix, and back.
struct Rows {
  Sizes order;
  Sizes moved;  // The sizes in that order.
  int64_t rows = 1, columns = 1;

  // `axes` are in ascending order.
  Rows(const Sizes& sizes, const Sizes& axes) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto axis = static_cast<int64_t>(i);
      const bool is_reduced = std::ranges::binary_search(axes, axis);
      (is_reduced ? columns : rows) *= sizes[i];
      if (!is_reduced) order.push_back(axis);
    }
    order.insert(order.end(), axes.begin(), axes.end());
    for (const int64_t axis : order) {
      moved.push_back(sizes[static_cast<size_t>(axis)]);
    }
  }
  Term ToMatrix(Term x) const {
    return ReshapeTo(Transposed(x, order), {rows, columns});
  }
  Term FromMatrix(Term matrix) const {
    Sizes back(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    }
    return Transposed(ReshapeTo(matrix, moved), back);
  }
};

// The first of the extreme elements gets all.
template <typename Class, typename ArgClass>
void ExtremeRule(Rule& r) {
  const Reduced reduced = ReducedBy<Class>(r);
  if (!r.writer.status().ok()) return;
  const Rows rows(r.x().sizes(), reduced.axes);
  if (rows.columns == 0) return r.Refuse("for a tensor without elements");
  ArgClass arg;
  arg.axis = 1;
  const Term place = Apply(arg, rows.ToMatrix(r.x()));
  r.SetGradient(0, rows.FromMatrix(PutInto({rows.rows, rows.columns}, 1, place,
                                           ReshapeTo(r.dy(), {rows.rows, 1}))));
}

// A condition for each two of `n` elements: is(i, k) of row i and column k.
template <typename Is>
Term PairMask(Writer& w, int64_t n, Is is) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < n; ++k) numbers.push_back(is(i, k) ? 1 : 0);
  }
  return CastTo(w.Numbers(numbers, kFloat32, {1, n, n}), kBool);
}

// The product of all others, also where one is zero.
void ProdRule(Rule& r) {
  const Reduced reduced = ReducedBy<ops::ReduceProd>(r);
  if (!r.writer.status().ok()) return;
  const Rows rows(r.x().sizes(), reduced.axes);
  const int64_t n = rows.columns;
  if (n > kMostFactors) return r.Refuse("with so many factors");
  const Term is_itself = PairMask(r.writer, n, std::equal_to<>());
  const Term factors = ReshapeTo(rows.ToMatrix(r.x()), {rows.rows, 1, n});
  const Term others = Apply(ops::ReduceProd{}, Choose(is_itself, 1.0, factors),
                            r.writer.Ints({2}));
  r.SetGradient(0, rows.FromMatrix(ReshapeTo(others, {rows.rows, n}) *
                                   ReshapeTo(r.dy(), {rows.rows, 1})));
}

void MeanRule(Rule& r) {
  const Reduced reduced = ReducedBy<ops::ReduceMean>(r);
  r.SetGradient(0,
                ReshapeTo(r.dy(), reduced.kept) /
                    static_cast<double>(std::max<int64_t>(reduced.count, 1)));
}

// An element counts in all sums from its own place on, so its gradient is the
// sum of the cotangents of these: the operator in the other direction.
Term CumSumFormula(Point p) {
  ops::CumSum op = p.r.As<ops::CumSum>();
  op.reverse = !op.reverse;
  return Apply(op, p.dy, p.r.x(1));
}

// Each product without one of its factors, which a 1 stands for: one line for
// each factor. Dividing by the factor would be of no use where it is zero.
void CumProdRule(Rule& r, const ops::CumProd& op) {
  const Sizes given = r.Ints(1);
  if (!r.writer.status().ok() || given.empty()) return;
  Writer& w = r.writer;
  const Rows rows(r.x().sizes(), {FromFront(given[0], r.x().rank())});
  const int64_t n = rows.columns;
  if (n > kMostFactors) return r.Refuse("with so many factors");
  const Term is_itself = PairMask(w, n, std::equal_to<>());
  const Term is_factor = PairMask(w, n, [&](int64_t factor, int64_t product) {
    const int64_t behind = (product - factor) * (op.reverse ? -1 : 1);
    return behind >= (op.exclusive ? 1 : 0);
  });
  const auto line = [&](Term x) {
    return ReshapeTo(rows.ToMatrix(x), {rows.rows, 1, n});
  };
  const Term products =
      Apply(op, Choose(is_itself, 1.0, line(r.x())), w.Int(2));
  const Term terms = Choose(is_factor, products * line(r.dy()), 0.0);
  r.SetGradient(
      0, rows.FromMatrix(ReshapeTo(SumOver(terms, {2}), {rows.rows, n})));
}

// The places of the largest elements, which the operator itself gives, get
// their cotangents back.
void TopKRule(Rule& r, const ops::TopK& op) {
  if (!r.has_dy(0)) return;
  const Term places = r.writer.AddAll(op, {r.x(), r.x(1)}, 2)[1];
  r.SetGradient(0, PutInto(r.x().sizes(), op.axis, places, r.dy()));
}

// A number for each channel, as a tensor that broadcasts with x.
Term ByChannel(Term numbers, Term x) {
  const auto rank = static_cast<size_t>(std::max<int64_t>(x.rank(), 2));
  return ReshapeTo(CastTo(numbers, x.dtype()),
                   LineAlong(rank, 1, numbers.count()));
}

// x less its mean, over the deviation; both along these sides.
struct Normalized {
  Term y;
  Term mean;
  Term variance;
  Term inverse;  // 1 / sqrt(variance + epsilon).
};
Normalized Normalize(Term x, const Sizes& axes, double epsilon) {
  Normalized made;
  made.mean = MeanOver(x, axes);
  const Term from_mean = x - made.mean;
  made.variance = MeanOver(Square(from_mean), axes);
  made.inverse = Apply(ops::Reciprocal{}, Sqrt(made.variance + epsilon));
  made.y = from_mean * made.inverse;
  return made;
}

// Inputs 1 and 2 are a scale and a shift for each channel of `y`.
Term ScaledByChannel(const Rule& r, Term y) {
  return y * ByChannel(r.x(1), y) + ByChannel(r.x(2), y);
}

Sizes RowAxes(Term x, int64_t axis) {
  return Counting(FromFront(axis, x.rank()), x.rank());
}

// Batch normalization takes the statistics of the batch only in training; then
// it also makes those that the next batches begin with.
Terms DefineBatchNorm(Rule& r, const ops::BatchNormalization& op) {
  const Term x = r.x();
  const Term scale = ByChannel(r.x(1), x);
  const Term shift = ByChannel(r.x(2), x);
  if (!op.training_mode) {
    const Term deviation = Sqrt(ByChannel(r.x(4), x) + double{op.epsilon});
    return {(x - ByChannel(r.x(3), x)) / deviation * scale + shift};
  }
  const Normalized normal =
      Normalize(x, AxesBesideChannels(x.rank()), op.epsilon);
  Terms outputs = {normal.y * scale + shift};
  const double share = 1 - double{op.momentum};
  const Term now[] = {normal.mean, normal.variance};
  for (size_t i = 0; i < 2; ++i) {
    const Term old = r.x(3 + i);
    const Term mine = CastTo(ReshapeTo(now[i], old.sizes()), old.dtype());
    outputs.push_back(old * double{op.momentum} + mine * share);
  }
  return outputs;
}

Terms DefineLayerNorm(Rule& r, const ops::LayerNormalization& op) {
  const Term x = r.x();
  const Normalized normal = Normalize(x, RowAxes(x, op.axis), op.epsilon);
  Term y = normal.y * r.x(1);
  if (r.has(2)) y = y + r.x(2);
  return {y, normal.mean, normal.inverse};
}

Terms DefineRmsNorm(Rule& r, const ops::RMSNormalization& op) {
  const Term x = r.x();
  const Term mean = MeanOver(Square(x), RowAxes(x, op.axis));
  return {x / Sqrt(mean + double{op.epsilon}) * r.x(1)};
}

Terms DefineInstanceNorm(Rule& r) {
  const double epsilon = r.As<ops::InstanceNormalization>().epsilon;
  return {ScaledByChannel(
      r, Normalize(r.x(), Counting(2, r.x().rank()), epsilon).y)};
}

// Channels in groups; scale and shift are those of channels, or of groups: the
// class for opset 18 has the latter.
template <typename Class>
Terms DefineGroupNorm(Rule& r, const Class& op) {
  const int64_t groups = op.num_groups;
  const Term x = r.x();
  const Sizes sizes = x.sizes();
  if (sizes.size() < 2 || groups < 1) return {x};
  const int64_t count = sizes[0] * groups;
  const int64_t rest = count == 0 ? 0 : x.count() / count;
  const Term rows = ReshapeTo(x, {sizes[0], groups, rest});
  const Term y = Normalize(rows, {2}, op.epsilon).y;
  if (r.x(1).count() == groups)
    return {ReshapeTo(ScaledByChannel(r, y), sizes)};
  return {ScaledByChannel(r, ReshapeTo(y, sizes))};
}

Terms DefineMeanVariance(Rule& r) {
  // The standard's function body adds this to the deviation.
  constexpr double kTiny = 1e-9F;
  Sizes axes = r.As<ops::MeanVarianceNormalization>().axes;
  if (axes.empty()) axes = Counting(0, r.x().rank());
  const Term from_mean = r.x() - MeanOver(r.x(), axes);
  return {from_mean / (Sqrt(MeanOver(Square(from_mean), axes)) + kTiny)};
}

Terms DefineLpNorm(Rule& r, const ops::LpNormalization& op) {
  const Term x = r.x();
  const Term norm = op.p == 1 ? SumOver(Abs(x), {op.axis})
                              : Sqrt(SumOver(Square(x), {op.axis}));
  return {x / norm};
}

// The losses of labels from logarithms of probabilities. A label that is to be
// ignored need not be one of the classes; it counts 0 times.
Term DefineLosses(Rule& r, Term logs, const ops::LossAttributes& op) {
  const Term labels = r.x(1);
  Sizes one = labels.sizes();
  if (one.empty()) return logs;
  one.insert(one.begin() + 1, 1);
  Term places = labels, counts;
  if (op.ignore_index.has_value()) {
    const auto number = static_cast<double>(*op.ignore_index);
    const Term ignored = Equal(labels, r.writer.Number(number, labels.dtype()));
    counts = CastTo(Not(ignored), logs.dtype());
    // Any class will do for such a label, since it counts 0 times.
    places = Choose(ignored, 0.0, labels);
  } else {
    counts = r.writer.Filled(1, logs.dtype(), labels.sizes());
  }
  const Term chosen =
      Apply(ops::GatherElements{1}, logs, ReshapeTo(places, one));
  Term weights = counts;
  if (r.has(2)) weights = counts * Gathered(r.x(2), 0, places);
  const Term losses = -(ReshapeTo(chosen, labels.sizes()) * weights);
  if (op.reduction == ops::Reduction::kNone) return losses;
  const Term sum = ReshapeTo(SumOfAll(losses), {});
  if (op.reduction == ops::Reduction::kSum) return sum;
  return sum / ReshapeTo(SumOfAll(weights), {});
}

Terms DefineCrossEntropy(Rule& r) {
  const Term logs = Apply(ops::LogSoftmax{1}, r.x());
  return {DefineLosses(r, logs, r.As<ops::SoftmaxCrossEntropyLoss>()), logs};
}

constexpr Row kSumRows[] = {
    DefinitionOf<ops::BatchNormalization, &DefineBatchNorm>(),
    RuleOf<ops::CumProd, &CumProdRule>(),
    FormulaOf<ops::CumSum>(&CumSumFormula),
    FormulaOf<ops::Det>(&DetFormula),
    RuleOf<ops::Einsum>(&EinsumRule),
    RuleOf<ops::Gemm, &GemmRule>(),
    DefinitionOf<ops::GroupNormalization, &DefineGroupNorm>(),
    DefinitionOf<ops::GroupNormalization18, &DefineGroupNorm>(),
    ZeroOf<ops::Hardmax>(),
    DefinitionOf<ops::InstanceNormalization>(&DefineInstanceNorm),
    FormulaOf<ops::Inverse>(&InverseFormula),
    DefinitionOf<ops::LayerNormalization, &DefineLayerNorm>(),
    FormulaOf<ops::LogSoftmax>([](Point p) {
      const int64_t axis = p.r.As<ops::LogSoftmax>().axis;
      return p.dy - Exp(p.y) * SumOver(p.dy, {axis});
    }),
    DefinitionOf<ops::LpNormalization, &DefineLpNorm>(),
    RuleOf<ops::MatMul>(&MatMulRule),
    DefinitionOf<ops::MeanVarianceNormalization>(&DefineMeanVariance),
    DefinitionOf<ops::NegativeLogLikelihoodLoss>([](Rule& r) -> Terms {
      return {DefineLosses(r, r.x(), r.As<ops::NegativeLogLikelihoodLoss>())};
    }),
    DefinitionOf<ops::RMSNormalization, &DefineRmsNorm>(),
    ReductionOf<ops::ReduceL1>([](Point p) { return Sign(p.x) * p.dy; }),
    ReductionOf<ops::ReduceL2>([](Point p) { return p.x * (p.dy / p.y); }),
    ReductionOf<ops::ReduceLogSum>([](Point p) { return p.dy * Exp(-p.y); }),
    ReductionOf<ops::ReduceLogSumExp>(
        [](Point p) { return p.dy * Exp(p.x - p.y); }),
    RuleOf<ops::ReduceMax>(&ExtremeRule<ops::ReduceMax, ops::ArgMax>),
    RuleOf<ops::ReduceMean>(&MeanRule),
    RuleOf<ops::ReduceMin>(&ExtremeRule<ops::ReduceMin, ops::ArgMin>),
    RuleOf<ops::ReduceProd>(&ProdRule),
    ReductionOf<ops::ReduceSum>([](Point p) { return p.dy; }),
    ReductionOf<ops::ReduceSumSquare>([](Point p) { return p.x * p.dy * 2; }),
    FormulaOf<ops::Softmax>([](Point p) {
      const int64_t axis = p.r.As<ops::Softmax>().axis;
      return p.y * (p.dy - SumOver(p.dy * p.y, {axis}));
    }),
    DefinitionOf<ops::SoftmaxCrossEntropyLoss>(&DefineCrossEntropy),
    RuleOf<ops::TopK, &TopKRule>(),
};

}  // namespace

absl::Span<const Row> SumRows() { return kSumRows; }

}  // namespace nodewise::gradient
