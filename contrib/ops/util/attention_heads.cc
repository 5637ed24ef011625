#include "contrib/ops/util/attention_heads.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fmt/format.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kMask = AttentionInputs::kMask;

// Past and new keys (or values) of all heads: batch, head, key, element.
std::vector<double> Joined(const EvalArgs& args, size_t i, size_t past,
                           const AttentionSides& s, int64_t size) {
  const std::vector<double> fresh = ToDoubles(args.in(i));
  const std::vector<double> old =
      args.has(past) ? ToDoubles(args.in(past)) : std::vector<double>();
  std::vector<double> all(
      static_cast<size_t>(s.batch * s.kv_heads * s.total() * size));
  double* to = all.data();
  for (int64_t head = 0; head < s.batch * s.kv_heads; ++head) {
    to = std::copy_n(old.data() + head * s.past * size, s.past * size, to);
    for (int64_t key = 0; key < s.keys; ++key) {
      const int64_t row =
          s.is_flat ? (head / s.kv_heads * s.keys + key) * s.kv_heads +
                          head % s.kv_heads
                    : head * s.keys + key;
      to = std::copy_n(fresh.data() + row * size, size, to);
    }
  }
  return all;
}

}  // namespace

absl::StatusOr<AttentionMask> AttentionMask::Make(const EvalArgs& args,
                                                  const AttentionSides& s) {
  AttentionMask mask;
  if (!args.has(kMask)) return mask;
  const auto shape = args.shape(kMask);
  const int64_t most[] = {s.batch, s.heads, s.queries, s.total()};
  if (shape.empty() || shape.size() > 4) {
    return InputError(
        kMask, fmt::format("has rank {}, expected 1 to 4", shape.size()));
  }
  const std::vector<int64_t> strides = StridesOf(shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    const size_t side = 4 - shape.size() + i;
    const bool is_last = side == 3;
    if (shape[i] != 1 && shape[i] != most[side] &&
        !(is_last && shape[i] < most[side])) {
      return InputError(kMask, fmt::format("is {} along side {}, expected 1 or "
                                           "{}",
                                           shape[i], i, most[side]));
    }
    const bool repeats = shape[i] == 1 && most[side] != 1 && !is_last;
    mask.strides_[side] = repeats ? 0 : strides[i];
  }
  mask.given_ = shape.back();
  mask.values_ = ToDoubles(args.in(kMask));
  if (!IsBool(args.dtype(kMask))) return mask;
  for (double& value : mask.values_) value = value != 0 ? 0 : -kInfinity;
  return mask;
}

double AttentionMask::at(int64_t batch, int64_t head, int64_t query,
                         int64_t key) const {
  if (values_.empty()) return 0;
  if (key >= given_) return -kInfinity;
  return values_[static_cast<size_t>(batch * strides_[0] + head * strides_[1] +
                                     query * strides_[2] + key)];
}

VisibleKeys::Range VisibleKeys::Of(int64_t batch, int64_t query) const {
  Range range{0, total_};
  int64_t place = query + past_;
  if (!lengths_.empty()) {
    range.last =
        std::clamp<int64_t>(lengths_[static_cast<size_t>(batch)], 0, total_);
    if (!has_past_) place = query + range.last - queries_;
  }
  if (is_causal_) range.last = std::min(range.last, place + 1);
  // No window needs to be longer than all keys and queries.
  const int64_t most = total_ + queries_;
  if (window_.left >= 0) {
    range.first = std::max(range.first, place - std::min(window_.left, most));
  }
  if (window_.right >= 0) {
    range.last =
        std::min(range.last, place + std::min(window_.right, most) + 1);
  }
  return range;
}

AttentionHeads::AttentionHeads(const ops::Attention23& op,
                               const AttentionSides& s, const EvalArgs& args,
                               AttentionMask mask, VisibleKeys visible)
    : op_(op),
      s_(s),
      q_(ToDoubles(args.in(0))),
      k_(Joined(args, 1, AttentionInputs::kPastKey, s, s.head_size)),
      v_(Joined(args, 2, AttentionInputs::kPastValue, s, s.value_size)),
      mask_(std::move(mask)),
      visible_(std::move(visible)),
      dtype_(args.dtype(0)),
      scale_(op.scale.has_value()
                 ? double{*op.scale}
                 : 1 / std::sqrt(static_cast<double>(s.head_size))) {}

void AttentionHeads::Score(int64_t head, int64_t query, const double* q,
                           bool with_bounds, double* kept, Row* row) const {
  const int64_t batch = head / s_.heads;
  const VisibleKeys::Range visible = visible_.Of(batch, query);
  row->sees_any = false;
  const double* k = k_.data() + KvHead(head) * s_.total() * s_.head_size;
  for (int64_t key = 0; key < s_.total(); ++key, k += s_.head_size) {
    if (kept == nullptr && !visible.has(key)) {
      row->scores[static_cast<size_t>(key)] = -kInfinity;
      continue;
    }
    SumOfTerms sum{static_cast<double>(s_.head_size) + 4};
    for (int64_t i = 0; i < s_.head_size; ++i) sum.result += q[i] * k[i];
    sum.result *= scale_;
    double score = sum.result;
    if (with_bounds) {
      for (int64_t i = 0; i < s_.head_size; ++i) {
        const double term = scale_ * q[i] * k[i];
        sum.absolute += std::fabs(term);
        sum.squares += term * term;
      }
    }
    if (kept != nullptr && op_.qk_matmul_output_mode == 0) kept[key] = score;
    if (op_.softcap > 0) score = std::tanh(score / op_.softcap) * op_.softcap;
    if (kept != nullptr && op_.qk_matmul_output_mode == 1) kept[key] = score;
    const double bias = visible.has(key)
                            ? mask_.at(batch, head % s_.heads, query, key)
                            : -kInfinity;
    if (bias != -kInfinity) row->sees_any = true;
    score = visible.has(key) ? score + bias : -kInfinity;
    if (kept != nullptr && op_.qk_matmul_output_mode == 2) kept[key] = score;
    row->scores[static_cast<size_t>(key)] = score;
    if (!with_bounds || score == -kInfinity) continue;
    const SumBound bound = BoundSum(dtype_, sum);
    const double rounding = 4 * HalfUlp(dtype_, score);
    row->error.proved = std::max(row->error.proved, bound.proved + rounding);
    row->error.expected =
        std::max(row->error.expected, bound.expected + rounding);
  }
}

void AttentionHeads::Soften(Row* row) const {
  // A query that sees nothing has no weights, though exp(-inf - -inf) is NaN.
  if (!row->sees_any) {
    return std::fill(row->scores.begin(), row->scores.end(), 0.0);
  }
  double largest = -kInfinity;
  for (const double score : row->scores) {
    if (!(score <= largest)) largest = score;  // True for NaN too.
  }
  double sum = 0;
  for (double& score : row->scores) {
    score = std::exp(score - largest);
    sum += score;
  }
  for (double& score : row->scores) score /= sum;
}

// y = the weighted values. A kernel's weights have a relative error of twice
// the error of its scores, plus the roundings of exp and the sum.
void AttentionHeads::Weigh(int64_t head, const Row& row, int64_t at,
                           const Results& results) const {
  double* const y = results.y + at;
  std::fill_n(y, s_.value_size, 0.0);
  if (!row.sees_any) {
    if (results.proved == nullptr) return;
    std::fill_n(results.proved + at, s_.value_size, 0.0);
    std::fill_n(results.expected + at, s_.value_size, 0.0);
    return;
  }
  const double* const v = v_.data() + KvHead(head) * s_.total() * s_.value_size;
  for (int64_t key = 0; key < s_.total(); ++key) {
    const double weight = row.scores[static_cast<size_t>(key)];
    const double* const value = v + key * s_.value_size;
    for (int64_t i = 0; i < s_.value_size; ++i) y[i] += weight * value[i];
  }
  if (results.proved == nullptr) return;
  const auto total = static_cast<double>(s_.total());
  const double u = UnitRoundoff(dtype_);
  for (int64_t i = 0; i < s_.value_size; ++i) {
    double absolute = 0;
    for (int64_t key = 0; key < s_.total(); ++key) {
      absolute += row.scores[static_cast<size_t>(key)] *
                  std::fabs(v[key * s_.value_size + i]);
    }
    const double rounding = HalfUlp(dtype_, y[i]);
    results.proved[at + i] =
        absolute * (2 * std::expm1(row.error.proved) + (2 * total + 8) * u) +
        rounding;
    results.expected[at + i] =
        absolute * (2 * std::expm1(row.error.expected) +
                    kExpectedFactor * (std::sqrt(total) + 4) * u) +
        rounding;
  }
}

void AttentionHeads::Run(int64_t head, const Results& results) const {
  Row row{std::vector<double>(static_cast<size_t>(s_.total()))};
  const int64_t batch = head / s_.heads;
  for (int64_t query = 0; query < s_.queries; ++query) {
    const int64_t flat =
        (batch * s_.queries + query) * s_.heads + head % s_.heads;
    const int64_t at = s_.is_flat ? flat : head * s_.queries + query;
    double* const kept =
        results.scores == nullptr
            ? nullptr
            : results.scores + (head * s_.queries + query) * s_.total();
    row.error = {0, 0};
    Score(head, query, q_.data() + at * s_.head_size, results.proved != nullptr,
          kept, &row);
    Soften(&row);
    if (kept != nullptr && op_.qk_matmul_output_mode == 3) {
      std::copy(row.scores.begin(), row.scores.end(), kept);
    }
    Weigh(head, row, at * s_.value_size, results);
  }
}

}  // namespace nodewise
