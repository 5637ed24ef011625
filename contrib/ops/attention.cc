#include "nodewise/ops/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/field_lists.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/sum_bounds.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {

namespace {

// Attention first makes one list of all keys and one of all values, of earlier
// calls and new ones. After that every head of the queries is a calculation of
// its own, in a thread of its own: for each query its scores, their softmax,
// and the sum of the values that this weighs.

constexpr size_t kMask = 3, kPastKey = 4, kPastValue = 5, kLengths = 6;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Sides of one evaluation. Attention takes its tensors in two layouts: with a
// side of heads, or with the heads side by side in the last side. Both are told
// apart here once, so that the loops below only know how to find a row.
struct AttentionSides {
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

// How far from its own place a query sees keys; below 0: without a limit.
struct AttentionWindow {
  int64_t left = -1;
  int64_t right = -1;
};

// The numbers added to the scores: 0 or -infinity for masks that are bool.
class AttentionMask {
 public:
  // Fails with kInvalidArgument if the mask does not fit the sides. ONNX
  // broadcasts the mask to batch, heads, queries and keys from the right.
  // Beyond that its last side may be shorter than the keys, and those that it
  // does not reach are masked; so 1 along that side is one key and not all of
  // them.
  static absl::StatusOr<AttentionMask> Make(const EvalArgs& args,
                                            const AttentionSides& s) {
    AttentionMask mask;
    if (!args.has(kMask)) return mask;
    const auto shape = args.shape(kMask);
    const int64_t most[] = {s.batch, s.heads, s.queries, s.total()};
    if (shape.empty() || shape.size() > 4) {
      return WrongInput(kMask, "has rank {}, expected 1 to 4", shape.size());
    }
    const std::vector<int64_t> strides = StridesOf(shape);
    for (size_t i = 0; i < shape.size(); ++i) {
      const size_t side = 4 - shape.size() + i;
      const bool is_last = side == 3;
      if (shape[i] != 1 && shape[i] != most[side] &&
          !(is_last && shape[i] < most[side])) {
        return WrongInput(kMask, "is {} along side {}, expected 1 or {}",
                          shape[i], i, most[side]);
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

// [first, last) of the keys that a query sees; empty if it sees none.
struct KeyRange {
  int64_t first;
  int64_t last;

  bool has(int64_t key) const { return key >= first && key < last; }
};

// Which keys a query may see, before the mask hides more of them. The places of
// queries follow on those of earlier calls. Where lengths are given without a
// past, the valid keys are the past, and the queries are the last of them.
struct VisibleKeys {
  bool is_causal;
  bool has_past;
  AttentionWindow window;
  const AttentionSides& sides;
  std::vector<int64_t> lengths;  // The valid keys by batch, or empty.

  KeyRange VisibleTo(int64_t batch, int64_t query) const {
    const int64_t total = sides.total();
    KeyRange range{0, total};
    int64_t place = query + sides.past;
    if (!lengths.empty()) {
      range.last =
          std::clamp<int64_t>(lengths[static_cast<size_t>(batch)], 0, total);
      if (!has_past) place = query + range.last - sides.queries;
    }
    if (is_causal) range.last = std::min(range.last, place + 1);
    // No window needs to be longer than all keys and queries. Without this
    // limit one of 2^63 - 1, which stands for all, would overflow the sum.
    const int64_t most = total + sides.queries;
    if (window.left >= 0) {
      range.first = std::max(range.first, place - std::min(window.left, most));
    }
    if (window.right >= 0) {
      range.last =
          std::min(range.last, place + std::min(window.right, most) + 1);
    }
    return range;
  }
};

// Past and new keys (or values) of all heads: batch, head, key, element. The
// copy pays: it is read once for each query, and outputs 1 and 2 are these
// lists as they are.
std::vector<double> Joined(const EvalArgs& args, size_t i, size_t past,
                           const AttentionSides& s, int64_t size) {
  const std::vector<double> fresh = ToDoubles(args.in(i));
  const std::vector<double> old = GivenDoubles(args, past);
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

struct AttentionHeads {
  const ops::Attention23& op;
  const AttentionSides& s;
  const EvalArgs& args;
  const AttentionMask mask;
  const VisibleKeys visible_keys;
  const std::vector<double> queries = ToDoubles(args.in(0));
  const std::vector<double> keys = Joined(args, 1, kPastKey, s, s.head_size);
  const std::vector<double> values =
      Joined(args, 2, kPastValue, s, s.value_size);
  const DLDataType dtype = args.dtype(0);
  const double scale = op.scale.has_value()
                           ? double{*op.scale}
                           : 1 / std::sqrt(static_cast<double>(s.head_size));

  struct Results {
    double* y;       // All 0 before.
    double* scores;  // Which ones: see qk_matmul_output_mode. May be null.
    Bounds* bounds;  // All 0 before; may be null.
  };
  // A row of scores is reused from query to query. Output 3 has the layout of
  // heads even where the other tensors are flat, so its place is counted by
  // itself.
  void Run(int64_t head, const Results& results) const {
    Row row{std::vector<double>(static_cast<size_t>(s.total()))};
    const int64_t batch = head / s.heads;
    for (int64_t query = 0; query < s.queries; ++query) {
      const int64_t flat =
          (batch * s.queries + query) * s.heads + head % s.heads;
      const int64_t at = s.is_flat ? flat : head * s.queries + query;
      double* const kept =
          results.scores == nullptr
              ? nullptr
              : results.scores + (head * s.queries + query) * s.total();
      row.error = {0, 0};
      Score(head, query, queries.data() + at * s.head_size,
            results.bounds != nullptr, kept, &row);
      ApplySoftmax(&row);
      if (kept != nullptr && op.qk_matmul_output_mode == 3) {
        std::copy(row.scores.begin(), row.scores.end(), kept);
      }
      AddWeightedValues(head, row, at * s.value_size, results);
    }
  }

 private:
  // One query's scores, and how far each may be off in a kernel.
  struct Row {
    std::vector<double> scores;
    SumBound error{0, 0};
    bool sees_any = false;
  };
  void Score(int64_t head, int64_t query, const double* q, bool with_bounds,
             double* kept, Row* row) const {
    const int64_t batch = head / s.heads;
    const KeyRange visible = visible_keys.VisibleTo(batch, query);
    row->sees_any = false;
    // Keys that the query does not see are skipped, unless the scores are an
    // output: there they are wanted as they were before the mask. The sum
    // counts four terms more than it has, for the roundings of the scale, which
    // a kernel may apply to Q, to K or to the sum.
    const double* k = keys.data() + KvHead(head) * s.total() * s.head_size;
    for (int64_t key = 0; key < s.total(); ++key, k += s.head_size) {
      if (kept == nullptr && !visible.has(key)) {
        row->scores[static_cast<size_t>(key)] = -kInfinity;
        continue;
      }
      SumOfTerms sum{static_cast<double>(s.head_size) + 4};
      for (int64_t i = 0; i < s.head_size; ++i) sum.result += q[i] * k[i];
      sum.result *= scale;
      double score = sum.result;
      if (with_bounds) {
        for (int64_t i = 0; i < s.head_size; ++i) {
          const double term = scale * q[i] * k[i];
          sum.absolute += std::fabs(term);
          sum.squares += term * term;
        }
      }
      if (kept != nullptr && op.qk_matmul_output_mode == 0) kept[key] = score;
      if (op.softcap > 0) score = std::tanh(score / op.softcap) * op.softcap;
      if (kept != nullptr && op.qk_matmul_output_mode == 1) kept[key] = score;
      const bool is_visible = visible.has(key);
      const double bias =
          is_visible ? mask.at(batch, head % s.heads, query, key) : -kInfinity;
      if (bias != -kInfinity) row->sees_any = true;
      score = is_visible ? score + bias : -kInfinity;
      if (kept != nullptr && op.qk_matmul_output_mode == 2) kept[key] = score;
      row->scores[static_cast<size_t>(key)] = score;
      if (!with_bounds || score == -kInfinity) continue;
      const SumBound bound = BoundSum(dtype, sum);
      // The limit and the mask round too. All keys share the largest error,
      // since the softmax compares each score with the largest one.
      const double rounding = 4 * HalfUlp(dtype, score);
      row->error.proved = std::max(row->error.proved, bound.proved + rounding);
      row->error.expected =
          std::max(row->error.expected, bound.expected + rounding);
    }
  }
  void ApplySoftmax(Row* row) const {
    // A query that sees nothing has no weights, though exp(-inf - -inf) is NaN.
    if (!row->sees_any) {
      return std::fill(row->scores.begin(), row->scores.end(), 0.0);
    }
    // The largest score is subtracted first, as every kernel does: the
    // exponential of a score itself would overflow.
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
  void AddWeightedValues(int64_t head, const Row& row, int64_t at,
                         const Results& results) const {
    if (!row.sees_any) return;
    double* const y = results.y + at;
    const double* const v =
        values.data() + KvHead(head) * s.total() * s.value_size;
    for (int64_t key = 0; key < s.total(); ++key) {
      const double weight = row.scores[static_cast<size_t>(key)];
      const double* const value = v + key * s.value_size;
      for (int64_t i = 0; i < s.value_size; ++i) y[i] += weight * value[i];
    }
    if (results.bounds == nullptr) return;
    const auto total = static_cast<double>(s.total());
    const double u = UnitRoundoff(dtype);
    for (int64_t i = 0; i < s.value_size; ++i) {
      double absolute = 0;
      for (int64_t key = 0; key < s.total(); ++key) {
        absolute += row.scores[static_cast<size_t>(key)] *
                    std::fabs(v[key * s.value_size + i]);
      }
      const double rounding = HalfUlp(dtype, y[i]);
      const double proved =
          2 * std::expm1(row.error.proved) + (2 * total + 8) * u;
      const double expected = 2 * std::expm1(row.error.expected) +
                              kExpectedFactor * (std::sqrt(total) + 4) * u;
      SumBound{absolute * proved + rounding, absolute * expected + rounding}
          .SetAt(static_cast<size_t>(at + i), results.bounds);
    }
  }
  // Grouped queries: several heads of Q read the same head of K and V, and
  // neighbours share one.
  int64_t KvHead(int64_t head) const {
    const int64_t group = s.heads / s.kv_heads;
    return head / s.heads * s.kv_heads + head % s.heads / group;
  }
};

// None while a side is not known.
absl::StatusOr<std::optional<AttentionSides>> AttentionSidesOf(
    const ops::Attention23& op, const Inputs& in) {
  const auto q = in.type(0).sizes();
  const auto k = in.type(1).sizes();
  const auto v = in.type(2).sizes();
  if (!q || !k || !v) return std::nullopt;
  const bool is_flat = q->size() == 3;
  if (is_flat &&
      ((*q)[2] % op.q_num_heads != 0 || (*k)[2] % op.kv_num_heads != 0 ||
       (*v)[2] % op.kv_num_heads != 0)) {
    return InvalidArgument(
        "the last sides of Q, K and V are not multiples of the heads");
  }
  // Flat or not: batch, heads, places, elements of a head.
  using Split = std::array<int64_t, 4>;
  const auto split = [&](const std::vector<int64_t>& x, int64_t heads) {
    return is_flat ? Split{x[0], heads, x[1], x[2] / heads}
                   : Split{x[0], x[1], x[2], x[3]};
  };
  const Split queries = split(*q, op.q_num_heads);
  const Split keys = split(*k, op.kv_num_heads);
  const Split values = split(*v, op.kv_num_heads);
  AttentionSides sides{queries[0], queries[1], keys[1],   queries[2], keys[2],
                       0,          queries[3], values[3], is_flat};
  if (keys[0] != sides.batch || values[0] != sides.batch ||
      values[1] != sides.kv_heads || values[2] != sides.keys ||
      keys[3] != sides.head_size || sides.kv_heads < 1 ||
      sides.heads % sides.kv_heads != 0) {
    return InvalidArgument(
        "Q of {}, K of {} and V of {} do not fit, expected the same batch, "
        "keys, head size, and Q's heads a multiple of K's",
        ToString(*in.type(0).shape), ToString(*in.type(1).shape),
        ToString(*in.type(2).shape));
  }
  if (!in.has(kPastKey)) return sides;
  const auto past = in.type(kPastKey).sizes();
  if (!past) return std::nullopt;
  sides.past = (*past)[2];
  for (const size_t i : {kPastKey, kPastValue}) {
    const TensorType expected(
        {}, {sides.batch, sides.kv_heads, sides.past,
             i == kPastKey ? sides.head_size : sides.value_size});
    TensorType found = in.type(i);
    found.dtype = {};
    if (AreCompatible(found, expected)) continue;
    return WrongInput(i, "is of {}, expected {}", ToString(found),
                      ToString(expected));
  }
  return sides;
}

// Keys and values of earlier calls always have rank 4, with any layout of
// the others.
absl::Status CheckInputs(const ops::Attention23& op, const Inputs& in) {
  NODEWISE_RETURN_IF_ERROR(
      All(RequireFloat(in, 0), RequireFloat(in, 1), RequireFloat(in, 2),
          RequireRank(in, 0, 3, 4), RequireRank(in, kPastKey, 4),
          RequireRank(in, kPastValue, 4), RequireRank(in, kLengths, 1),
          RequireType(in, kLengths, kInt64)));
  if (op.qk_matmul_output_mode < 0 || op.qk_matmul_output_mode > 3) {
    return WrongAttribute("qk_matmul_output_mode", "is {}, expected 0 to 3",
                          op.qk_matmul_output_mode);
  }
  if (in.has(kPastKey) != in.has(kPastValue)) {
    return InvalidArgument(
        "one of past_key and past_value is given, expected both or none");
  }
  if (!in.type(0).has_rank()) return absl::OkStatus();
  const int rank = in.type(0).rank();
  NODEWISE_RETURN_IF_ERROR(
      All(RequireRank(in, 1, rank), RequireRank(in, 2, rank)));
  if (rank == 3 && (op.q_num_heads < 1 || op.kv_num_heads < 1)) {
    return AttributeError("q_num_heads",
                          "or kv_num_heads is missing, expected both for "
                          "inputs of rank 3");
  }
  return AttentionSidesOf(op, in).status();
}

// Each output has the element type of the input that it comes from. Sides are
// known all at once or not at all: the heads of flat tensors follow from
// attributes, so that a rule for single sides would only serve networks that
// are not static.
absl::StatusOr<OutputInfos> InferOutputs(const ops::Attention23& op,
                                         const Inputs& in, size_t num_outputs) {
  NODEWISE_ASSIGN_OR_RETURN(const auto sides, AttentionSidesOf(op, in));
  const DLDataType types[] = {in.type(0).dtype, in.type(1).dtype,
                              in.type(2).dtype, in.type(0).dtype};
  OutputInfos out;
  for (size_t i = 0; i < num_outputs; ++i) {
    TensorType type(types[i]);
    if (sides.has_value()) {
      const AttentionSides& s = *sides;
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

// The sides follow from the inputs that are there, which may say more than
// Infer() knew, so they are found again here.
absl::Status EvaluateAll(const ops::Attention23& op, AttentionWindow window,
                         EvalArgs& args) {
  const std::vector<InputInfo> infos = GivenInputs(args);
  const Inputs in(infos);
  NODEWISE_ASSIGN_OR_RETURN(const auto found, AttentionSidesOf(op, in));
  const AttentionSides& s = *found;
  NODEWISE_ASSIGN_OR_RETURN(const OutputInfos types,
                            InferOutputs(op, in, args.num_outputs()));
  for (size_t i = 0; i < args.num_outputs(); ++i) {
    if (!args.wants(i)) continue;
    NODEWISE_RETURN_IF_ERROR(
        args.MakeOutput(i, *types[i].type.sizes(), types[i].type.dtype)
            .status());
  }
  NODEWISE_ASSIGN_OR_RETURN(AttentionMask mask, AttentionMask::Make(args, s));
  std::vector<int64_t> lengths;
  if (args.has(kLengths)) {
    NODEWISE_ASSIGN_OR_RETURN(lengths, args.Ints(kLengths));
    if (static_cast<int64_t>(lengths.size()) != s.batch) {
      return WrongInput(kLengths, "has {} elements, expected {}",
                        lengths.size(), s.batch);
    }
  }
  const AttentionHeads heads{
      op,
      s,
      args,
      std::move(mask),
      {op.is_causal, args.has(kPastKey), window, s, std::move(lengths)}};
  const int64_t rows = s.batch * s.heads * s.queries;
  std::vector<double> y(static_cast<size_t>(rows * s.value_size));
  std::vector<double> scores(
      static_cast<size_t>(args.wants(3) ? rows * s.total() : 0));
  Bounds* const bounds = SizedBounds(args, 0, rows * s.value_size);
  const AttentionHeads::Results results{
      y.data(), args.wants(3) ? scores.data() : nullptr, bounds};
  // The summand of 10 stands for what a score costs beside its sums.
  const double work = static_cast<double>(s.queries) *
                      static_cast<double>(s.total()) *
                      static_cast<double>(s.head_size + s.value_size + 10);
  ParallelFor(s.batch * s.heads, work, [&](int64_t begin, int64_t end) {
    for (int64_t head = begin; head < end; ++head) heads.Run(head, results);
  });
  const std::vector<double>* const values[] = {&y, &heads.keys, &heads.values,
                                               &scores};
  for (size_t i = 0; i < args.num_outputs(); ++i) {
    if (!args.wants(i)) continue;
    const NDArray& out = args.outputs()[i];
    StoreDoubles(values[i]->data(), 0, CountOf(out), out);
    if (bounds == nullptr || i == 0) continue;
    // Keys and values are exact copies; scores get no bounds.
    SetAllBounds(static_cast<int64_t>(values[i]->size()),
                 i == 3 ? kUnknownError : 0, args.bounds(i));
  }
  return absl::OkStatus();
}

// Before opset 25 there was no window, which is the same as one without limits.
AttentionWindow WindowOf(const ops::Attention23&) { return {}; }
AttentionWindow WindowOf(const ops::Attention& op) {
  return {op.left_window_size, op.right_window_size};
}

// -1 is the one negative number with a meaning.
absl::Status CheckWindow(AttentionWindow window) {
  const auto check = [](const char* attribute, int64_t size) {
    if (size >= -1) return absl::OkStatus();
    return WrongAttribute(attribute, "is {}, expected -1 or more", size);
  };
  return All(check("left_window_size", window.left),
             check("right_window_size", window.right));
}

// The rules of all versions; `Class` is the public class of one. The functions
// above take the older class, from which the newer one derives.
template <typename Class>
struct AttentionRules : Class {
  static constexpr auto Fields() {
    return FieldList(
        Field<&Class::is_causal>("is_causal"),
        Field<&Class::kv_num_heads>("kv_num_heads"),
        Field<&Class::q_num_heads>("q_num_heads"),
        Field<&Class::qk_matmul_output_mode>("qk_matmul_output_mode"),
        Field<&Class::scale>("scale"), Field<&Class::softcap>("softcap"),
        Field<&Class::softmax_precision>("softmax_precision"));
  }
  absl::Status Check(const Inputs& in) const {
    return All(CheckWindow(WindowOf(*this)), CheckInputs(*this, in));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in,
                                    size_t num_outputs) const {
    return InferOutputs(*this, in, num_outputs);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return EvaluateAll(*this, WindowOf(*this), args);
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo>) const {
    const auto sides = AttentionSidesOf(*this, in);
    if (!sides.ok() || !sides->has_value()) return 0;
    const AttentionSides& s = **sides;
    return 2 * static_cast<double>(s.batch * s.heads) *
           static_cast<double>(s.queries) * static_cast<double>(s.total()) *
           static_cast<double>(s.head_size + s.value_size);
  }
};

struct Attention : AttentionRules<ops::Attention> {
  static constexpr auto Fields() {
    return SortedFields(
        AttentionRules::Fields(),
        FieldList(Field<&Attention::left_window_size>("left_window_size"),
                  Field<&Attention::right_window_size>("right_window_size")));
  }
};

// A pair of elements is a point in the plane, and its place in the text turns
// it by an angle: (x1, x2) becomes (c x1 - s x2, s x1 + c x2). The cosines and
// sines come as inputs, a row for each place. A pair is two neighbours, or an
// element of the first half of what turns and one of the second half; the rest
// of a head is copied.
struct RotaryEmbedding : ops::RotaryEmbedding {
  static constexpr auto Fields() {
    return FieldList(
        Field<&RotaryEmbedding::interleaved>("interleaved"),
        Field<&RotaryEmbedding::num_heads>("num_heads"),
        Field<&RotaryEmbedding::rotary_embedding_dim>("rotary_embedding_dim"));
  }
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(
        All(RequireFloat(in, 0), RequireFloat(in, 1), RequireFloat(in, 2),
            RequireRank(in, 0, 3, 4), RequireRank(in, 1, 2, 3),
            RequireRank(in, 2, 2, 3), RequireType(in, 3, kInt64),
            RequireRank(in, 3, 2)));
    const auto x = in.type(0).sizes();
    return x ? SidesOf(*x).status() : absl::OkStatus();
  }
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const Sides sides, SidesOf(args.shape(0)));
    NODEWISE_ASSIGN_OR_RETURN(const auto cache_rows, RowsOf(args, sides));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray out,
                              args.MakeOutput(0, args.shape(0), args.dtype(0)));
    const std::vector<double> x = ToDoubles(args.in(0));
    const std::vector<double> cos = ToDoubles(args.in(1));
    const std::vector<double> sin = ToDoubles(args.in(2));
    std::vector<double> y = x;
    Bounds* const bounds = args.bounds(0);
    SetAllBounds(CountOf(out), 0, bounds);  // Other elements are copied.
    const int64_t half = sides.turned / 2;
    const auto set = [&](int64_t i, double a, double b) {
      const auto at = static_cast<size_t>(i);
      y[at] = a + b;
      if (bounds == nullptr) return;
      BoundSum(out.dtype(),
               {2, std::fabs(a) + std::fabs(b), a * a + b * b, a + b})
          .SetAt(at, bounds);
    };
    for (int64_t b = 0; b < sides.batch; ++b) {
      for (int64_t place = 0; place < sides.places; ++place) {
        const int64_t cache =
            cache_rows[static_cast<size_t>(b * sides.places + place)] * half;
        for (int64_t head = 0; head < sides.heads; ++head) {
          const int64_t row = sides.RowOf(b, place, head) * sides.head_size;
          for (int64_t i = 0; i < half; ++i) {
            const int64_t one = row + (interleaved ? 2 * i : i);
            const int64_t two = interleaved ? one + 1 : one + half;
            const double c = cos[static_cast<size_t>(cache + i)];
            const double s = sin[static_cast<size_t>(cache + i)];
            const double x1 = x[static_cast<size_t>(one)];
            const double x2 = x[static_cast<size_t>(two)];
            set(one, c * x1, -s * x2);
            set(two, s * x1, c * x2);
          }
        }
      }
    }
    StoreDoubles(y.data(), 0, CountOf(out), out);
    return absl::OkStatus();
  }

 private:
  struct Sides {
    int64_t batch;
    int64_t places;
    int64_t heads;
    int64_t head_size;
    int64_t turned;  // Elements of a head.
    bool heads_first;

    int64_t RowOf(int64_t b, int64_t place, int64_t head) const {
      return heads_first ? (b * heads + head) * places + place
                         : (b * places + place) * heads + head;
    }
  };
  absl::StatusOr<Sides> SidesOf(absl::Span<const int64_t> x) const {
    Sides sides{x[0], x[1], num_heads, 0, 0, x.size() == 4};
    if (sides.heads_first) {
      sides.heads = x[1];
      sides.places = x[2];
      sides.head_size = x[3];
    } else {
      if (num_heads < 1 || x[2] % num_heads != 0) {
        return WrongAttribute("num_heads", "is {}, expected a divisor of {}",
                              num_heads, x[2]);
      }
      sides.head_size = x[2] / num_heads;
    }
    sides.turned =
        rotary_embedding_dim == 0 ? sides.head_size : rotary_embedding_dim;
    if (sides.turned < 0 || sides.turned > sides.head_size ||
        sides.turned % 2 != 0) {
      return WrongAttribute(
          "rotary_embedding_dim",
          "makes {} of {} elements turn, expected an even number", sides.turned,
          sides.head_size);
    }
    return sides;
  }
  // The row of the caches for each place of each batch. With position_ids the
  // caches have a row for each place that is known, and are indexed; without,
  // they have been gathered beforehand.
  absl::StatusOr<std::vector<int64_t>> RowsOf(const EvalArgs& args,
                                              const Sides& sides) const {
    const auto cache = args.shape(1);
    const int64_t rows = sides.batch * sides.places;
    if (args.shape(2) != cache || cache.back() != sides.turned / 2 ||
        cache.size() != (args.has(3) ? 2u : 3u)) {
      return WrongInput(1, "is {}, expected sides that end with {}, as input 2",
                        ShapeToString(cache), sides.turned / 2);
    }
    std::vector<int64_t> result(static_cast<size_t>(rows));
    if (!args.has(3)) {
      if (cache[0] != sides.batch || cache[1] != sides.places) {
        return WrongInput(1, "is {}, expected {} by {} first",
                          ShapeToString(cache), sides.batch, sides.places);
      }
      std::iota(result.begin(), result.end(), 0);
      return result;
    }
    if (CountOf(args.in(3)) != rows) {
      return WrongInput(3, "has {} elements, expected {}", CountOf(args.in(3)),
                        rows);
    }
    NODEWISE_ASSIGN_OR_RETURN(result, args.Ints(3));
    for (int64_t& row : result) {
      if (row < 0) row += cache[0];  // NumPy's way of indexing.
      if (row >= 0 && row < cache[0]) continue;
      return WrongInput(3, "has {}, expected 0 to {}", row, cache[0] - 1);
    }
    return result;
  }
};

template <typename Class, typename Rules>
constexpr OperatorDef AttentionRow(int since) {
  return Row<Class, Rules>(
      {.name = "Attention",
       .since = since,
       .inputs = {"Q", "K", "V", Optional("attn_mask"), Optional("past_key"),
                  Optional("past_value"), Optional("nonpad_kv_seqlen")},
       .outputs = {"Y", Optional("present_key"), Optional("present_value"),
                   Optional("qk_matmul_output")},
       .bound = kSum});
}

constexpr OperatorDef kAttentions[] = {
    AttentionRow<ops::Attention23, AttentionRules<ops::Attention23>>(23),
    AttentionRow<ops::Attention, Attention>(25),
    Row<ops::RotaryEmbedding, RotaryEmbedding>(
        "RotaryEmbedding", 23,
        {"X", "cos_cache", "sin_cache", Optional("position_ids")}, {"Y"}, kSum),
};

}  // namespace

absl::Span<const OperatorDef> AttentionOperators() { return kAttentions; }

}  // namespace nodewise
