#include "contrib/lab/gradient/rules.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/logic.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/ops/unary.h"

// Calculations with several numbers, and choices between them.

namespace nodewise::gradient {
namespace {

using Sizes = std::vector<int64_t>;
using Terms = std::vector<Term>;

void PowRule(Rule& r) {
  const Term x = r.x();
  const Term y = CastTo(r.x(1), x.dtype());
  Writer& w = r.writer();
  r.Give(0, r.dy() * y * w.Add(ops::Pow{}, {x, y - 1}));
  r.Give(1, r.dy() * r.y() * w.Add(ops::Log{}, {x}));
}

// The sum is of as many shares as there are inputs.
void ShareEvenly(Rule& r, double share) {
  for (size_t i = 0; i < r.num_inputs(); ++i) r.Give(i, r.dy() * share);
}

// The first input that is the extreme one gets all. Inputs are compared with
// each other and not with the result, which a runtime may have rounded.
template <typename Class, typename Beats>
void FoldedExtremeRule(Rule& r) {
  Writer& w = r.writer();
  std::vector<Term> wins = {Term()};
  Term best = r.x();
  for (size_t i = 1; i < r.num_inputs(); ++i) {
    wins.push_back(w.Add(Beats{}, {r.x(i), best}));
    best = w.Add(Class{}, {best, r.x(i)});
  }
  Term left = r.dy();
  for (size_t i = r.num_inputs() - 1; i > 0; --i) {
    r.Give(i, Choose(wins[i], left, 0.0));
    left = Choose(wins[i], 0.0, left);
  }
  r.Give(0, left);
}

// Limits that were attributes have another type than 16-bit floats.
Terms DefineClip(Rule& r) {
  Term y = r.x();
  const auto limit = [&](size_t i) { return CastTo(r.x(i), y.dtype()); };
  if (r.has(1)) y = r.writer().Add(ops::Max{}, {y, limit(1)});
  if (r.has(2)) y = r.writer().Add(ops::Min{}, {y, limit(2)});
  return {y};
}

void PReluRule(Rule& r) {
  const Term is_below = Less(r.x(), 0);
  r.Give(0, Choose(is_below, r.dy() * r.x(1), r.dy()));
  r.Give(1, Choose(is_below, r.dy() * r.x(), 0.0));
}

// A scale or a zero point for each element of the data, or numbers that
// broadcast with it.
Term SpreadOver(Term numbers, const ops::DequantizeLinear& op,
                const Sizes& data) {
  const Sizes sizes = numbers.sizes();
  if (Product(sizes) == 1 && sizes.size() <= 1) return ReshapeTo(numbers, {});
  const auto rank = static_cast<int64_t>(data.size());
  const int64_t axis = rank == 1 ? 0 : op.axis < 0 ? op.axis + rank : op.axis;
  const auto at = static_cast<size_t>(axis);
  if (sizes.size() == 1) {
    Sizes line(data.size(), 1);
    line[at] = sizes[0];
    return ReshapeTo(numbers, line);
  }
  Sizes repeated = sizes;
  repeated.insert(repeated.begin() + axis + 1, 1);
  const Term blocks = ReshapeTo(numbers, repeated);
  repeated[at + 1] = op.block_size;
  Sizes whole = sizes;
  whole[at] *= op.block_size;
  return Part(ReshapeTo(ExpandTo(blocks, repeated), whole), axis, 0, data[at]);
}

Terms DefineDequantize(Rule& r) {
  const auto& op = r.As<ops::DequantizeLinear>();
  const Sizes data = r.x().sizes();
  // Codes may have more digits than short floats.
  const DLDataType dtype = r.y().dtype() == kFloat64 ? kFloat64 : kFloat32;
  Term codes = CastTo(r.x(), dtype);
  if (r.has(2)) codes = codes - SpreadOver(CastTo(r.x(2), dtype), op, data);
  return {codes * SpreadOver(CastTo(r.x(1), dtype), op, data)};
}

constexpr Row kArithmeticRows[] = {
    RuleOf<ops::Add>([](Rule& r) { ShareEvenly(r, 1); }),
    DefinitionOf<ops::Clip>(&DefineClip),
    DefinitionOf<ops::DequantizeLinear>(&DefineDequantize),
    RuleOf<ops::Div>([](Rule& r) {
      r.Give(0, r.dy() / r.x(1));
      r.Give(1, -(r.dy() * r.y() / r.x(1)));
    }),
    RuleOf<ops::Max>(&FoldedExtremeRule<ops::Max, ops::Greater>),
    RuleOf<ops::Mean>([](Rule& r) {
      ShareEvenly(r, 1.0 / static_cast<double>(r.num_inputs()));
    }),
    RuleOf<ops::Min>(&FoldedExtremeRule<ops::Min, ops::Less>),
    RuleOf<ops::Mod>([](Rule& r) {
      r.Give(0, r.dy());
      r.Give(1, -(r.dy() * ((r.x() - r.y()) / r.x(1))));
    }),
    RuleOf<ops::Mul>([](Rule& r) {
      r.Give(0, r.dy() * r.x(1));
      r.Give(1, r.dy() * r.x());
    }),
    RuleOf<ops::PRelu>(&PReluRule),
    RuleOf<ops::Pow>(&PowRule),
    RuleOf<ops::Sub>([](Rule& r) {
      r.Give(0, r.dy());
      r.Give(1, -r.dy());
    }),
    RuleOf<ops::Sum>([](Rule& r) { ShareEvenly(r, 1); }),
    RuleOf<ops::Where>([](Rule& r) {
      r.Give(1, Choose(r.x(), r.dy(), 0.0));
      r.Give(2, Choose(r.x(), 0.0, r.dy()));
    }),
};

}  // namespace

absl::Span<const Row> ArithmeticRows() { return kArithmeticRows; }

}  // namespace nodewise::gradient
