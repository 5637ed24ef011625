#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/functional/function_ref.h"
#include "contrib/lab/gradient/rules.h"
#include "nodewise/ops/attention.h"
#include "nodewise/ops/causal_conv.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/linear_attention.h"
#include "nodewise/ops/recurrent.h"
#include "nodewise/ops/softmax.h"
#include "nodewise/support/status.h"

// Operators over sequences: recurrent layers as all their steps one after the
// other, attention as products, a softmax and what hides keys, and what else
// models of language do to sequences of tokens.

namespace nodewise::gradient {
namespace {

using ops::CellActivation;

// Inputs by their places, the same in all three operators.
constexpr size_t kX = 0, kW = 1, kR = 2, kB = 3, kLengths = 4, kInitialH = 5,
                 kInitialC = 6, kPeepholes = 7;

// The activations of cells by name, each from a class of operator: without
// attributes, or with the alpha of the cell.
template <typename Class>
Term Plain(const CellActivation&, Term x) {
  return Apply(Class{}, x);
}
template <typename Class>
Term WithAlpha(const CellActivation& with, Term x) {
  return Apply(Class{static_cast<float>(with.alpha)}, x);
}
struct FunctionRow {
  std::string_view name;
  Term (*apply)(const CellActivation& with, Term x);
};
constexpr FunctionRow kFunctionsOfCells[] = {
    {"Relu", &Plain<ops::Relu>},
    {"Tanh", &Plain<ops::Tanh>},
    {"Sigmoid", &Plain<ops::Sigmoid>},
    {"Affine", [](const CellActivation& with,
                  Term x) { return x * with.alpha + with.beta; }},
    {"LeakyRelu", &WithAlpha<ops::LeakyRelu>},
    {"ThresholdedRelu", &WithAlpha<ops::ThresholdedRelu>},
    {"ScaledTanh", [](const CellActivation& with,
                      Term x) { return Tanh(x * with.beta) * with.alpha; }},
    {"HardSigmoid",
     [](const CellActivation& with, Term x) {
       return Apply(ops::HardSigmoid{static_cast<float>(with.alpha),
                                     static_cast<float>(with.beta)},
                    x);
     }},
    {"Elu", &WithAlpha<ops::Elu>},
    {"Softsign", &Plain<ops::Softsign>},
    {"Softplus", &Plain<ops::Softplus>},
};

// What one direction calculates with. Gates stand side by side in the columns
// of its weights: those of an LSTM are input, output, forget and cell, those of
// a GRU update, reset and hidden.
struct Cell {
  const CellActivation* activations = nullptr;
  double clip = 0;  // Limit of an activation's input. 0: none.
  int64_t hidden = 0;
  Term recurrent;  // By hidden element, then column.
  Term bias;       // The recurrence's, by column, or none.
  Term peepholes;  // Three times hidden, or none.

  Term Activated(size_t i, Term x) const {
    if (clip > 0) {
      x = x.writer().Add(ops::Clip{}, {x, Like(x, -clip), Like(x, clip)});
    }
    for (const FunctionRow& row : kFunctionsOfCells) {
      if (row.name == activations[i].name) return row.apply(activations[i], x);
    }
    x.writer().Fail(Internal("an activation of a cell is not known"));
    return x;
  }
  // Gates [first, last) of h times the recurrence's weights.
  Term Weighted(Term h, int64_t first, int64_t last) const {
    const int64_t begin = first * hidden;
    const int64_t end = last * hidden;
    const Term sums = Times(h, Part(recurrent, 1, begin, end));
    return bias.is_given() ? sums + Part(bias, 0, begin, end) : sums;
  }
  Term WithPeephole(Term sum, int64_t i, Term c) const {
    if (!peepholes.is_given()) return sum;
    return sum + Part(peepholes, 0, i * hidden, (i + 1) * hidden) * c;
  }
};
struct State {
  Term h, c;
};
// `inputs` are what the input and its bias contribute, by column.
using CellStep =
    absl::FunctionRef<State(const Cell& cell, Term inputs, const State& old)>;

// A layer whose sides are known.
class Layer {
 public:
  Layer(Rule& r, const ops::RecurrentAttributes& attributes,
        absl::Span<const char* const> usual)
      : r_(r), w_(r.writer), attributes_(attributes), usual_(usual) {}

  // Returns Y, Y_h and Y_c.
  Terms Write(CellStep step) {
    Term x = r_.x(kX);
    // With this layout the batch comes first, in what is made as well.
    if (attributes_.layout) x = Transposed(x, {1, 0, 2});
    const Sizes of_x = x.sizes();
    const Sizes of_r = r_.x(kR).sizes();
    auto activations = ops::ActivationsOf(attributes_, usual_);
    w_.Fail(activations.status());
    if (!w_.status().ok() || of_x.size() != 3 || of_r.size() != 3) return {};
    steps_ = of_x[0];
    batch_ = of_x[1];
    hidden_ = of_r[2];
    Terms y, h, c;
    for (int64_t d = 0; d < of_r[0]; ++d) {
      State state{Initial(kInitialH, d), Initial(kInitialC, d)};
      const auto* const own =
          activations->data() + static_cast<size_t>(d) * usual_.size();
      y.push_back(Run(d, own, x, step, &state));
      h.push_back(ReshapeTo(state.h, {1, batch_, hidden_}));
      c.push_back(ReshapeTo(state.c, {1, batch_, hidden_}));
    }
    const Terms made = {Joined(y, 1), Joined(h, 0), Joined(c, 0)};
    if (!attributes_.layout) return made;
    return {Transposed(made[0], {2, 0, 1, 3}), Transposed(made[1], {1, 0, 2}),
            Transposed(made[2], {1, 0, 2})};
  }

 private:
  Term Initial(size_t input, int64_t d) const {
    return r_.has(input) ? ItemAt(r_.x(input), attributes_.layout ? 1 : 0, d)
                         : w_.Filled(0, r_.x(kX).dtype(), {batch_, hidden_});
  }

  // Returns the outputs of all steps, and leaves the last state.
  Term Run(int64_t d, const CellActivation* activations, Term x, CellStep step,
           State* state) const {
    // Item `d` of an input that has one for each direction.
    const auto item = [&](size_t input) { return ItemAt(r_.x(input), 0, d); };
    Cell cell{activations, attributes_.clip, hidden_, SwapLast(item(kR)), {},
              {}};
    Term inputs = Times(x, SwapLast(item(kW)));
    if (r_.has(kB)) {
      const Terms biases = EqualParts(item(kB), 0, 2);
      inputs = inputs + biases[0];
      cell.bias = biases[1];
    }
    if (r_.has(kPeepholes)) cell.peepholes = item(kPeepholes);
    if (steps_ == 0) return w_.Filled(0, x.dtype(), {0, 1, batch_, hidden_});
    const Terms by_step = EqualParts(inputs, 0, steps_);
    Terms outputs(by_step.size());
    const Sizes columns = {batch_, inputs.sizes().back()};
    const bool is_reverse =
        attributes_.direction == ops::Direction::kReverse || d == 1;
    for (int64_t i = 0; i < steps_; ++i) {
      const int64_t t = is_reverse ? steps_ - 1 - i : i;
      const auto at = static_cast<size_t>(t);
      State next = step(cell, ReshapeTo(by_step[at], columns), *state);
      outputs[at] = next.h;
      if (r_.has(kLengths)) EndSequences(t, *state, &next, &outputs[at]);
      outputs[at] = ReshapeTo(outputs[at], {1, 1, batch_, hidden_});
      *state = next;
    }
    return Joined(outputs, 0);
  }

  // Sequences that are no longer than `t` keep their state and give 0. So one
  // that is gone through backwards begins at its own end.
  void EndSequences(int64_t t, const State& old, State* next,
                    Term* output) const {
    const Term goes_on =
        ReshapeTo(Greater(r_.x(kLengths), static_cast<double>(t)), {batch_, 1});
    *output = Choose(goes_on, next->h, 0.0);
    next->h = Choose(goes_on, next->h, old.h);
    next->c = Choose(goes_on, next->c, old.c);
  }

  Rule& r_;
  Writer& w_;
  const ops::RecurrentAttributes& attributes_;
  const absl::Span<const char* const> usual_;
  int64_t steps_ = 0, batch_ = 0, hidden_ = 0;
};

Terms DefineLstm(Rule& r, const ops::LSTM& op) {
  // Peepholes come in the order input, output, forget, as the gates do. The
  // output gate sees the new cell, and the other two the old one.
  const auto step = [&](const Cell& cell, Term inputs, const State& old) {
    const Terms gates = EqualParts(inputs + cell.Weighted(old.h, 0, 4), 1, 4);
    const auto gate = [&](size_t i, int64_t peephole, Term c) {
      return cell.Activated(0, cell.WithPeephole(gates[i], peephole, c));
    };
    const Term input = gate(0, 0, old.c);
    const Term forget = op.input_forget ? 1 - input : gate(2, 2, old.c);
    State next;
    next.c = forget * old.c + input * cell.Activated(1, gates[3]);
    const Term output = gate(1, 1, next.c);
    next.h = output * cell.Activated(2, next.c);
    return next;
  };
  return Layer(r, op, ops::kLstmActivations).Write(step);
}

Terms DefineGru(Rule& r, const ops::GRU& op) {
  const auto step = [&](const Cell& cell, Term inputs, const State& old) {
    const int64_t n = cell.hidden;
    const Terms gates = EqualParts(
        Part(inputs, 1, 0, 2 * n) + cell.Weighted(old.h, 0, 2), 1, 2);
    const Term update = cell.Activated(0, gates[0]);
    const Term reset = cell.Activated(0, gates[1]);
    const Term weighted = op.linear_before_reset
                              ? reset * cell.Weighted(old.h, 2, 3)
                              : cell.Weighted(reset * old.h, 2, 3);
    const Term next =
        cell.Activated(1, Part(inputs, 1, 2 * n, 3 * n) + weighted);
    return State{(1 - update) * next + update * old.h, old.c};
  };
  return Layer(r, op, ops::kGruActivations).Write(step);
}

Terms DefineRnn(Rule& r, const ops::RNN& op) {
  const auto step = [](const Cell& cell, Term inputs, const State& old) {
    return State{cell.Activated(0, inputs + cell.Weighted(old.h, 0, 1)), old.c};
  };
  return Layer(r, op, ops::kRnnActivations).Write(step);
}

constexpr size_t kQ = 0, kK = 1, kV = 2, kMask = 3, kPastKey = 4,
                 kPastValue = 5, kValidKeys = 6;
constexpr double kHidden = -std::numeric_limits<double>::infinity();

// How far from its own place a query sees keys; below 0: without a limit.
struct KeyWindow {
  int64_t left = -1, right = -1;
};

class AttentionFormula {
 public:
  AttentionFormula(Rule& r, const ops::Attention23& op, KeyWindow window)
      : r_(r), w_(r.writer), op_(op), window_(window) {}

  // Returns Y, the keys, the values, and the scores that are asked for: the
  // operator's mode counts their stages, the product, then after the soft cap,
  // the mask and the softmax.
  Terms Write() {
    const Term q = InHeads(r_.x(kQ), op_.q_num_heads);
    const Term k = WithPast(kPastKey, InHeads(r_.x(kK), op_.kv_num_heads));
    const Term v = WithPast(kPastValue, InHeads(r_.x(kV), op_.kv_num_heads));
    const Sizes of_q = q.sizes();
    const Sizes of_k = k.sizes();
    if (of_q.size() != 4 || of_k.size() != 4) return {};
    dtype_ = q.dtype();
    batch_ = of_q[0];
    heads_ = of_q[1];
    kv_heads_ = of_k[1];
    queries_ = of_q[2];
    total_ = of_k[2];
    const double scale = op_.scale.has_value()
                             ? double{*op_.scale}
                             : 1 / std::sqrt(static_cast<double>(of_q[3]));
    Term scores = TimesByHead(q, SwapLast(CastTo(k, dtype_))) * scale;
    Terms kept = {scores};
    const double cap = op_.softcap;
    if (cap > 0) scores = Tanh(scores / cap) * cap;
    kept.push_back(scores);
    const Term seen = SeenKeys();
    if (bias_.is_given()) scores = scores + bias_;
    if (seen.is_given()) scores = Choose(seen, scores, kHidden);
    kept.push_back(scores);
    const Term weights = SoftmaxOrZero(scores, seen);
    kept.push_back(weights);
    return {Flat(TimesByHead(weights, CastTo(v, dtype_))), k, v,
            kept[static_cast<size_t>(op_.qk_matmul_output_mode)]};
  }

 private:
  // Heads that stand side by side become a side of their own.
  Term InHeads(Term x, int64_t heads) const {
    const Sizes sizes = x.sizes();
    if (sizes.size() != 3) return x;
    return Transposed(
        ReshapeTo(x, {sizes[0], sizes[1], heads, sizes[2] / heads}),
        {0, 2, 1, 3});
  }
  Term Flat(Term y) const {
    const Sizes sizes = y.sizes();
    if (r_.x(kQ).rank() != 3 || sizes.size() != 4) return y;
    return ReshapeTo(Transposed(y, {0, 2, 1, 3}),
                     {sizes[0], sizes[2], sizes[1] * sizes[3]});
  }
  Term WithPast(size_t past, Term fresh) const {
    return r_.has(past) ? Joined({r_.x(past), fresh}, 2) : fresh;
  }
  // The product for each head of the queries; those that share keys are rows
  // of one product.
  Term TimesByHead(Term a, Term b) const {
    const int64_t rows = heads_ / kv_heads_ * queries_;
    const Term made =
        Times(ReshapeTo(a, {batch_, kv_heads_, rows, a.sizes().back()}), b);
    return ReshapeTo(made, {batch_, heads_, queries_, made.sizes().back()});
  }

  // Returns which keys each query sees, or none if it sees all, and notes what
  // the mask adds to the scores.
  Term SeenKeys() {
    Term seen = InRange();
    if (!r_.has(kMask)) return seen;
    const Term given = r_.x(kMask);
    const bool is_bool = IsBool(given.dtype());
    const Term mask = WithAllKeys(is_bool ? given : CastTo(given, dtype_));
    Term is_shown = mask;
    if (!is_bool) {
      bias_ = mask;
      is_shown = Not(Equal(mask, w_.Number(kHidden, dtype_)));
    }
    return seen.is_given() ? Both(seen, is_shown) : is_shown;
  }
  // Keys that the mask does not mention are hidden.
  Term WithAllKeys(Term mask) const {
    Sizes sizes = mask.sizes();
    if (sizes.empty() || sizes.back() == total_) return mask;
    const auto last = static_cast<int64_t>(sizes.size()) - 1;
    sizes.back() = total_ - sizes.back();
    const double hidden = IsBool(mask.dtype()) ? 0 : kHidden;
    return Joined({mask, w_.Filled(hidden, mask.dtype(), sizes)}, last);
  }

  // Which keys each query may see by its place, before any mask.
  Term InRange() const {
    const Term keys = w_.Ints(Counting(0, total_));
    const int64_t past = r_.has(kPastKey) ? r_.x(kPastKey).sizes()[2] : 0;
    Term places =
        ReshapeTo(w_.Ints(Counting(past, past + queries_)), {queries_, 1});
    Term all;
    const auto require = [&all](Term condition) {
      all = all.is_given() ? Both(all, condition) : condition;
    };
    if (r_.has(kValidKeys)) {
      const Term valid = ReshapeTo(
          AtMost(AtLeast(r_.x(kValidKeys), w_.Int(0)), w_.Int(total_)),
          {batch_, 1, 1, 1});
      require(Less(keys, valid));
      // The queries are at the end of what is valid.
      if (!r_.has(kPastKey)) {
        places = places + valid - static_cast<double>(queries_);
      }
    }
    // No window needs to be longer than all keys and queries.
    const auto length = [&](int64_t given) {
      return static_cast<double>(std::min(given, total_ + queries_));
    };
    if (op_.is_causal) require(Apply(ops::LessOrEqual{}, keys, places));
    if (window_.left >= 0) {
      const Term first = places - length(window_.left);
      require(Apply(ops::GreaterOrEqual{}, keys, first));
    }
    if (window_.right >= 0) {
      const Term last = places + length(window_.right);
      require(Apply(ops::LessOrEqual{}, keys, last));
    }
    return all;
  }

  // A query that sees nothing has no weights, though the softmax of nothing
  // but minus infinities is NaN.
  Term SoftmaxOrZero(Term scores, Term seen) const {
    if (!seen.is_given()) return Apply(ops::Softmax{-1}, scores);
    const Term sees_any =
        Greater(MaxOver(CastTo(seen, kInt32), {seen.rank() - 1}), 0);
    return Choose(sees_any,
                  Apply(ops::Softmax{-1}, Choose(sees_any, scores, 0.0)), 0.0);
  }

  Rule& r_;
  Writer& w_;
  const ops::Attention23& op_;
  const KeyWindow window_;
  Term bias_;
  DLDataType dtype_{};
  int64_t batch_ = 0, heads_ = 0, kv_heads_ = 0, queries_ = 0;
  int64_t total_ = 0;  // Keys, those of the past included.
};

// The elements that turn are pairs; the others are copied.
Terms DefineRotary(Rule& r, const ops::RotaryEmbedding& op) {
  const Sizes given = r.x().sizes();
  const bool is_flat = given.size() == 3;
  if (!is_flat && given.size() != 4) return {};
  const int64_t heads = op.num_heads;
  const Term x =
      is_flat ? ReshapeTo(r.x(), {given[0], given[1], heads, given[2] / heads})
              : r.x();
  const Sizes sizes = x.sizes();
  const int64_t turned =
      op.rotary_embedding_dim == 0 ? sizes[3] : op.rotary_embedding_dim;
  const auto angle = [&](size_t input) {
    Term cache = CastTo(r.x(input), x.dtype());
    if (r.has(3)) cache = Gathered(cache, 0, r.x(3));
    return ReshapeTo(cache, is_flat ? Sizes{given[0], given[1], 1, turned / 2}
                                    : Sizes{given[0], 1, given[2], turned / 2});
  };
  const Term cos = angle(1);
  const Term sin = angle(2);
  // The side along which the two of a pair are apart.
  const int64_t apart = op.interleaved ? 4 : 3;
  const Sizes part = {sizes[0], sizes[1], sizes[2], turned};
  Sizes half = part;
  half[3] = turned / 2;
  Sizes paired = op.interleaved ? half : part;
  if (op.interleaved) paired.push_back(2);
  const Terms pair =
      EqualParts(ReshapeTo(Part(x, 3, 0, turned), paired), apart, 2);
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

// What an input is at each step, in this shape, of which one side may be open;
// empty if it is not given.
Terms ByStep(const Rule& r, size_t input, DLDataType dtype, Sizes shape) {
  if (!r.has(input)) return {};
  Terms parts = EqualParts(CastTo(r.x(input), dtype), 1, r.x().sizes()[1]);
  int64_t rest = parts[0].count();
  for (const int64_t side : shape) rest /= side > 0 ? side : 1;
  for (int64_t& side : shape) side = side < 0 ? rest : side;
  for (Term& part : parts) part = ReshapeTo(part, shape);
  return parts;
}

// All steps of LinearAttention, for all heads of the keys at once. The state is
// a matrix of keys by values: each step lets it decay, adds the product of its
// key and its value, of which what the state already has for that key may be
// taken off, and reads it with its queries.
Terms DefineLinearAttention(Rule& r, const ops::LinearAttention& op) {
  const Sizes q = r.x(0).sizes();
  const Sizes v = r.x(2).sizes();
  if (q.size() != 3 || v.size() != 3) return {};
  const int64_t batch = q[0];
  const int64_t heads = op.kv_num_heads;
  const int64_t key_size = q[2] / op.q_num_heads;
  const int64_t value_size = v[2] / heads;
  const int64_t made_size = op.q_num_heads * value_size;
  // The more exact type of the two.
  DLDataType dtype = r.x(0).dtype();
  if (r.has(3) && r.x(3).dtype().bits > dtype.bits) dtype = r.x(3).dtype();
  Term state = r.has(3) ? CastTo(r.x(3), dtype)
                        : r.writer.Filled(0, dtype,
                                          {batch, heads, key_size, value_size});
  if (q[1] == 0)
    return {r.writer.Filled(0, dtype, {batch, 0, made_size}), state};
  const Terms queries =
      ByStep(r, 0, dtype, {batch, heads, op.q_num_heads / heads, key_size});
  const Terms keys = ByStep(r, 1, dtype, {batch, heads, 1, key_size});
  const Terms values = ByStep(r, 2, dtype, {batch, heads, 1, value_size});
  const Terms decays = ByStep(r, 4, dtype, {batch, heads, -1, 1});
  const Terms betas = ByStep(r, 5, dtype, {batch, -1, 1, 1});
  const double scale = op.scale != 0
                           ? double{op.scale}
                           : 1 / std::sqrt(static_cast<double>(key_size));
  Terms y;
  for (size_t t = 0; t < queries.size(); ++t) {
    if (!decays.empty()) state = state * Exp(decays[t]);
    Term written = values[t];
    if (!betas.empty()) {
      written = betas[t] * (written - Times(keys[t], state));
    }
    state = state + SwapLast(keys[t]) * written;
    y.push_back(
        ReshapeTo(Times(queries[t], state) * scale, {batch, 1, made_size}));
  }
  return {Joined(y, 1), state};
}

// The state precedes the data, and the end of both is the next state.
Terms DefineCausalConv(Rule& r, const ops::CausalConvWithState& op) {
  const Sizes sizes = r.x().sizes();
  const Sizes weights = r.x(1).sizes();
  if (sizes.size() != 3 || weights.size() != 3) return {};
  const int64_t kept = weights[2] - 1;
  Term x = r.x();
  if (kept > 0) {
    const Term past =
        r.has(3) ? r.x(3)
                 : r.writer.Filled(0, x.dtype(), {sizes[0], sizes[1], kept});
    x = Joined({past, x}, 2);
  }
  // Each channel is convolved by itself.
  ops::Conv conv;
  conv.group = sizes[1];
  Terms inputs = {x, r.x(1)};
  if (r.has(2)) inputs.push_back(r.x(2));
  Term y = r.writer.Add(conv, inputs);
  if (op.activation != ops::CausalActivation::kNone) y = y * Sigmoid(y);
  return {y, Part(x, 2, sizes[2], sizes[2] + kept)};
}

// Each element of the update has the index of its place along the axis.
Terms DefineTensorScatter(Rule& r, const ops::TensorScatter& op) {
  const Sizes cache = r.x().sizes();
  const Sizes update = r.x(1).sizes();
  const auto rank = static_cast<int64_t>(cache.size());
  if (rank == 0 || update.size() != cache.size()) return {};
  const int64_t axis = FromFront(op.axis, rank);
  const auto at = static_cast<size_t>(axis);
  Writer& w = r.writer;
  Term places = ReshapeTo(w.Ints(Counting(0, update[at])),
                          LineAlong(cache.size(), axis, update[at]));
  if (r.has(2)) {
    places = places + ReshapeTo(r.x(2), LineAlong(cache.size(), 0, cache[0]));
  }
  if (op.mode == ops::CacheMode::kCircular) {
    places = Apply(ops::Mod{}, places, w.Ints({cache[at]}));
  }
  return {w.Add(ops::ScatterElements{axis},
                {r.x(), ExpandTo(places, update), r.x(1)})};
}

constexpr Row kSequenceRows[] = {
    DefinitionOf<ops::Attention>([](Rule& r) {
      const auto& op = r.As<ops::Attention>();
      return AttentionFormula(r, op,
                              {op.left_window_size, op.right_window_size})
          .Write();
    }),
    DefinitionOf<ops::Attention23>([](Rule& r) {
      return AttentionFormula(r, r.As<ops::Attention23>(), {}).Write();
    }),
    DefinitionOf<ops::CausalConvWithState, &DefineCausalConv>(),
    DefinitionOf<ops::GRU, &DefineGru>(),
    DefinitionOf<ops::LSTM, &DefineLstm>(),
    DefinitionOf<ops::LinearAttention, &DefineLinearAttention>(),
    DefinitionOf<ops::RNN, &DefineRnn>(),
    DefinitionOf<ops::RotaryEmbedding, &DefineRotary>(),
    DefinitionOf<ops::TensorScatter, &DefineTensorScatter>(),
};

}  // namespace

absl::Span<const Row> SequenceRows() { return kSequenceRows; }

}  // namespace nodewise::gradient
