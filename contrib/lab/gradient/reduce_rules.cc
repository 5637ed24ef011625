#include <algorithm>

#include "contrib/lab/gradient/rules.h"
#include "nodewise/ops/axis.h"
#include "nodewise/ops/indexing.h"
#include "nodewise/ops/reduce.h"
#include "nodewise/ops/selection.h"
#include "nodewise/ops/softmax.h"

// One number from many, along some sides.

namespace nodewise::gradient {
namespace {

using Sizes = std::vector<int64_t>;

// More numbers than these are not multiplied each without one of them.
constexpr int64_t kMostFactors = 4096;

// What is reduced: the axes from the front, in ascending order, and the result
// with a side of 1 for each.
struct Reduced {
  Sizes axes;
  Sizes kept;
  int64_t count = 1;  // Elements of one result.
};

template <typename Class>
Reduced ReducedBy(Rule& r) {
  const auto& op = r.As<Class>();
  Reduced reduced;
  reduced.kept = r.x().sizes();
  const auto rank = static_cast<int64_t>(reduced.kept.size());
  if (r.has(1)) reduced.axes = r.Ints(1);
  if (reduced.axes.empty() && !op.noop_with_empty_axes) {
    reduced.axes = Counting(0, rank);
  }
  for (int64_t& axis : reduced.axes) {
    if (axis < 0) axis += rank;
    int64_t& side = reduced.kept[static_cast<size_t>(axis)];
    reduced.count *= side;
    side = 1;
  }
  std::sort(reduced.axes.begin(), reduced.axes.end());
  return reduced;
}

// Calls f(r, x, y, dy), the last two of which broadcast with x.
template <typename Class, typename F>
void Broadcasting(Rule& r, F f) {
  const Reduced reduced = ReducedBy<Class>(r);
  if (!r.writer().status().ok()) return;
  r.Give(0, f(r.x(), ReshapeTo(r.y(), reduced.kept),
              ReshapeTo(r.dy(), reduced.kept)));
}

// The elements of each result as the rows of a matrix, and back.
struct Rows {
  Sizes order;
  Sizes moved;  // The sizes in that order.
  int64_t rows = 1;
  int64_t columns = 1;

  Rows(const Sizes& sizes, const Reduced& reduced) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto axis = static_cast<int64_t>(i);
      const bool is_reduced =
          std::binary_search(reduced.axes.begin(), reduced.axes.end(), axis);
      (is_reduced ? columns : rows) *= sizes[i];
      if (!is_reduced) order.push_back(axis);
    }
    order.insert(order.end(), reduced.axes.begin(), reduced.axes.end());
    for (const int64_t axis : order) {
      moved.push_back(sizes[static_cast<size_t>(axis)]);
    }
  }
  Term Of(Term x) const {
    return ReshapeTo(Transposed(x, order), {rows, columns});
  }
  Term Back(Term matrix) const {
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
  if (!r.writer().status().ok()) return;
  const Rows rows(r.x().sizes(), reduced);
  Writer& w = r.writer();
  if (rows.columns == 0) return r.Refuse("for a tensor without elements");
  ArgClass arg;
  arg.axis = 1;
  const Term place = w.Add(arg, {rows.Of(r.x())});
  ops::ScatterElements scatter;
  scatter.axis = 1;
  r.Give(0, rows.Back(w.Add(
                scatter, {w.Filled(0, r.x().dtype(), {rows.rows, rows.columns}),
                          place, ReshapeTo(r.dy(), {rows.rows, 1})})));
}

// The product of all others, also where one is zero.
void ProdRule(Rule& r) {
  const Reduced reduced = ReducedBy<ops::ReduceProd>(r);
  if (!r.writer().status().ok()) return;
  const Rows rows(r.x().sizes(), reduced);
  Writer& w = r.writer();
  const int64_t n = rows.columns;
  if (n > kMostFactors) return r.Refuse("with so many factors");
  std::vector<double> diagonal(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) diagonal[static_cast<size_t>(i * n + i)] = 1;
  const Term is_itself =
      CastTo(w.Numbers(diagonal, kFloat32, {1, n, n}), kBool);
  const Term factors = ReshapeTo(rows.Of(r.x()), {rows.rows, 1, n});
  const Term others =
      w.Add(ops::ReduceProd{}, {Choose(is_itself, 1.0, factors), w.Ints({2})});
  r.Give(0, rows.Back(ReshapeTo(others, {rows.rows, n}) *
                      ReshapeTo(r.dy(), {rows.rows, 1})));
}

void MeanRule(Rule& r) {
  const Reduced reduced = ReducedBy<ops::ReduceMean>(r);
  r.Give(0, ReshapeTo(r.dy(), reduced.kept) /
                static_cast<double>(std::max<int64_t>(reduced.count, 1)));
}

void CumSumRule(Rule& r) {
  ops::CumSum op = r.As<ops::CumSum>();
  op.reverse = !op.reverse;
  r.Give(0, r.writer().Add(op, {r.dy(), r.x(1)}));
}

// Each product without one of its factors, which a 1 stands for: one line for
// each factor. Dividing by the factor would be of no use where it is zero.
void CumProdRule(Rule& r) {
  const auto& op = r.As<ops::CumProd>();
  const Sizes given = r.Ints(1);
  if (!r.writer().status().ok() || given.empty()) return;
  Writer& w = r.writer();
  Reduced along;
  along.axes = {given[0] < 0 ? given[0] + r.x().rank() : given[0]};
  const Rows rows(r.x().sizes(), along);
  const int64_t n = rows.columns;
  if (n > kMostFactors) return r.Refuse("with so many factors");
  std::vector<double> is_itself(static_cast<size_t>(n * n));
  std::vector<double> is_factor(is_itself.size());
  for (int64_t i = 0; i < n * n; ++i) {
    const int64_t behind = (i % n - i / n) * (op.reverse ? -1 : 1);
    is_itself[static_cast<size_t>(i)] = behind == 0 ? 1 : 0;
    is_factor[static_cast<size_t>(i)] =
        behind >= (op.exclusive ? 1 : 0) ? 1 : 0;
  }
  const auto mask = [&](const std::vector<double>& numbers) {
    return CastTo(w.Numbers(numbers, kFloat32, {1, n, n}), kBool);
  };
  const auto line = [&](Term x) {
    return ReshapeTo(rows.Of(x), {rows.rows, 1, n});
  };
  const Term products = w.Add(
      op, {Choose(mask(is_itself), 1.0, line(r.x())), w.Number(2, kInt64)});
  const Term terms = Choose(mask(is_factor), products * line(r.dy()), 0.0);
  r.Give(0, rows.Back(ReshapeTo(SumOver(terms, {2}), {rows.rows, n})));
}

void SoftmaxRule(Rule& r) {
  const int64_t axis = r.As<ops::Softmax>().axis;
  r.Give(0, r.y() * (r.dy() - SumOver(r.dy() * r.y(), {axis})));
}

void LogSoftmaxRule(Rule& r) {
  const int64_t axis = r.As<ops::LogSoftmax>().axis;
  r.Give(0, r.dy() - Exp(r.y()) * SumOver(r.dy(), {axis}));
}

void TopKRule(Rule& r) {
  if (!r.has_dy(0)) return;
  const auto& op = r.As<ops::TopK>();
  const Term x = r.x();
  const Term places = r.writer().AddAll(op, {x, r.x(1)}, 2)[1];
  ops::ScatterElements scatter;
  scatter.axis = op.axis;
  r.Give(0, r.writer().Add(scatter, {r.writer().Filled(0, x.dtype(), x.sizes()),
                                     places, r.dy()}));
}

constexpr Row kReduceRows[] = {
    RuleOf<ops::CumProd>(&CumProdRule),
    RuleOf<ops::CumSum>(&CumSumRule),
    ZeroOf<ops::Hardmax>(),
    RuleOf<ops::LogSoftmax>(&LogSoftmaxRule),
    RuleOf<ops::ReduceL1>([](Rule& r) {
      Broadcasting<ops::ReduceL1>(
          r, [](Term x, Term, Term dy) { return Sign(x) * dy; });
    }),
    RuleOf<ops::ReduceL2>([](Rule& r) {
      Broadcasting<ops::ReduceL2>(
          r, [](Term x, Term y, Term dy) { return x * (dy / y); });
    }),
    RuleOf<ops::ReduceLogSum>([](Rule& r) {
      Broadcasting<ops::ReduceLogSum>(
          r, [](Term, Term y, Term dy) { return dy * Exp(-y); });
    }),
    RuleOf<ops::ReduceLogSumExp>([](Rule& r) {
      Broadcasting<ops::ReduceLogSumExp>(
          r, [](Term x, Term y, Term dy) { return dy * Exp(x - y); });
    }),
    RuleOf<ops::ReduceMax>(&ExtremeRule<ops::ReduceMax, ops::ArgMax>),
    RuleOf<ops::ReduceMean>(&MeanRule),
    RuleOf<ops::ReduceMin>(&ExtremeRule<ops::ReduceMin, ops::ArgMin>),
    RuleOf<ops::ReduceProd>(&ProdRule),
    RuleOf<ops::ReduceSum>([](Rule& r) {
      Broadcasting<ops::ReduceSum>(r, [](Term, Term, Term dy) { return dy; });
    }),
    RuleOf<ops::ReduceSumSquare>([](Rule& r) {
      Broadcasting<ops::ReduceSumSquare>(
          r, [](Term x, Term, Term dy) { return x * dy * 2; });
    }),
    RuleOf<ops::Softmax>(&SoftmaxRule),
    RuleOf<ops::TopK>(&TopKRule),
};

}  // namespace

absl::Span<const Row> ReduceRows() { return kReduceRows; }

}  // namespace nodewise::gradient
