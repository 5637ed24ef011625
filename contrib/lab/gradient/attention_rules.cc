#include <algorithm>
#include <cmath>
#include <limits>

#include "contrib/lab/gradient/rules.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/attention.h"
#include "nodewise/ops/logic.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/reduce.h"
#include "nodewise/ops/softmax.h"
#include "nodewise/ops/unary.h"

// Attention, as products, a softmax and what hides keys.

namespace nodewise::gradient {
namespace {

using Terms = std::vector<Term>;
using Sizes = std::vector<int64_t>;

constexpr size_t kQ = 0, kK = 1, kV = 2, kMask = 3, kPastKey = 4,
                 kPastValue = 5, kValidKeys = 6;
constexpr double kHidden = -std::numeric_limits<double>::infinity();

// How far from its own place a query sees keys; below 0: without a limit.
struct KeyWindow {
  int64_t left = -1;
  int64_t right = -1;
};

class AttentionFormula {
 public:
  AttentionFormula(Rule& r, const ops::Attention23& op, KeyWindow window)
      : r_(r), w_(r.writer()), op_(op), window_(window) {}

  // Returns Y, the keys, the values, and the scores that are asked for.
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
    Term scores = Times(q, SwapLast(CastTo(k, dtype_))) * scale;
    Terms kept = {scores};
    if (op_.softcap > 0) {
      const double cap = op_.softcap;
      scores = Apply(ops::Tanh{}, scores / cap) * cap;
    }
    kept.push_back(scores);
    const Term seen = Seen();
    if (bias_.is_given()) scores = scores + bias_;
    if (seen.is_given()) scores = Choose(seen, scores, kHidden);
    kept.push_back(scores);
    const Term weights = Softened(scores, seen);
    kept.push_back(weights);
    return {Flat(Times(weights, CastTo(v, dtype_))), k, v,
            kept[static_cast<size_t>(op_.qk_matmul_output_mode)]};
  }

 private:
  bool is_flat() const { return r_.x(kQ).rank() == 3; }
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
    if (!is_flat() || sizes.size() != 4) return y;
    return ReshapeTo(Transposed(y, {0, 2, 1, 3}),
                     {sizes[0], sizes[2], sizes[1] * sizes[3]});
  }
  Term WithPast(size_t past, Term fresh) const {
    return r_.has(past) ? Joined({r_.x(past), fresh}, 2) : fresh;
  }
  // The product for each head of the queries; those that share keys are rows
  // of one product.
  Term Times(Term a, Term b) const {
    const int64_t rows = heads_ / kv_heads_ * queries_;
    const Term made =
        w_.Add(ops::MatMul{},
               {ReshapeTo(a, {batch_, kv_heads_, rows, a.sizes().back()}), b});
    return ReshapeTo(made, {batch_, heads_, queries_, made.sizes().back()});
  }

  // Returns which keys each query sees, or none if it sees all, and notes what
  // the mask adds to the scores.
  Term Seen() {
    Term seen = InRange();
    if (!r_.has(kMask)) return seen;
    const Term given = r_.x(kMask);
    const bool is_bool = IsBool(given.dtype());
    const Term mask = WithAllKeys(is_bool ? given : CastTo(given, dtype_));
    Term is_shown = mask;
    if (!is_bool) {
      bias_ = mask;
      is_shown = Apply(
          ops::Not{}, w_.Add(ops::Equal{}, {mask, w_.Number(kHidden, dtype_)}));
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

  // What a query sees by its place alone: a key by query.
  Term InRange() const {
    const Term keys = w_.Ints(Counting(0, total_));
    const int64_t past = r_.has(kPastKey) ? r_.x(kPastKey).sizes()[2] : 0;
    Term places =
        ReshapeTo(w_.Ints(Counting(past, past + queries_)), {queries_, 1});
    Terms conditions;
    if (r_.has(kValidKeys)) {
      const Term none = w_.Number(0, kInt64);
      const Term all = w_.Number(static_cast<double>(total_), kInt64);
      const Term valid =
          ReshapeTo(w_.Add(ops::Min{},
                           {w_.Add(ops::Max{}, {r_.x(kValidKeys), none}), all}),
                    {batch_, 1, 1, 1});
      conditions.push_back(w_.Add(ops::Less{}, {keys, valid}));
      // The queries are at the end of what is valid.
      if (!r_.has(kPastKey)) {
        places = places + valid - static_cast<double>(queries_);
      }
    }
    // No window needs to be longer than all keys and queries.
    const auto length = [&](int64_t given) {
      return static_cast<double>(std::min(given, total_ + queries_));
    };
    if (op_.is_causal) {
      conditions.push_back(w_.Add(ops::LessOrEqual{}, {keys, places}));
    }
    if (window_.left >= 0) {
      conditions.push_back(
          w_.Add(ops::GreaterOrEqual{}, {keys, places - length(window_.left)}));
    }
    if (window_.right >= 0) {
      conditions.push_back(
          w_.Add(ops::LessOrEqual{}, {keys, places + length(window_.right)}));
    }
    Term all;
    for (const Term& each : conditions) {
      all = all.is_given() ? Both(all, each) : each;
    }
    return all;
  }

  // A query that sees nothing has no weights, though the softmax of nothing
  // but minus infinities is NaN.
  Term Softened(Term scores, Term seen) const {
    if (!seen.is_given()) return Apply(ops::Softmax{-1}, scores);
    const Term largest = w_.Add(
        ops::ReduceMax{}, {CastTo(seen, kInt32), w_.Ints({seen.rank() - 1})});
    const Term sees_any = Greater(largest, 0);
    return Choose(sees_any,
                  Apply(ops::Softmax{-1}, Choose(sees_any, scores, 0.0)), 0.0);
  }

  Rule& r_;
  Writer& w_;
  const ops::Attention23& op_;
  const KeyWindow window_;
  Term bias_;
  DLDataType dtype_{};
  int64_t batch_ = 0;
  int64_t heads_ = 0;
  int64_t kv_heads_ = 0;
  int64_t queries_ = 0;
  int64_t total_ = 0;
};

constexpr Row kAttentionRows[] = {
    DefinitionOf<ops::Attention>([](Rule& r) {
      const auto& op = r.As<ops::Attention>();
      return AttentionFormula(r, op,
                              {op.left_window_size, op.right_window_size})
          .Write();
    }),
    DefinitionOf<ops::Attention23>([](Rule& r) {
      return AttentionFormula(r, r.As<ops::Attention23>(), {}).Write();
    }),
};

}  // namespace

absl::Span<const Row> AttentionRows() { return kAttentionRows; }

}  // namespace nodewise::gradient
