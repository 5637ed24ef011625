#include "nodewise/ops/conv.h"

#include <algorithm>

#include "contrib/onednn/activation.h"
#include "contrib/onednn/conv.h"
#include "contrib/onednn/folded_conv.h"
#include "contrib/onednn/windows.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::onednn {

absl::Status RefuseSlow(const Planned& planned) {
  const std::string name = planned.plan.impl_info_str();
  if (name.rfind("ref", 0) != 0) return absl::OkStatus();
  return Refuse(fmt::format("oneDNN has only its slow code for it ({})", name));
}

absl::Status PlaceConv(const Call& call, const ops::ConvAttributes& op,
                       size_t weights, ConvSpec* spec) {
  const Sizes& x = call.sizes(0);
  const Sizes& w = call.sizes(weights);
  const size_t spatial = x.size() - 2;
  NODEWISE_ASSIGN_OR_RETURN(Window window,
                            ResolveWindow({op.auto_pad,
                                           {w.begin() + 2, w.end()},
                                           op.strides,
                                           op.dilations,
                                           op.pads,
                                           false},
                                          static_cast<int>(spatial)));
  NODEWISE_RETURN_IF_ERROR(CheckWindows(
      call.sizes(0), {window.kernel, window.strides, window.dilations,
                      window.pads, window.pads}));
  Sizes output = {x[0], w[0]};
  for (size_t s = 0; s < spatial; ++s) {
    const int side = static_cast<int>(s);
    PadSame(op.auto_pad, side, x[s + 2], &window);
    NODEWISE_ASSIGN_OR_RETURN(output.emplace_back(),
                              WindowCount(window, side, x[s + 2], false));
    spec->dilations.push_back(window.dilations[s] - 1);
  }
  if (output != call.output_sizes()) {
    return Refuse(fmt::format("makes {}, but the output is {}",
                              ShapeToString(output),
                              ShapeToString(call.output_sizes())));
  }
  spec->strides = window.strides;
  const auto middle = window.pads.begin() + static_cast<int>(spatial);
  spec->pads_begin.assign(window.pads.begin(), middle);
  spec->pads_end.assign(middle, window.pads.end());
  return absl::OkStatus();
}

absl::Status CheckConvRanks(const Call& call, size_t weights) {
  const size_t rank = call.sizes(0).size();
  if (rank < 3 || rank > 5) {
    return Refuse(fmt::format("has {} sides, expected 3 to 5", rank));
  }
  if (call.sizes(weights).size() == rank) return absl::OkStatus();
  return Refuse("the weights are of another rank than the data");
}

Sizes GroupedSizes(const Sizes& weights, int64_t group) {
  if (group == 1) return weights;
  Sizes grouped = {group, weights[0] / group};
  grouped.insert(grouped.end(), weights.begin() + 1, weights.end());
  return grouped;
}

Desc AnyOrder(const Sizes& sizes, DataType type) {
  return {Dims(sizes.begin(), sizes.end()), type,
          dnnl::memory::format_tag::any};
}

namespace {

// Behind a convolution by matrix products, which it takes for plain layouts,
// oneDNN 2 and 3 compute what has a second operand element by element, a
// hundred times as slowly as the convolution itself.
absl::Status RefuseSlowPostOps(const Planned& planned,
                               const Attributes& attributes) {
  const std::string name = planned.plan.impl_info_str();
  const auto& list = attributes.post_ops;
  const bool is_binary =
      std::any_of(list.begin(), list.end(),
                  [](const PostOp& op) { return op.other.has_value(); });
  if (!is_binary || name.find("gemm") == std::string::npos) {
    return absl::OkStatus();
  }
  return Refuse(
      fmt::format("oneDNN fuses it in its slow code only ({})", name));
}

// Weights and bias of a convolution, with the batch normalization behind it.
struct ConvConstants {
  Value weights;
  std::optional<Value> bias;
  size_t num_folded = 0;  // Post-operations.
  double most = 1;        // As in ChannelRules.
};

absl::StatusOr<ConvConstants> ConstantsOf(
    ProgramBuilder& program, const Desc& weights,
    std::optional<int64_t> transposed_groups) {
  const Call& call = program.call();
  if (!HasBatchNorm(call)) {
    ConvConstants plain{program.Input(1, weights), std::nullopt};
    if (call.has(2)) {
      NODEWISE_ASSIGN_OR_RETURN(const Desc bias, call.InputDesc(2));
      plain.bias = program.Input(2, bias);
    }
    return plain;
  }
  NODEWISE_ASSIGN_OR_RETURN(const ChannelRules rules, ReadBatchNorm(program));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray* w, call.RequireConstant(1));
  const NDArray* bias = nullptr;
  if (call.has(2)) {
    NODEWISE_ASSIGN_OR_RETURN(bias, call.RequireConstant(2));
  }
  NDArray folded = *w;
  if (!program.is_dry()) {
    NODEWISE_ASSIGN_OR_RETURN(folded,
                              FoldedWeights(*w, rules, transposed_groups));
  }
  return ConvConstants{program.Constant(folded, weights),
                       program.List(FoldedBias(bias, rules)), 1, rules.most};
}

}  // namespace

absl::Status AddConv(ProgramBuilder& program, ConvSpec spec,
                     const Desc& weights,
                     std::optional<int64_t> transposed_groups) {
  const Call& call = program.call();
  NODEWISE_ASSIGN_OR_RETURN(const ConvConstants constants,
                            ConstantsOf(program, weights, transposed_groups));
  const Sizes& w = call.sizes(1);
  double terms = 2 * constants.most;
  for (size_t side = 1; side < w.size(); ++side) {
    terms *= static_cast<double>(w[side]);
  }
  NODEWISE_ASSIGN_OR_RETURN(
      Fused fused, FusePostOps(program, terms, {}, constants.num_folded));
  // Its fast code has the same layout on both sides.
  NODEWISE_ASSIGN_OR_RETURN(const Desc given, call.InputDesc(0));
  NODEWISE_ASSIGN_OR_RETURN(spec.output, call.OutputDesc());
  spec.source = DescOf(call.sizes(0), DataType::f32, call.output_layout());
  if (constants.bias.has_value()) {
    spec.bias = Desc({call.output_sizes()[1]}, DataType::f32, Dims{1});
    fused.arguments.emplace_back(DNNL_ARG_BIAS, *constants.bias);
  }
  NODEWISE_ASSIGN_OR_RETURN(const Planned planned,
                            PlanConv(spec, fused.attributes));
  NODEWISE_RETURN_IF_ERROR(RefuseSlow(planned));
  NODEWISE_RETURN_IF_ERROR(RefuseSlowPostOps(planned, fused.attributes));
  NODEWISE_ASSIGN_OR_RETURN(
      const Value ordered,
      program.Reordered(constants.weights,
                        ArgumentOf(planned, DNNL_ARG_WEIGHTS)));
  NODEWISE_ASSIGN_OR_RETURN(
      const Value source,
      program.Reordered(program.Input(0, given), spec.source));
  fused.arguments.emplace_back(DNNL_ARG_SRC, source);
  fused.arguments.emplace_back(DNNL_ARG_WEIGHTS, ordered);
  fused.arguments.emplace_back(DNNL_ARG_DST, program.Output(spec.output));
  return program.Add(planned, fused.arguments);
}

absl::Status BuildConv(ProgramBuilder& program) {
  const Call& call = program.call();
  const auto& op = *call.op().As<ops::Conv>();
  NODEWISE_RETURN_IF_ERROR(call.RequireAllFloat32());
  NODEWISE_RETURN_IF_ERROR(CheckConvRanks(call, 1));
  NODEWISE_RETURN_IF_ERROR(call.RequirePlain(1));
  ConvSpec spec;
  NODEWISE_RETURN_IF_ERROR(PlaceConv(call, op, 1, &spec));
  const Sizes grouped = GroupedSizes(call.sizes(1), op.group);
  spec.has_groups = op.group > 1;
  spec.weights = AnyOrder(grouped, DataType::f32);
  return AddConv(program, std::move(spec),
                 DescOf(grouped, DataType::f32, TensorLayout::kPlain),
                 std::nullopt);
}

}  // namespace nodewise::onednn
