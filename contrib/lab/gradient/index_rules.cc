#include "contrib/lab/gradient/rules.h"
#include "nodewise/ops/constant.h"
#include "nodewise/ops/indexing.h"
#include "nodewise/ops/layout.h"
#include "nodewise/ops/logic.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/ops/random.h"
#include "nodewise/ops/tree_ensemble.h"

// Operators that write by index, and those that make numbers of none.

namespace nodewise::gradient {
namespace {

using ops::ScatterReduction;

// Writes and reads at the places that a scattering operator's indices name.
template <typename Scatter, typename Gather>
struct Scattered {
  Rule& r;
  Scatter scatter;
  Gather gather;

  Term Into(ScatterReduction reduction, Term data, Term updates) const {
    Scatter op = scatter;
    op.reduction = reduction;
    return r.writer().Add(op, {data, r.x(1), updates});
  }
  Term From(Term x) const { return r.writer().Add(gather, {x, r.x(1)}); }
};

Term AreEqual(Term a, Term b) { return a.writer().Add(ops::Equal{}, {a, b}); }
Term AreZero(Term x) { return AreEqual(x, x.writer().Number(0, x.dtype())); }

// Each factor gets the product of all others, also where one is zero: the
// others that are zero are counted.
template <typename Places>
void GiveFactors(Rule& r, const Places& at) {
  const Term data = r.x();
  const Term updates = r.x(2);
  const DLDataType dtype = data.dtype();
  const Term ones = r.writer().Filled(1, dtype, data.sizes());
  r.Give(0, r.dy() * at.Into(ScatterReduction::kMul, ones, updates));
  const auto without_zeros = [](Term x) { return Choose(AreZero(x), 1.0, x); };
  const auto zeros = [dtype](Term x) { return CastTo(AreZero(x), dtype); };
  const Term factors = without_zeros(updates);
  const Term product =
      at.Into(ScatterReduction::kMul, without_zeros(data), factors);
  const Term count =
      at.Into(ScatterReduction::kAdd, zeros(data), zeros(updates));
  const Term has_zero = Greater(at.From(count) - zeros(updates), 0.5);
  r.Give(2,
         at.From(r.dy()) * Choose(has_zero, 0.0, at.From(product) / factors));
}

// The data get all if they are the extreme one, else the first such update.
template <typename Places>
void GiveExtreme(Rule& r, const Places& at) {
  Writer& w = r.writer();
  const Term updates = r.x(2);
  const int64_t count = updates.count();
  const Term keeps = AreEqual(r.x(), r.y());
  const Term may_win = Both(AreEqual(updates, at.From(r.y())),
                            w.Add(ops::Not{}, {at.From(keeps)}));
  const Term number = ReshapeTo(w.Ints(Counting(0, count)), updates.sizes());
  const auto none = static_cast<double>(count);
  const Term first =
      at.Into(ScatterReduction::kMin, w.Filled(none, kInt64, r.x().sizes()),
              Choose(may_win, number, none));
  r.Give(0, Choose(keeps, r.dy(), 0.0));
  r.Give(2, Choose(AreEqual(at.From(first), number), at.From(r.dy()), 0.0));
}

// Where several updates replace one element, only the last of them should
// count; it is not specified which one that is.
template <typename Places>
void GiveScattered(Rule& r, const Places& at) {
  switch (at.scatter.reduction) {
    case ScatterReduction::kMul:
      return GiveFactors(r, at);
    case ScatterReduction::kMax:
    case ScatterReduction::kMin:
      return GiveExtreme(r, at);
    case ScatterReduction::kAdd:
      r.Give(0, r.dy());
      break;
    case ScatterReduction::kNone:
      r.Give(0, at.Into(ScatterReduction::kNone, r.dy(),
                        r.writer().Filled(0, r.x(2).dtype(), r.x(2).sizes())));
      break;
  }
  r.Give(2, at.From(r.dy()));
}

// Opsets of today have Scatter under its new name alone.
template <typename Class>
void ScatterElementsRule(Rule& r) {
  const ops::ScatterElements op = r.As<Class>();
  GiveScattered(r, Scattered<ops::ScatterElements, ops::GatherElements>{
                       r, op, {op.axis}});
}

void ScatterNdRule(Rule& r) {
  GiveScattered(r, Scattered<ops::ScatterND, ops::GatherND>{
                       r, r.As<ops::ScatterND>(), {}});
}

// The values are one for all places that are off, and one for those that are
// on.
void OneHotRule(Rule& r) {
  Writer& w = r.writer();
  // Few runtimes choose between truth values.
  const Term is_on = CastTo(
      w.Add(r.As<ops::OneHot>(), {r.x(), r.x(1), w.Ints({0, 1})}), kBool);
  const auto sum = [&](Term x) {
    return ReshapeTo(SumOver(x, Counting(0, x.rank())), {1});
  };
  r.Give(2, w.Add(ops::Concat{0}, {sum(Choose(is_on, 0.0, r.dy())),
                                   sum(Choose(is_on, r.dy(), 0.0))}));
}

constexpr Row kIndexRows[] = {
    ZeroOf<ops::EyeLike>(),
    ZeroOf<ops::RandomNormalLike>(),
    ZeroOf<ops::RandomUniformLike>(),
    ZeroOf<ops::Bernoulli>(),
    RuleOf<ops::OneHot>(&OneHotRule),
    RuleOf<ops::Scatter>(&ScatterElementsRule<ops::Scatter>),
    RuleOf<ops::ScatterElements>(&ScatterElementsRule<ops::ScatterElements>),
    RuleOf<ops::ScatterND>(&ScatterNdRule),
    ZeroOf<ops::TreeEnsemble>(),
};

}  // namespace

absl::Span<const Row> IndexRows() { return kIndexRows; }

}  // namespace nodewise::gradient
