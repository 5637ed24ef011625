#include <algorithm>
#include <cmath>

#include "contrib/onednn/rows.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/unary.h"
#include "nodewise/support/status.h"

namespace nodewise::onednn {
namespace {

constexpr float kAll = std::numeric_limits<float>::max();
// Exponentials of numbers above this, or below its negative, are not normal
// numbers; oneDNN makes the largest number, or 0, of them.
constexpr float kExpMost = 87;
// Formulas of a Gelu double its argument.
constexpr float kGeluMost = 1e38F;

// Functions without attributes. A square root and an exponential depend on the
// range of their argument, so they follow no other operation in a kernel.
struct PlainFunction {
  const void* type;  // OperatorDef::type
  Algorithm algorithm;
  float alpha = 0;
  float beta = 0;
  float most = kAll;
  bool can_follow = true;
};
constexpr PlainFunction kPlainFunctions[] = {
    {&kTypeTag<ops::Relu>, Algorithm::eltwise_relu},
    {&kTypeTag<ops::Tanh>, Algorithm::eltwise_tanh},
    {&kTypeTag<ops::Abs>, Algorithm::eltwise_abs},
    {&kTypeTag<ops::Neg>, Algorithm::eltwise_linear, -1},
    {&kTypeTag<ops::HardSwish>, Algorithm::eltwise_hardswish, 1.0F / 6, 0.5F},
    {&kTypeTag<ops::Sigmoid>, Algorithm::eltwise_logistic, 0, 0, kExpMost},
    {&kTypeTag<ops::Sqrt>, Algorithm::eltwise_sqrt, 0, 0, kAll, false},
    {&kTypeTag<ops::Exp>, Algorithm::eltwise_exp, 0, 0, kExpMost, false},
};

struct BinaryOperator {
  const void* type;  // OperatorDef::type
  Algorithm algorithm;
  bool hides_nan;
  bool commutes;
};
constexpr BinaryOperator kBinaryOperators[] = {
    {&kTypeTag<ops::Add>, Algorithm::binary_add, false, true},
    {&kTypeTag<ops::Sum>, Algorithm::binary_add, false, true},
    {&kTypeTag<ops::Sub>, Algorithm::binary_sub, false, false},
    {&kTypeTag<ops::Mul>, Algorithm::binary_mul, false, true},
    {&kTypeTag<ops::Div>, Algorithm::binary_div, false, false},
    {&kTypeTag<ops::Max>, Algorithm::binary_max, true, true},
    {&kTypeTag<ops::Min>, Algorithm::binary_min, true, true},
};
const BinaryOperator* BinaryOf(const OpAttrs& op) {
  const auto* const row =
      std::ranges::find(kBinaryOperators, op.def().type, &BinaryOperator::type);
  return row == std::end(kBinaryOperators) ? nullptr : row;
}

// The number that input `i` holds, if there are so many inputs.
// A limit is not an operand, so no guard looks at it.
absl::StatusOr<float> LimitOf(size_t i, size_t end, float otherwise,
                              ProgramBuilder& program) {
  const Call& call = program.call();
  if (i >= end || !call.is_given(i)) return otherwise;
  program.SetParameter(i);
  NODEWISE_ASSIGN_OR_RETURN(const double limit, OneNumber(call, i));
  return static_cast<float>(limit);
}

// Limits are inputs of the operator; only constants can be numbers of the
// primitive.
absl::StatusOr<Activation> ClipOf(size_t first_other, size_t end,
                                  ProgramBuilder& program) {
  NODEWISE_ASSIGN_OR_RETURN(
      const float least,
      LimitOf(first_other, end, std::numeric_limits<float>::lowest(), program));
  NODEWISE_ASSIGN_OR_RETURN(
      const float most, LimitOf(first_other + 1, end,
                                std::numeric_limits<float>::max(), program));
  // oneDNN refuses limits in the wrong order; the operator gives `most` then.
  if (!(least <= most)) return Refuse("the limits are in the wrong order");
  return Activation{{{Algorithm::eltwise_clip, least, most, std::nullopt}}};
}

// Refuses operators that are not activations. Inputs `first_other` up to `end`
// are those after its first.
absl::StatusOr<Activation> ActivationOf(const OpAttrs& op, size_t first_other,
                                        size_t end, ProgramBuilder& program) {
  if (op.As<ops::Clip>() != nullptr) return ClipOf(first_other, end, program);
  if (auto found = FunctionOf(op)) return *std::move(found);
  return Refuse("{} is not an activation of oneDNN", op.def().name);
}

// Whether the operator makes of large numbers what it makes of infinities, or
// again large numbers of that sign.
bool KeepsOverflows(const OpAttrs& op) {
  constexpr const void* kKeeping[] = {
      &kTypeTag<ops::Relu>,    &kTypeTag<ops::Clip>,
      &kTypeTag<ops::Sigmoid>, &kTypeTag<ops::HardSigmoid>,
      &kTypeTag<ops::Tanh>,    &kTypeTag<ops::Abs>,
      &kTypeTag<ops::Neg>,
  };
  return std::ranges::count(kKeeping, op.def().type) > 0;
}

// Numbers from 2^16 on, where those of float16 end, become infinities, and
// others stay as they are: 2^16 is 2^128 in between, where floats end. Linear
// functions with two factors would be refused (CheckKinds), so the second is a
// power of 1.
void AppendOverflow(std::vector<PostOp>* list) {
  list->push_back({Algorithm::eltwise_linear, 0x1p112F, 0, std::nullopt});
  list->push_back({Algorithm::eltwise_pow, 0x1p-112F, 1, std::nullopt});
}

// Behind a matrix product or a binary operator, oneDNN 2.6 takes the numbers of
// one activation for all that are of its kind.
absl::Status CheckKinds(const std::vector<PostOp>& list) {
  for (const PostOp& a : list) {
    for (const PostOp& b : list) {
      if (a.algorithm != b.algorithm || a.other.has_value()) continue;
      if (a.alpha == b.alpha && a.beta == b.beta) continue;
      return Refuse(
          "two activations of one kind, with other numbers, cannot be fused");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Desc> BesideOutput(const Call& call, size_t i) {
  return BroadcastDesc(call, i, call.output_sizes(), call.output_layout());
}

// Computes each operation by itself, all but the first in place.
absl::Status AddSteps(ProgramBuilder& program, const Fused& fused,
                      const Desc& desc, Value source, const Value& output) {
  size_t next = 0;
  for (const PostOp& part : fused.attributes.post_ops) {
    Arguments arguments = {{DNNL_ARG_SRC_0, source}, {DNNL_ARG_DST, output}};
    absl::StatusOr<Planned> planned;
    if (part.other.has_value()) {
      planned =
          PlanOf<dnnl::binary>({}, part.algorithm, desc, *part.other, desc);
      arguments.emplace_back(DNNL_ARG_SRC_1, fused.arguments[next++].second);
    } else {
      planned = PlanForward<dnnl::eltwise_forward>({}, part.algorithm, desc,
                                                   desc, part.alpha, part.beta);
    }
    NODEWISE_RETURN_IF_ERROR(planned.status());
    NODEWISE_RETURN_IF_ERROR(program.Add(*planned, arguments));
    source = output;
  }
  return absl::OkStatus();
}

// Behind a binary operator, oneDNN 2.6 takes the first channel of an operand
// with one number a channel for all of them if all other sides but the batch
// are 1.
bool BroadcastsPostOps(const Call& call) {
  for (size_t k = 0; k < call.get().post_ops.size(); ++k) {
    if (BinaryOf(call.get().post_ops[k].op) == nullptr) continue;
    if (call.sizes(call.first_other(k)) != call.output_sizes()) return true;
  }
  return false;
}

}  // namespace

std::optional<Activation> FunctionOf(const OpAttrs& op) {
  const auto of = [](Algorithm algorithm, float alpha = 0, float most = kAll) {
    return Activation{{{algorithm, alpha, 0, std::nullopt}}, most};
  };
  if (const auto* const leaky = op.As<ops::LeakyRelu>()) {
    return of(Algorithm::eltwise_relu, leaky->alpha);
  }
  if (const auto* const elu = op.As<ops::Elu>()) {
    return of(Algorithm::eltwise_elu, elu->alpha);
  }
  if (const auto* const swish = op.As<ops::Swish>()) {
    return of(Algorithm::eltwise_swish, swish->alpha,
              kExpMost / std::max(1.0F, std::fabs(swish->alpha)));
  }
  if (const auto* const gelu = op.As<ops::Gelu>()) {
    return of(gelu->approximate == ops::GeluFormula::kErf
                  ? Algorithm::eltwise_gelu_erf
                  : Algorithm::eltwise_gelu_tanh,
              0, kGeluMost);
  }
  if (const auto* const hard = op.As<ops::HardSigmoid>()) {
    return Activation{
        {{Algorithm::eltwise_linear, hard->alpha, hard->beta, std::nullopt},
         {Algorithm::eltwise_clip, 0, 1, std::nullopt}}};
  }
  for (const PlainFunction& row : kPlainFunctions) {
    if (row.type != op.def().type) continue;
    return Activation{{{row.algorithm, row.alpha, row.beta, std::nullopt}},
                      row.most,
                      row.can_follow};
  }
  return std::nullopt;
}

// Sides are compared from the last one, as NumPy does. oneDNN repeats an
// operand along its sides of 1.
absl::StatusOr<Desc> BroadcastDesc(const Call& call, size_t i,
                                   const Sizes& sizes, TensorLayout layout) {
  const Sizes& own = call.sizes(i);
  if (own.size() > sizes.size()) {
    return Refuse("{}: has more sides than the output", call.NameOf(i));
  }
  Sizes aligned(sizes.size() - own.size(), 1);
  aligned.insert(aligned.end(), own.begin(), own.end());
  int64_t longest = 1;
  for (size_t side = 0; side < sizes.size(); ++side) {
    longest = std::max(longest, aligned[side]);
    if (aligned[side] == 1 || aligned[side] == sizes[side]) continue;
    return Refuse("{}: does not fit the output {}", call.NameOf(i),
                  ShapeToString(sizes));
  }
  // Sides of 1 may lie anywhere. All other sides are in the order of the
  // input's own layout, which says nothing unless it has sides behind the
  // channels.
  const bool is_list = longest == call.count(i);
  const bool is_as_told = sizes.size() < 3 || own.size() == sizes.size();
  if (!is_list && (!is_as_told || call.layout(i) != layout) &&
      layout != call.layout(i)) {
    return Refuse("{}: is in another layout than the output", call.NameOf(i));
  }
  if (!is_list && !is_as_told && layout == TensorLayout::kChannelsLast) {
    return Refuse(
        "{}: has fewer sides than the output, which has its channels last",
        call.NameOf(i));
  }
  NODEWISE_ASSIGN_OR_RETURN(const DataType type, DataTypeOf(call.dtype(i)));
  return DescOf(aligned, type, layout);
}

// Post-operations become oneDNN's, in order: an activation is one or two of
// them, and a binary operator is one with an operand, whose number among the
// arguments tells oneDNN which of them it belongs to. Activations, and some
// binary operators, turn a NaN into a number in places, hence the guard.
absl::StatusOr<Fused> FusePostOps(ProgramBuilder& program, double terms,
                                  std::vector<PostOp> before, size_t done,
                                  const DescOfOther& desc_of_other) {
  const Call& call = program.call();
  Fused fused;
  fused.attributes.post_ops = std::move(before);
  auto& list = fused.attributes.post_ops;
  bool hides_nan = false;
  for (size_t k = done; k < call.get().post_ops.size(); ++k) {
    const OpAttrs& op = call.get().post_ops[k].op;
    const size_t other = call.first_other(k);
    const size_t num_others = call.get().post_ops[k].others.size();
    if (call.get().overflows_as_float16 && !KeepsOverflows(op)) {
      AppendOverflow(&list);
    }
    if (const auto* const binary = BinaryOf(op)) {
      if (num_others == 1 && !call.is_given(other)) {
        return Refuse("{}: has only 1 input", op.def().name);
      }
      if (num_others != 1) {
        return Refuse("{}: has more than 2 inputs", op.def().name);
      }
      NODEWISE_RETURN_IF_ERROR(call.RequireFloat32(other));
      NODEWISE_ASSIGN_OR_RETURN(const Desc desc,
                                desc_of_other != nullptr
                                    ? desc_of_other(other)
                                    : BesideOutput(call, other));
      const int index = static_cast<int>(list.size());
      list.push_back({binary->algorithm, 0, 0, desc});
      fused.arguments.emplace_back(
          DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) | DNNL_ARG_SRC_1,
          program.Input(other, desc));
      hides_nan = hides_nan || binary->hides_nan;
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(
        const Activation activation,
        ActivationOf(op, other, other + num_others, program));
    if (!activation.can_follow) {
      return Refuse("{} cannot be fused: it is not accurate for all numbers",
                    op.def().name);
    }
    list.insert(list.end(), activation.parts.begin(), activation.parts.end());
    hides_nan = true;
  }
  NODEWISE_RETURN_IF_ERROR(CheckKinds(list));
  if (hides_nan) program.AddGuard({.terms = terms});
  return fused;
}

// oneDNN fuses nothing behind an activation but in slow code, which in 2.6 even
// leaves the output as it was. So each part is a step of its own.
absl::Status BuildActivation(ProgramBuilder& program) {
  const Call& call = program.call();
  NODEWISE_RETURN_IF_ERROR(
      All(call.RequireAllFloat32(), call.RequireOutputLike(0)));
  NODEWISE_ASSIGN_OR_RETURN(
      const Activation activation,
      ActivationOf(call.op(), 1, call.get().inputs.size(), program));
  program.AddGuard({.least = -activation.most, .most = activation.most});
  NODEWISE_ASSIGN_OR_RETURN(const Fused fused,
                            FusePostOps(program, 1, activation.parts));
  NODEWISE_ASSIGN_OR_RETURN(const Desc desc, call.InputDesc(0));
  return AddSteps(program, fused, desc, program.Input(0, desc),
                  program.Output(desc));
}

// oneDNN repeats the second operand only. So the first has to be as large as
// the output, which an operator that commutes can choose between both.
absl::Status BuildBinary(ProgramBuilder& program) {
  const Call& call = program.call();
  NODEWISE_RETURN_IF_ERROR(call.RequireAllFloat32());
  if (call.get().inputs.size() != 2) {
    return Refuse("has {} inputs, expected 2", call.get().inputs.size());
  }
  const BinaryOperator binary = *BinaryOf(call.op());
  size_t left = 0;
  size_t right = 1;
  if (call.sizes(0) != call.output_sizes() && binary.commutes) {
    std::swap(left, right);
  }
  if (call.sizes(left) != call.output_sizes()) {
    return Refuse("{}: is to be broadcast", call.NameOf(left));
  }
  NODEWISE_RETURN_IF_ERROR(call.RequireOutputLike(left));
  NODEWISE_ASSIGN_OR_RETURN(Fused fused, FusePostOps(program, 1));
  NODEWISE_ASSIGN_OR_RETURN(const Desc output, call.OutputDesc());
  NODEWISE_ASSIGN_OR_RETURN(const Desc other, BesideOutput(call, right));
  const bool fuses = !BroadcastsPostOps(call);
  NODEWISE_ASSIGN_OR_RETURN(
      const Planned planned,
      PlanOf<dnnl::binary>(fuses ? fused.attributes : Attributes(),
                           binary.algorithm, output, other, output));
  if (binary.hides_nan) program.AddGuard({});
  const Value result = program.Output(output);
  Arguments arguments = {{DNNL_ARG_SRC_0, program.Input(left, output)},
                         {DNNL_ARG_SRC_1, program.Input(right, other)},
                         {DNNL_ARG_DST, result}};
  if (!fuses) {
    NODEWISE_RETURN_IF_ERROR(program.Add(planned, arguments));
    return AddSteps(program, fused, output, result, result);
  }
  arguments.insert(arguments.end(), fused.arguments.begin(),
                   fused.arguments.end());
  return program.Add(planned, arguments);
}

}  // namespace nodewise::onednn
