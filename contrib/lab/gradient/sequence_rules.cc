#include <cmath>

#include "contrib/lab/gradient/rules.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/attention.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/indexing.h"
#include "nodewise/ops/linear_attention.h"
#include "nodewise/ops/matmul.h"

// What models of language do to sequences of tokens beside attention.

namespace nodewise::gradient {
namespace {

using Terms = std::vector<Term>;
using Sizes = std::vector<int64_t>;

// The elements that turn are pairs; the others are copied.
Terms DefineRotary(Rule& r) {
  const auto& op = r.As<ops::RotaryEmbedding>();
  const Sizes given = r.x().sizes();
  const bool is_flat = given.size() == 3;
  if (!is_flat && given.size() != 4) return {};
  Term x = r.x();
  if (is_flat) {
    const int64_t heads = op.num_heads;
    x = ReshapeTo(x, {given[0], given[1], heads, given[2] / heads});
  }
  const Sizes sizes = x.sizes();
  const int64_t turned =
      op.rotary_embedding_dim == 0 ? sizes[3] : op.rotary_embedding_dim;
  const auto angle = [&](size_t input) {
    Term cache = CastTo(r.x(input), x.dtype());
    if (r.has(3)) {
      cache = r.writer().Add(ops::Gather{0}, {cache, r.x(3)});
    }
    Sizes shape = {given[0], given[1], 1, turned / 2};
    if (!is_flat) shape = {given[0], 1, given[2], turned / 2};
    return ReshapeTo(cache, shape);
  };
  const Term cos = angle(1);
  const Term sin = angle(2);
  // The side along which the two of a pair are apart.
  const int64_t apart = op.interleaved ? 4 : 3;
  Sizes paired = {sizes[0], sizes[1], sizes[2], turned};
  const Sizes part = paired;
  if (op.interleaved) paired = {sizes[0], sizes[1], sizes[2], turned / 2, 2};
  const Terms pair =
      EqualParts(ReshapeTo(Part(x, 3, 0, turned), paired), apart, 2);
  Sizes half = part;
  half[3] = turned / 2;
  const Term one = ReshapeTo(pair[0], half);
  const Term two = ReshapeTo(pair[1], half);
  paired.back() = op.interleaved ? 1 : turned / 2;
  const Term y = ReshapeTo(Joined({ReshapeTo(cos * one - sin * two, paired),
                                   ReshapeTo(sin * one + cos * two, paired)},
                                  apart),
                           part);
  if (turned == sizes[3]) return {ReshapeTo(y, given)};
  return {ReshapeTo(Joined({y, Part(x, 3, turned, sizes[3])}, 3), given)};
}

// All steps of LinearAttention, for all heads of the keys at once.
class StateSteps {
 public:
  explicit StateSteps(Rule& r)
      : r_(r), w_(r.writer()), op_(r.As<ops::LinearAttention>()) {}

  Terms Write() {
    const Sizes q = r_.x(0).sizes();
    const Sizes v = r_.x(2).sizes();
    if (q.size() != 3 || v.size() != 3) return {};
    batch_ = q[0];
    steps_ = q[1];
    key_size_ = q[2] / op_.q_num_heads;
    value_size_ = v[2] / op_.kv_num_heads;
    dtype_ = r_.x(0).dtype();
    if (r_.has(3) && r_.x(3).dtype().bits > dtype_.bits) {
      dtype_ = r_.x(3).dtype();
    }
    const int64_t heads = op_.kv_num_heads;
    Term state = r_.has(3) ? CastTo(r_.x(3), dtype_)
                           : w_.Filled(0, dtype_,
                                       {batch_, heads, key_size_, value_size_});
    if (steps_ == 0) {
      return {w_.Filled(0, dtype_, {batch_, 0, op_.q_num_heads * value_size_}),
              state};
    }
    const int64_t group = op_.q_num_heads / heads;
    const Terms queries = ByStep(0, {batch_, heads, group, key_size_});
    const Terms keys = ByStep(1, {batch_, heads, 1, key_size_});
    const Terms values = ByStep(2, {batch_, heads, 1, value_size_});
    const Terms decays = ByStep(4, {batch_, heads, -1, 1});
    const Terms betas = ByStep(5, {batch_, -1, 1, 1});
    const double scale = op_.scale != 0
                             ? double{op_.scale}
                             : 1 / std::sqrt(static_cast<double>(key_size_));
    Terms y;
    for (size_t t = 0; t < queries.size(); ++t) {
      if (!decays.empty()) state = state * Exp(decays[t]);
      Term written = values[t];
      if (!betas.empty()) {
        written = betas[t] * (written - Times(keys[t], state));
      }
      state = state + SwapLast(keys[t]) * written;
      y.push_back(ReshapeTo(Times(queries[t], state) * scale,
                            {batch_, 1, op_.q_num_heads * value_size_}));
    }
    return {Joined(y, 1), state};
  }

 private:
  static Term Times(Term a, Term b) {
    return a.writer().Add(ops::MatMul{}, {a, b});
  }
  // What an input is at each step, in this shape, of which one side may be
  // open; empty if it is not given.
  Terms ByStep(size_t input, Sizes shape) const {
    if (!r_.has(input)) return {};
    Terms parts = EqualParts(CastTo(r_.x(input), dtype_), 1, steps_);
    int64_t rest = parts[0].count();
    for (const int64_t side : shape) rest /= side > 0 ? side : 1;
    for (int64_t& side : shape) side = side < 0 ? rest : side;
    for (Term& part : parts) part = ReshapeTo(part, shape);
    return parts;
  }

  Rule& r_;
  Writer& w_;
  const ops::LinearAttention& op_;
  DLDataType dtype_{};
  int64_t batch_ = 0;
  int64_t steps_ = 0;
  int64_t key_size_ = 0;
  int64_t value_size_ = 0;
};

// The state precedes the data, and its end is the next one.
Terms DefineCausalConv(Rule& r) {
  const auto& op = r.As<ops::CausalConvWithState>();
  const Sizes sizes = r.x().sizes();
  const Sizes weights = r.x(1).sizes();
  if (sizes.size() != 3 || weights.size() != 3) return {};
  const int64_t kept = weights[2] - 1;
  Term x = r.x();
  if (kept > 0) {
    const Term past =
        r.has(3) ? r.x(3)
                 : r.writer().Filled(0, x.dtype(), {sizes[0], sizes[1], kept});
    x = Joined({past, x}, 2);
  }
  ops::Conv conv;
  conv.group = sizes[1];
  Terms inputs = {x, r.x(1)};
  if (r.has(2)) inputs.push_back(r.x(2));
  Term y = r.writer().Add(conv, inputs);
  if (op.activation != ops::CausalActivation::kNone) y = y * Sigmoid(y);
  return {y, Part(x, 2, sizes[2], sizes[2] + kept)};
}

// Each element of the update has the index of its place along the axis.
Terms DefineTensorScatter(Rule& r) {
  const auto& op = r.As<ops::TensorScatter>();
  const Sizes cache = r.x().sizes();
  const Sizes update = r.x(1).sizes();
  const auto rank = static_cast<int64_t>(cache.size());
  if (rank == 0 || update.size() != cache.size()) return {};
  const int64_t axis = op.axis < 0 ? op.axis + rank : op.axis;
  const auto at = static_cast<size_t>(axis);
  Writer& w = r.writer();
  Sizes along(cache.size(), 1);
  along[at] = update[at];
  Term places = ReshapeTo(w.Ints(Counting(0, update[at])), along);
  if (r.has(2)) {
    Sizes by_item(cache.size(), 1);
    by_item[0] = cache[0];
    places = places + ReshapeTo(r.x(2), by_item);
  }
  if (op.mode == ops::CacheMode::kCircular) {
    places = w.Add(ops::Mod{}, {places, w.Ints({cache[at]})});
  }
  ops::ScatterElements scatter;
  scatter.axis = axis;
  return {w.Add(scatter, {r.x(), ExpandTo(places, update), r.x(1)})};
}

constexpr Row kSequenceRows[] = {
    DefinitionOf<ops::CausalConvWithState>(&DefineCausalConv),
    DefinitionOf<ops::LinearAttention>(
        [](Rule& r) { return StateSteps(r).Write(); }),
    DefinitionOf<ops::RotaryEmbedding>(&DefineRotary),
    DefinitionOf<ops::TensorScatter>(&DefineTensorScatter),
};

}  // namespace

absl::Span<const Row> SequenceRows() { return kSequenceRows; }

}  // namespace nodewise::gradient
