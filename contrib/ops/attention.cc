#include "nodewise/ops/attention.h"

#include <cmath>
#include <limits>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/attention_parts.h"
#include "contrib/ops/util/sum_bounds.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kMask = 3, kPastKey = 4, kPastValue = 5, kLengths = 6;

// Sides of one evaluation.
struct Sides {
  int64_t batch = 0;
  int64_t heads = 0;     // The queries' heads.
  int64_t kv_heads = 0;  // Each serves the same number of query heads.
  int64_t queries = 0;
  int64_t keys = 0;  // New ones.
  int64_t past = 0;
  int64_t head_size = 0;
  int64_t value_size = 0;
  bool is_flat = false;  // Rank 3: the heads stand side by side.

  int64_t total() const { return past + keys; }
};

struct Attention : ops::Attention {
  static constexpr auto Fields() {
    return FieldList(
        Field<&Attention::is_causal>("is_causal"),
        Field<&Attention::kv_num_heads>("kv_num_heads"),
        Field<&Attention::q_num_heads>("q_num_heads"),
        Field<&Attention::qk_matmul_output_mode>("qk_matmul_output_mode"),
        Field<&Attention::scale>("scale"),
        Field<&Attention::softcap>("softcap"),
        Field<&Attention::softmax_precision>("softmax_precision"));
  }
  absl::Status Check(const Inputs& in) const;
  absl::StatusOr<OutputInfos> Infer(const Inputs& in, size_t num_outputs) const;
  absl::Status Evaluate(EvalArgs& args) const;
  double Flops(const Inputs& in, absl::Span<const OutputInfo> out) const;

 private:
  // None while a side is not known.
  absl::StatusOr<std::optional<Sides>> SidesOf(const Inputs& in) const;
};

absl::StatusOr<std::optional<Sides>> Attention::SidesOf(
    const Inputs& in) const {
  const auto q = in.type(0).sizes();
  const auto k = in.type(1).sizes();
  const auto v = in.type(2).sizes();
  if (!q || !k || !v) return std::nullopt;
  Sides sides;
  sides.batch = (*q)[0];
  sides.is_flat = q->size() == 3;
  if (sides.is_flat) {
    sides.heads = q_num_heads;
    sides.kv_heads = kv_num_heads;
    sides.queries = (*q)[1];
    sides.keys = (*k)[1];
    if ((*q)[2] % q_num_heads != 0 || (*k)[2] % kv_num_heads != 0 ||
        (*v)[2] % kv_num_heads != 0) {
      return absl::InvalidArgumentError(
          "the last sides of Q, K and V are no multiples of the heads");
    }
    sides.head_size = (*q)[2] / q_num_heads;
    sides.value_size = (*v)[2] / kv_num_heads;
  } else {
    sides.heads = (*q)[1];
    sides.kv_heads = (*k)[1];
    sides.queries = (*q)[2];
    sides.keys = (*k)[2];
    sides.head_size = (*q)[3];
    sides.value_size = (*v)[3];
  }
  const int64_t key_size = sides.is_flat ? (*k)[2] / kv_num_heads : (*k)[3];
  const bool v_fits = sides.is_flat
                          ? (*v)[1] == sides.keys
                          : (*v)[1] == sides.kv_heads && (*v)[2] == sides.keys;
  if ((*k)[0] != sides.batch || (*v)[0] != sides.batch || !v_fits ||
      key_size != sides.head_size || sides.kv_heads < 1 ||
      sides.heads % sides.kv_heads != 0) {
    return absl::InvalidArgumentError(fmt::format(
        "Q of {}, K of {} and V of {} do not fit, expected the same batch, "
        "keys, head size, and Q's heads a multiple of K's",
        ToString(*in.type(0).shape), ToString(*in.type(1).shape),
        ToString(*in.type(2).shape)));
  }
  if (!in.has(kPastKey)) return sides;
  const auto past = in.type(kPastKey).sizes();
  if (!past) return std::nullopt;
  sides.past = (*past)[2];
  const TensorType expected[] = {
      TensorType({},
                 {sides.batch, sides.kv_heads, sides.past, sides.head_size}),
      TensorType({},
                 {sides.batch, sides.kv_heads, sides.past, sides.value_size})};
  for (const size_t i : {kPastKey, kPastValue}) {
    TensorType found = in.type(i);
    found.dtype = {};
    if (AreCompatible(found, expected[i - kPastKey])) continue;
    return InputError(i, fmt::format("is of {}, expected {}", ToString(found),
                                     ToString(expected[i - kPastKey])));
  }
  return sides;
}

absl::Status Attention::Check(const Inputs& in) const {
  NODEWISE_RETURN_IF_ERROR(
      All(RequireFloat(in, 0), RequireFloat(in, 1), RequireFloat(in, 2),
          RequireRank(in, 0, 3, 4), RequireRank(in, kPastKey, 4),
          RequireRank(in, kPastValue, 4), RequireRank(in, kLengths, 1),
          RequireType(in, kLengths, kInt64)));
  if (qk_matmul_output_mode < 0 || qk_matmul_output_mode > 3) {
    return AttributeError(
        "qk_matmul_output_mode",
        fmt::format("is {}, expected 0 to 3", qk_matmul_output_mode));
  }
  if (in.has(kPastKey) != in.has(kPastValue)) {
    return absl::InvalidArgumentError(
        "one of past_key and past_value is given, expected both or none");
  }
  if (!in.type(0).has_rank()) return absl::OkStatus();
  const int rank = in.type(0).rank();
  NODEWISE_RETURN_IF_ERROR(
      All(RequireRank(in, 1, rank), RequireRank(in, 2, rank)));
  if (rank == 3 && (q_num_heads < 1 || kv_num_heads < 1)) {
    return AttributeError("q_num_heads",
                          "or kv_num_heads is missing, expected both for "
                          "inputs of rank 3");
  }
  return SidesOf(in).status();
}

absl::StatusOr<OutputInfos> Attention::Infer(const Inputs& in,
                                             size_t num_outputs) const {
  NODEWISE_ASSIGN_OR_RETURN(const auto sides, SidesOf(in));
  const DLDataType types[] = {in.type(0).dtype, in.type(1).dtype,
                              in.type(2).dtype, in.type(0).dtype};
  OutputInfos out;
  for (size_t i = 0; i < num_outputs; ++i) {
    TensorType type(types[i]);
    if (sides.has_value()) {
      const Sides& s = *sides;
      const int64_t total = s.total();
      const Shape shapes[] = {
          s.is_flat ? Shape{s.batch, s.queries, s.heads * s.value_size}
                    : Shape{s.batch, s.heads, s.queries, s.value_size},
          {s.batch, s.kv_heads, total, s.head_size},
          {s.batch, s.kv_heads, total, s.value_size},
          {s.batch, s.heads, s.queries, total}};
      type.shape = shapes[i];
      NODEWISE_RETURN_IF_ERROR(NumElements(*type.sizes()).status());
    } else if (in.type(0).has_rank()) {
      type.shape = UnknownShape(i == 0 ? in.type(0).rank() : 4);
    }
    out.emplace_back(std::move(type));
  }
  return out;
}

double Attention::Flops(const Inputs& in, absl::Span<const OutputInfo>) const {
  const auto sides = SidesOf(in);
  if (!sides.ok() || !sides->has_value()) return 0;
  const Sides& s = **sides;
  return 2 * static_cast<double>(s.batch * s.heads) *
         static_cast<double>(s.queries) * static_cast<double>(s.total()) *
         static_cast<double>(s.head_size + s.value_size);
}

// Past and new keys (or values) of all heads: batch, head, key, element.
std::vector<double> Joined(const EvalArgs& args, size_t i, size_t past,
                           const Sides& s, int64_t size) {
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

// The numbers added to the scores: 0 or -infinity for masks that are bool.
class Mask {
 public:
  static absl::StatusOr<Mask> Make(const EvalArgs& args, const Sides& s) {
    Mask mask;
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
        return InputError(kMask,
                          fmt::format("is {} along side {}, expected 1 or "
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

  double at(int64_t batch, int64_t head, int64_t query, int64_t key) const {
    if (values_.empty()) return 0;
    if (key >= given_) return -kInfinity;
    return values_[static_cast<size_t>(
        batch * strides_[0] + head * strides_[1] + query * strides_[2] + key)];
  }

 private:
  std::vector<double> values_;
  int64_t given_ = 0;  // Keys; the others are masked.
  int64_t strides_[4] = {};
};

// Calculates the queries of one head after the other.
class HeadEvaluator {
 public:
  HeadEvaluator(const Attention& op, const Sides& s, const EvalArgs& args,
                Mask mask, std::vector<int64_t> lengths)
      : op_(op),
        s_(s),
        q_(ToDoubles(args.in(0))),
        k_(Joined(args, 1, kPastKey, s, s.head_size)),
        v_(Joined(args, 2, kPastValue, s, s.value_size)),
        mask_(std::move(mask)),
        lengths_(std::move(lengths)),
        dtype_(args.dtype(0)),
        scale_(op.scale.has_value()
                   ? double{*op.scale}
                   : 1 / std::sqrt(static_cast<double>(s.head_size))) {}

  const std::vector<double>& keys() const { return k_; }
  const std::vector<double>& values() const { return v_; }

  struct Results {
    double* y;
    double* scores = nullptr;  // Which ones: see qk_matmul_output_mode.
    double* proved = nullptr;
    double* expected = nullptr;
  };
  void Run(int64_t head, const Results& results) const;

 private:
  // One query's scores, and how far each may be off in a kernel.
  struct Row {
    std::vector<double> scores;
    SumBound error{0, 0};
  };
  void Score(int64_t head, int64_t query, const double* q, bool with_bounds,
             double* kept, Row* row) const;
  void Soften(Row* row) const;
  void Weigh(int64_t head, const Row& row, int64_t at,
             const Results& results) const;
  int64_t KvHead(int64_t head) const {
    const int64_t group = s_.heads / s_.kv_heads;
    return head / s_.heads * s_.kv_heads + head % s_.heads / group;
  }

  const Attention& op_;
  const Sides& s_;
  const std::vector<double> q_;
  const std::vector<double> k_;
  const std::vector<double> v_;
  const Mask mask_;
  const std::vector<int64_t> lengths_;  // Valid keys by batch, or empty.
  const DLDataType dtype_;
  const double scale_;
};

void HeadEvaluator::Score(int64_t head, int64_t query, const double* q,
                          bool with_bounds, double* kept, Row* row) const {
  const int64_t batch = head / s_.heads;
  const double* k = k_.data() + KvHead(head) * s_.total() * s_.head_size;
  for (int64_t key = 0; key < s_.total(); ++key, k += s_.head_size) {
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
    score += mask_.at(batch, head % s_.heads, query, key);
    const bool is_hidden =
        (op_.is_causal && key > query + s_.past) ||
        (!lengths_.empty() && key >= lengths_[static_cast<size_t>(batch)]);
    if (is_hidden) score = -kInfinity;
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

void HeadEvaluator::Soften(Row* row) const {
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
void HeadEvaluator::Weigh(int64_t head, const Row& row, int64_t at,
                          const Results& results) const {
  double* const y = results.y + at;
  std::fill_n(y, s_.value_size, 0.0);
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

void HeadEvaluator::Run(int64_t head, const Results& results) const {
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

absl::Status Attention::Evaluate(EvalArgs& args) const {
  std::vector<InputInfo> infos(args.num_inputs());
  for (size_t i = 0; i < infos.size(); ++i) {
    infos[i].is_given = args.has(i);
    if (args.has(i)) infos[i].type = TensorType::Of(*args.in(i));
  }
  const Inputs in(infos);
  NODEWISE_ASSIGN_OR_RETURN(const auto found, SidesOf(in));
  const Sides& s = *found;
  NODEWISE_ASSIGN_OR_RETURN(const OutputInfos types,
                            Infer(in, args.num_outputs()));
  for (size_t i = 0; i < args.num_outputs(); ++i) {
    if (!args.wants(i)) continue;
    NODEWISE_RETURN_IF_ERROR(
        args.MakeOutput(i, *types[i].type.sizes(), types[i].type.dtype)
            .status());
  }
  NODEWISE_ASSIGN_OR_RETURN(Mask mask, Mask::Make(args, s));
  std::vector<int64_t> lengths;
  if (args.has(kLengths)) {
    NODEWISE_ASSIGN_OR_RETURN(lengths, args.Ints(kLengths));
    if (static_cast<int64_t>(lengths.size()) != s.batch) {
      return InputError(kLengths, fmt::format("has {} elements, expected {}",
                                              lengths.size(), s.batch));
    }
  }
  const HeadEvaluator heads(*this, s, args, std::move(mask),
                            std::move(lengths));
  const auto rows = static_cast<size_t>(s.batch * s.heads * s.queries);
  std::vector<double> y(rows * static_cast<size_t>(s.value_size));
  std::vector<double> scores(
      args.wants(3) ? rows * static_cast<size_t>(s.total()) : 0);
  HeadEvaluator::Results results{y.data()};
  if (args.wants(3)) results.scores = scores.data();
  Bounds* const bounds = args.bounds(0);
  if (bounds != nullptr) {
    bounds->proved.resize(y.size());
    bounds->expected.resize(y.size());
    results.proved = bounds->proved.data();
    results.expected = bounds->expected.data();
  }
  const double work = static_cast<double>(s.queries) *
                      static_cast<double>(s.total()) *
                      static_cast<double>(s.head_size + s.value_size + 10);
  ParallelFor(s.batch * s.heads, work, [&](int64_t begin, int64_t end) {
    for (int64_t head = begin; head < end; ++head) heads.Run(head, results);
  });
  const std::vector<double>* const values[] = {&y, &heads.keys(),
                                               &heads.values(), &scores};
  for (size_t i = 0; i < args.num_outputs(); ++i) {
    if (!args.wants(i)) continue;
    const NDArray& out = args.outputs()[i];
    StoreDoubles(values[i]->data(), 0, CountOf(out), out);
    if (bounds == nullptr || i == 0) continue;
    // Keys and values are exact copies; scores get no bounds.
    args.bounds(i)->proved.assign(
        values[i]->size(),
        i == 3 ? std::numeric_limits<double>::quiet_NaN() : 0);
    args.bounds(i)->expected = args.bounds(i)->proved;
  }
  return absl::OkStatus();
}

constexpr OperatorDef kAttentions[] = {
    Row<ops::Attention, Attention>(
        {.name = "Attention",
         .since = 23,
         .inputs = {"Q", "K", "V", Optional("attn_mask"), Optional("past_key"),
                    Optional("past_value"), Optional("nonpad_kv_seqlen")},
         .outputs = {"Y", Optional("present_key"), Optional("present_value"),
                     Optional("qk_matmul_output")},
         .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> AttentionOperators() {
  static const std::vector<OperatorDef>* const all = [] {
    auto* const rows = new std::vector<OperatorDef>(std::begin(kAttentions),
                                                    std::end(kAttentions));
    for (const OperatorDef& row : RotaryOperators()) rows->push_back(row);
    return rows;
  }();
  return *all;
}

}  // namespace nodewise
