#include <algorithm>

#include "contrib/lab/gradient/rules.h"
#include "nodewise/ops/constant.h"
#include "nodewise/ops/pad.h"
#include "nodewise/ops/random.h"
#include "nodewise/ops/selection.h"
#include "nodewise/ops/tree_ensemble.h"

// Operators that move elements, or write them by index, and those that make
// numbers of none.

namespace nodewise::gradient {
namespace {

// --- Whole tensors are laid out anew ---

Term ReshapeFormula(Point p) { return ReshapeTo(p.dy, p.x.sizes()); }

Term TransposeFormula(Point p) {
  const Sizes& perm = p.r.As<ops::Transpose>().perm;
  const auto rank = static_cast<size_t>(p.dy.rank());
  Sizes back(rank);
  for (size_t i = 0; i < rank; ++i) {
    const auto at = perm.empty() ? rank - 1 - i : static_cast<size_t>(perm[i]);
    back[at] = static_cast<int64_t>(i);
  }
  return Transposed(p.dy, back);
}

void ConcatRule(Rule& r) {
  const int64_t axis = FromFront(r.As<ops::Concat>().axis, r.dy().rank());
  int64_t begin = 0;
  for (size_t i = 0; i < r.num_inputs(); ++i) {
    const Sizes sizes = r.x(i).sizes();
    if (static_cast<size_t>(axis) >= sizes.size()) return;
    const int64_t end = begin + sizes[static_cast<size_t>(axis)];
    r.SetGradient(i, Part(r.dy(), axis, begin, end));
    begin = end;
  }
}

// Parts that nothing reads get zeros for their cotangents.
void SplitRule(Rule& r) {
  Terms parts;
  for (size_t i = 0; i < r.num_outputs(); ++i) {
    if (r.operation.outputs[i] == kNoValue) {
      return r.Refuse("where parts are left out");
    }
    parts.push_back(r.has_dy(i) ? r.dy(i) : ZerosLike(r.y(i)));
  }
  r.SetGradient(0, r.writer.Add(ops::Concat{r.As<ops::Split>().axis}, parts));
}

// Each side is parted into two: the repeats, and the elements.
Term TileFormula(Point p) {
  const Sizes sizes = p.x.sizes();
  const Sizes repeats = p.r.Ints(1);
  if (repeats.size() != sizes.size()) return {};
  Sizes parted, axes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    axes.push_back(static_cast<int64_t>(parted.size()));
    parted.push_back(repeats[i]);
    parted.push_back(sizes[i]);
  }
  return ReshapeTo(SumOver(ReshapeTo(p.dy, parted), axes), sizes);
}

// --- Elements go where the operator itself says ---

// Where each element of the result comes from, counted from 1 on: what the
// operator itself makes of the numbers of all places. 0 is where it fills
// something in.
Term Sources(const Rule& r) {
  const Sizes places = Counting(1, r.x().count() + 1);
  Terms inputs = {ReshapeTo(r.writer.Ints(places), r.x().sizes())};
  // A number that fills something in is not one of a place.
  const bool is_pad = r.operation.attrs.As<ops::Pad>() != nullptr;
  for (size_t i = 1; i < r.num_inputs(); ++i) {
    inputs.push_back(r.has(i) && !(is_pad && i == 2) ? r.x(i) : Term());
  }
  return r.writer.AddLike(r.operation.attrs, inputs)[0];
}

// The gradient of an element is the sum of the cotangents of its copies. Zero
// is one more element, which gets those of what was filled in and is cut off.
// So one rule is enough for all operators that only move elements.
Term MoveFormula(Point p) {
  const int64_t end = p.x.count() + 1;
  const Term scattered = ScatterAdded(Sources(p.r), p.dy, {end});
  return ReshapeTo(Part(scattered, 0, 1, end), p.x.sizes());
}

// The gradient of the value that is filled in is the sum over the places that
// it fills.
void PadRule(Rule& r) {
  r.SetGradient(0, MoveFormula(PointOf(r)));
  if (!r.has(2)) return;
  const Term zeros = Choose(Greater(Sources(r), 0), 0.0, r.dy());
  r.SetGradient(2, ReshapeTo(SumOfAll(zeros), r.x(2).sizes()));
}

// Returns where a part begins that has no gaps, and is not turned round, by
// side; none if it is not known, or another kind of part.
std::optional<Sizes> BeginningsOf(const Rule& r) {
  const Sizes sizes = r.x().sizes();
  const auto starts = r.KnownInts(1);
  if (!starts.has_value()) return std::nullopt;
  const auto count = static_cast<int64_t>(starts->size());
  const auto axes = r.has(3) ? r.KnownInts(3) : Counting(0, count);
  const auto steps = r.has(4) ? r.KnownInts(4) : Sizes(starts->size(), 1);
  if (!axes.has_value() || !steps.has_value()) return std::nullopt;
  Sizes begin(sizes.size(), 0);
  for (size_t i = 0; i < starts->size(); ++i) {
    if ((*steps)[i] != 1) return std::nullopt;
    const auto axis = static_cast<size_t>(
        FromFront((*axes)[i], static_cast<int64_t>(sizes.size())));
    begin[axis] = std::clamp<int64_t>(FromFront((*starts)[i], sizes[axis]), 0,
                                      sizes[axis]);
  }
  return begin;
}

// A part without gaps has zeros around it. More runtimes have a Pad than a sum
// of scattered elements.
Term SliceFormula(Point p) {
  const std::optional<Sizes> begin = BeginningsOf(p.r);
  if (!begin.has_value()) return MoveFormula(p);
  Sizes pads = *begin;
  const Sizes whole = p.x.sizes();
  const Sizes part = p.dy.sizes();
  if (part.size() != whole.size()) return {};
  for (size_t i = 0; i < whole.size(); ++i) {
    pads.push_back(whole[i] - part[i] - (*begin)[i]);
  }
  return Apply(ops::Pad{}, p.dy, p.r.writer.Ints(pads));
}

// Each result is the first of the elements that are equal to it.
void UniqueRule(Rule& r, const ops::Unique& op) {
  if (!r.has_dy(0)) return;
  const Term x = r.x();
  Term first = r.writer.AddAll(op, {x}, 2)[1];
  if (op.axis.has_value()) {
    const Term places =
        ReshapeTo(r.writer.Ints(Counting(0, x.count())), x.sizes());
    first = Gathered(places, *op.axis, first);
  }
  r.SetGradient(0, ScatterAdded(first, r.dy(), x.sizes()));
}

// --- Elements are written by index ---

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
    return r.writer.Add(op, {data, r.x(1), updates});
  }
  Term From(Term x) const { return Apply(gather, x, r.x(1)); }
};

// Each factor gets the product of all others, also where one is zero: the
// others that are zero are counted.
template <typename Places>
void GiveFactors(Rule& r, const Places& at) {
  const Term data = r.x();
  const Term updates = r.x(2);
  const DLDataType dtype = data.dtype();
  const Term ones = r.writer.Filled(1, dtype, data.sizes());
  r.SetGradient(0, r.dy() * at.Into(ScatterReduction::kMul, ones, updates));
  const auto is_zero = [](Term x) {
    return Equal(x, x.writer().Number(0, x.dtype()));
  };
  const auto without_zeros = [&](Term x) { return Choose(is_zero(x), 1.0, x); };
  const auto zeros = [&](Term x) { return CastTo(is_zero(x), dtype); };
  const Term factors = without_zeros(updates);
  const Term product =
      at.Into(ScatterReduction::kMul, without_zeros(data), factors);
  const Term count =
      at.Into(ScatterReduction::kAdd, zeros(data), zeros(updates));
  const Term has_zero = Greater(at.From(count) - zeros(updates), 0.5);
  r.SetGradient(
      2, at.From(r.dy()) * Choose(has_zero, 0.0, at.From(product) / factors));
}

// The data get all if they are the extreme one, else the first such update:
// updates are numbered, and of those that may win the least number is kept at
// each place. `none` is a number that no update has.
template <typename Places>
void GiveExtreme(Rule& r, const Places& at) {
  const Term updates = r.x(2);
  const int64_t count = updates.count();
  const Term keeps = Equal(r.x(), r.y());
  const Term may_win =
      Both(Equal(updates, at.From(r.y())), Not(at.From(keeps)));
  const Term number =
      ReshapeTo(r.writer.Ints(Counting(0, count)), updates.sizes());
  const auto none = static_cast<double>(count);
  const Term first = at.Into(ScatterReduction::kMin,
                             r.writer.Filled(none, kInt64, r.x().sizes()),
                             Choose(may_win, number, none));
  r.SetGradient(0, Choose(keeps, r.dy(), 0.0));
  r.SetGradient(2, Choose(Equal(at.From(first), number), at.From(r.dy()), 0.0));
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
      r.SetGradient(0, r.dy());
      break;
    case ScatterReduction::kNone:
      r.SetGradient(
          0, at.Into(ScatterReduction::kNone, r.dy(), ZerosLike(r.x(2))));
      break;
  }
  r.SetGradient(2, at.From(r.dy()));
}

// Opsets of today have Scatter under its new name alone.
template <typename Class>
void ScatterElementsRule(Rule& r, const Class& op) {
  GiveScattered(r, Scattered<ops::ScatterElements, ops::GatherElements>{
                       r, op, {op.axis}});
}

void ScatterNdRule(Rule& r, const ops::ScatterND& op) {
  GiveScattered(r, Scattered<ops::ScatterND, ops::GatherND>{r, op, {}});
}

// The values are one for all places that are off, and one for those that are
// on.
void OneHotRule(Rule& r) {
  // Few runtimes choose between truth values.
  const Term is_on = CastTo(
      r.writer.Add(r.As<ops::OneHot>(), {r.x(), r.x(1), r.writer.Ints({0, 1})}),
      kBool);
  const auto sum = [](Term x) { return ReshapeTo(SumOfAll(x), {1}); };
  r.SetGradient(2, Joined({sum(Choose(is_on, 0.0, r.dy())),
                           sum(Choose(is_on, r.dy(), 0.0))},
                          0));
}

constexpr Row kMoveRows[] = {
    ZeroOf<ops::Bernoulli>(),
    FormulaOf<ops::CenterCropPad>(&MoveFormula),
    FormulaOf<ops::Compress>(&MoveFormula),
    RuleOf<ops::Concat>(&ConcatRule),
    FormulaOf<ops::DepthToSpace>(&MoveFormula),
    FormulaOf<ops::Expand>([](Point p) { return p.dy; }),
    ZeroOf<ops::EyeLike>(),
    FormulaOf<ops::Flatten>(&ReshapeFormula),
    FormulaOf<ops::Gather>(&MoveFormula),
    FormulaOf<ops::GatherElements>(&MoveFormula),
    FormulaOf<ops::GatherND>(&MoveFormula),
    FormulaOf<ops::Identity>([](Point p) { return p.dy; }),
    RuleOf<ops::OneHot>(&OneHotRule),
    RuleOf<ops::Pad>(&PadRule),
    ZeroOf<ops::RandomNormalLike>(),
    ZeroOf<ops::RandomUniformLike>(),
    FormulaOf<ops::Reshape>(&ReshapeFormula),
    FormulaOf<ops::ReverseSequence>(&MoveFormula),
    RuleOf<ops::Scatter, &ScatterElementsRule>(),
    RuleOf<ops::ScatterElements, &ScatterElementsRule>(),
    RuleOf<ops::ScatterND, &ScatterNdRule>(),
    FormulaOf<ops::Slice>(&SliceFormula),
    FormulaOf<ops::SpaceToDepth>(&MoveFormula),
    FormulaOf<ops::SpaceToDepth1>(&MoveFormula),
    RuleOf<ops::Split>(&SplitRule),
    FormulaOf<ops::Squeeze>(&ReshapeFormula),
    FormulaOf<ops::Tile>(&TileFormula),
    FormulaOf<ops::Transpose>(&TransposeFormula),
    ZeroOf<ops::TreeEnsemble>(),
    FormulaOf<ops::Trilu>(&MoveFormula),
    RuleOf<ops::Unique, &UniqueRule>(),
    FormulaOf<ops::Unsqueeze>(&ReshapeFormula),
};

}  // namespace

absl::Span<const Row> MoveRows() { return kMoveRows; }

}  // namespace nodewise::gradient
