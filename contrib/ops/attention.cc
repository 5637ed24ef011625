#include "nodewise/ops/attention.h"

#include <limits>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/attention_heads.h"
#include "contrib/ops/util/attention_parts.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr size_t kPastKey = AttentionInputs::kPastKey;
constexpr size_t kPastValue = AttentionInputs::kPastValue;
constexpr size_t kLengths = AttentionInputs::kLengths;
using Sides = AttentionSides;

// None while a side is not known.
absl::StatusOr<std::optional<Sides>> SidesOf(const ops::Attention23& op,
                                             const Inputs& in) {
  const int64_t q_num_heads = op.q_num_heads;
  const int64_t kv_num_heads = op.kv_num_heads;
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
          "the last sides of Q, K and V are not multiples of the heads");
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

absl::Status CheckInputs(const ops::Attention23& op, const Inputs& in) {
  NODEWISE_RETURN_IF_ERROR(
      All(RequireFloat(in, 0), RequireFloat(in, 1), RequireFloat(in, 2),
          RequireRank(in, 0, 3, 4), RequireRank(in, kPastKey, 4),
          RequireRank(in, kPastValue, 4), RequireRank(in, kLengths, 1),
          RequireType(in, kLengths, kInt64)));
  if (op.qk_matmul_output_mode < 0 || op.qk_matmul_output_mode > 3) {
    return AttributeError(
        "qk_matmul_output_mode",
        fmt::format("is {}, expected 0 to 3", op.qk_matmul_output_mode));
  }
  if (in.has(kPastKey) != in.has(kPastValue)) {
    return absl::InvalidArgumentError(
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
  return SidesOf(op, in).status();
}

absl::StatusOr<OutputInfos> InferOutputs(const ops::Attention23& op,
                                         const Inputs& in, size_t num_outputs) {
  NODEWISE_ASSIGN_OR_RETURN(const auto sides, SidesOf(op, in));
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

double FlopsOf(const ops::Attention23& op, const Inputs& in) {
  const auto sides = SidesOf(op, in);
  if (!sides.ok() || !sides->has_value()) return 0;
  const Sides& s = **sides;
  return 2 * static_cast<double>(s.batch * s.heads) *
         static_cast<double>(s.queries) * static_cast<double>(s.total()) *
         static_cast<double>(s.head_size + s.value_size);
}

absl::Status EvaluateAll(const ops::Attention23& op, AttentionWindow window,
                         EvalArgs& args) {
  std::vector<InputInfo> infos(args.num_inputs());
  for (size_t i = 0; i < infos.size(); ++i) {
    infos[i].is_given = args.has(i);
    if (args.has(i)) infos[i].type = TensorType::Of(*args.in(i));
  }
  const Inputs in(infos);
  NODEWISE_ASSIGN_OR_RETURN(const auto found, SidesOf(op, in));
  const Sides& s = *found;
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
      return InputError(kLengths, fmt::format("has {} elements, expected {}",
                                              lengths.size(), s.batch));
    }
  }
  const AttentionHeads heads(op, s, args, std::move(mask),
                             VisibleKeys(op.is_causal, args.has(kPastKey),
                                         window, s, std::move(lengths)));
  const auto rows = static_cast<size_t>(s.batch * s.heads * s.queries);
  std::vector<double> y(rows * static_cast<size_t>(s.value_size));
  std::vector<double> scores(
      args.wants(3) ? rows * static_cast<size_t>(s.total()) : 0);
  AttentionHeads::Results results{y.data()};
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

AttentionWindow WindowOf(const ops::Attention23&) { return {}; }
AttentionWindow WindowOf(const ops::Attention& op) {
  return {op.left_window_size, op.right_window_size};
}

absl::Status CheckWindow(AttentionWindow window) {
  const auto check = [](const char* attribute, int64_t size) {
    if (size >= -1) return absl::OkStatus();
    return AttributeError(attribute,
                          fmt::format("is {}, expected -1 or more", size));
  };
  return All(check("left_window_size", window.left),
             check("right_window_size", window.right));
}

// The rules of all versions; `Class` is the public class of one.
template <typename Class>
struct AttentionRules : Class {
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
    return FlopsOf(*this, in);
  }
};

struct Attention23 : AttentionRules<ops::Attention23> {
  static constexpr auto Fields() {
    using Class = ops::Attention23;
    return FieldList(
        Field<&Class::is_causal>("is_causal"),
        Field<&Class::kv_num_heads>("kv_num_heads"),
        Field<&Class::q_num_heads>("q_num_heads"),
        Field<&Class::qk_matmul_output_mode>("qk_matmul_output_mode"),
        Field<&Class::scale>("scale"), Field<&Class::softcap>("softcap"),
        Field<&Class::softmax_precision>("softmax_precision"));
  }
};

struct Attention : AttentionRules<ops::Attention> {
  static constexpr auto Fields() {
    using Class = ops::Attention;
    return FieldList(
        Field<&Class::is_causal>("is_causal"),
        Field<&Class::kv_num_heads>("kv_num_heads"),
        Field<&Class::left_window_size>("left_window_size"),
        Field<&Class::q_num_heads>("q_num_heads"),
        Field<&Class::qk_matmul_output_mode>("qk_matmul_output_mode"),
        Field<&Class::right_window_size>("right_window_size"),
        Field<&Class::scale>("scale"), Field<&Class::softcap>("softcap"),
        Field<&Class::softmax_precision>("softmax_precision"));
  }
};

constexpr OperatorDef kAttentions[] = {
    Row<ops::Attention23, Attention23>(
        {.name = "Attention",
         .since = 23,
         .inputs = {"Q", "K", "V", Optional("attn_mask"), Optional("past_key"),
                    Optional("past_value"), Optional("nonpad_kv_seqlen")},
         .outputs = {"Y", Optional("present_key"), Optional("present_value"),
                     Optional("qk_matmul_output")},
         .bound = kSum}),
    Row<ops::Attention, Attention>(
        {.name = "Attention",
         .since = 25,
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
