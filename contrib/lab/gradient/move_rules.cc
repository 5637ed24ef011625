#include <algorithm>
#include <optional>

#include "contrib/lab/gradient/rules.h"
#include "nodewise/ops/constant.h"
#include "nodewise/ops/indexing.h"
#include "nodewise/ops/layout.h"
#include "nodewise/ops/pad.h"
#include "nodewise/ops/selection.h"

// Operators that move elements.

namespace nodewise::gradient {
namespace {

using Sizes = std::vector<int64_t>;

void ReshapeRule(Rule& r) { r.Give(0, ReshapeTo(r.dy(), r.x().sizes())); }

void TransposeRule(Rule& r) {
  const Sizes& perm = r.As<ops::Transpose>().perm;
  const auto rank = static_cast<size_t>(r.dy().rank());
  Sizes back(rank);
  for (size_t i = 0; i < rank; ++i) {
    const auto from =
        perm.empty() ? rank - 1 - i : static_cast<size_t>(perm[i]);
    back[from] = static_cast<int64_t>(i);
  }
  r.Give(0, Transposed(r.dy(), back));
}

void ConcatRule(Rule& r) {
  int64_t axis = r.As<ops::Concat>().axis;
  if (axis < 0) axis += r.dy().rank();
  int64_t begin = 0;
  for (size_t i = 0; i < r.num_inputs(); ++i) {
    const Sizes sizes = r.x(i).sizes();
    if (static_cast<size_t>(axis) >= sizes.size()) return;
    const int64_t end = begin + sizes[static_cast<size_t>(axis)];
    r.Give(i, Part(r.dy(), axis, begin, end));
    begin = end;
  }
}

// Parts that nothing reads get zeros for their cotangents.
void SplitRule(Rule& r) {
  std::vector<Term> parts;
  for (size_t i = 0; i < r.num_outputs(); ++i) {
    if (!r.wants_output(i)) return r.Refuse("where parts are left out");
    parts.push_back(r.has_dy(i)
                        ? r.dy(i)
                        : r.writer().Filled(0, r.x().dtype(), r.y(i).sizes()));
  }
  ops::Concat concat;
  concat.axis = r.As<ops::Split>().axis;
  r.Give(0, r.writer().Add(concat, parts));
}

// Each side is one of the repeats and one of the elements.
void TileRule(Rule& r) {
  const Sizes sizes = r.x().sizes();
  const Sizes repeats = r.Ints(1);
  if (repeats.size() != sizes.size()) return;
  Sizes parted;
  Sizes axes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    axes.push_back(static_cast<int64_t>(parted.size()));
    parted.push_back(repeats[i]);
    parted.push_back(sizes[i]);
  }
  r.Give(0, ReshapeTo(SumOver(ReshapeTo(r.dy(), parted), axes), sizes));
}

// Where each element of the result comes from, counted from 1 on: what the
// operator itself makes of the numbers of all places. 0 is where it fills
// something in.
Term Sources(Rule& r) {
  Writer& w = r.writer();
  Sizes places = Counting(1, r.x().count() + 1);
  std::vector<Term> inputs = {ReshapeTo(w.Ints(places), r.x().sizes())};
  for (size_t i = 1; i < r.num_inputs(); ++i) {
    const bool is_filling =
        i == 2 && r.operation().attrs.As<ops::Pad>() != nullptr;
    inputs.push_back(r.has(i) && !is_filling ? r.x(i) : Term());
  }
  return w.AddLike(r.operation().attrs, inputs)[0];
}

// The gradient of an element is the sum of the cotangents of its copies. Zero
// is one more element.
void MoveRule(Rule& r) {
  const Term sources = Sources(r);
  const Term scattered = ScatterAdded(sources, r.dy(), {r.x().count() + 1});
  r.Give(0, ReshapeTo(Part(scattered, 0, 1, r.x().count() + 1), r.x().sizes()));
}

// The gradient of the value that is filled in is the sum over the places that
// it fills.
void PadRule(Rule& r) {
  MoveRule(r);
  if (!r.has(2)) return;
  const Term filled = r.writer().Of(Sources(r).id());
  const Term zeros = Choose(Greater(filled, 0), 0.0, r.dy());
  r.Give(2,
         ReshapeTo(SumOver(zeros, Counting(0, r.dy().rank())), r.x(2).sizes()));
}

// Returns where a part begins that has no gaps, and is not turned round, by
// side; none if it is not known, or another kind of part.
std::optional<Sizes> BeginningsOf(Rule& r) {
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
        (*axes)[i] < 0 ? (*axes)[i] + static_cast<int64_t>(sizes.size())
                       : (*axes)[i]);
    const int64_t start = (*starts)[i];
    begin[axis] = std::clamp<int64_t>(start < 0 ? start + sizes[axis] : start,
                                      0, sizes[axis]);
  }
  return begin;
}

// A part without gaps has zeros around it.
void SliceRule(Rule& r) {
  const std::optional<Sizes> begin = BeginningsOf(r);
  if (!begin.has_value()) return MoveRule(r);
  Sizes pads = *begin;
  const Sizes whole = r.x().sizes();
  const Sizes part = r.dy().sizes();
  if (part.size() != whole.size()) return;
  for (size_t i = 0; i < whole.size(); ++i) {
    pads.push_back(whole[i] - part[i] - (*begin)[i]);
  }
  r.Give(0, r.writer().Add(ops::Pad{}, {r.dy(), r.writer().Ints(pads)}));
}

// Each result is the first of the elements that are equal to it.
void UniqueRule(Rule& r) {
  if (!r.has_dy(0)) return;
  const auto& op = r.As<ops::Unique>();
  Writer& w = r.writer();
  const Term x = r.x();
  const Term first = w.AddAll(op, {x}, 2)[1];
  if (!op.axis.has_value()) {
    return r.Give(0, ScatterAdded(first, r.dy(), x.sizes()));
  }
  const Term places = ReshapeTo(w.Ints(Counting(0, x.count())), x.sizes());
  const Term taken = w.Add(ops::Gather{*op.axis}, {places, first});
  r.Give(0, ScatterAdded(taken, r.dy(), x.sizes()));
}

constexpr Row kMoveRows[] = {
    RuleOf<ops::CenterCropPad>(&MoveRule),
    RuleOf<ops::Compress>(&MoveRule),
    RuleOf<ops::Concat>(&ConcatRule),
    RuleOf<ops::DepthToSpace>(&MoveRule),
    RuleOf<ops::Expand>([](Rule& r) { r.Give(0, r.dy()); }),
    RuleOf<ops::Flatten>(&ReshapeRule),
    RuleOf<ops::Gather>(&MoveRule),
    RuleOf<ops::GatherElements>(&MoveRule),
    RuleOf<ops::GatherND>(&MoveRule),
    RuleOf<ops::Identity>([](Rule& r) { r.Give(0, r.dy()); }),
    RuleOf<ops::Pad>(&PadRule),
    RuleOf<ops::Reshape>(&ReshapeRule),
    RuleOf<ops::ReverseSequence>(&MoveRule),
    RuleOf<ops::Slice>(&SliceRule),
    RuleOf<ops::SpaceToDepth>(&MoveRule),
    RuleOf<ops::SpaceToDepth1>(&MoveRule),
    RuleOf<ops::Split>(&SplitRule),
    RuleOf<ops::Squeeze>(&ReshapeRule),
    RuleOf<ops::Tile>(&TileRule),
    RuleOf<ops::Transpose>(&TransposeRule),
    RuleOf<ops::Trilu>(&MoveRule),
    RuleOf<ops::Unique>(&UniqueRule),
    RuleOf<ops::Unsqueeze>(&ReshapeRule),
};

}  // namespace

absl::Span<const Row> MoveRows() { return kMoveRows; }

}  // namespace nodewise::gradient
