#include "contrib/gradient/rules.h"
#include "nodewise/ops/constant.h"
#include "nodewise/ops/gather.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/ops/random.h"
#include "nodewise/ops/scatter.h"
#include "nodewise/ops/slice.h"
#include "nodewise/ops/tree_ensemble.h"

// Operators that write by index, and those that make numbers of none.

namespace nodewise::gradient {
namespace {

// The result, with zeros where updates were written.
template <typename Class>
Term Unwritten(Rule& r, const Class& op, bool is_added) {
  if (is_added) return r.dy();
  const Term zeros = r.writer().Filled(0, r.x(2).dtype(), r.x(2).sizes());
  return r.writer().Add(op, {r.dy(), r.x(1), zeros});
}

// Where several updates go to one place, only additions say what comes of it.
// Opsets of today have Scatter under its new name alone.
template <typename Class>
void ScatterElementsRule(Rule& r) {
  const ops::ScatterElements op = r.As<Class>();
  const bool is_added = op.reduction == ops::ScatterReduction::kAdd;
  if (!is_added && op.reduction != ops::ScatterReduction::kNone) {
    return r.Refuse("with this reduction");
  }
  r.Give(0, Unwritten(r, op, is_added));
  r.Give(2, r.writer().Add(ops::GatherElements{op.axis}, {r.dy(), r.x(1)}));
}

void ScatterNdRule(Rule& r) {
  const auto& op = r.As<ops::ScatterND>();
  const bool is_added = op.reduction == ops::ScatterReduction::kAdd;
  if (!is_added && op.reduction != ops::ScatterReduction::kNone) {
    return r.Refuse("with this reduction");
  }
  r.Give(0, Unwritten(r, op, is_added));
  r.Give(2, r.writer().Add(ops::GatherND{}, {r.dy(), r.x(1)}));
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
