#include "contrib/onednn/activation.h"
#include "contrib/onednn/rows.h"
#include "fmt/format.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/reduce.h"
#include "nodewise/ops/softmax.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::onednn {
namespace {

struct SoftmaxKind {
  int64_t axis = -1;
  bool all_from_axis = false;  // Below opset 13.
};

// LogSoftmax is not here: oneDNN's logarithm is off by more than its bound.
SoftmaxKind SoftmaxKindOf(const OpAttrs& attrs) {
  if (const auto* const op = attrs.As<ops::Softmax>()) return {op->axis, false};
  return {attrs.As<ops::Softmax1>()->axis, true};
}

}  // namespace

absl::Status BuildSoftmax(ProgramBuilder& program) {
  const Call& call = program.call();
  const SoftmaxKind kind = SoftmaxKindOf(call.op());
  NODEWISE_RETURN_IF_ERROR(call.RequireAllFloat32());
  NODEWISE_RETURN_IF_ERROR(call.RequireOutputLike(0));
  NODEWISE_RETURN_IF_ERROR(call.RequirePlain(0));
  NODEWISE_RETURN_IF_ERROR(call.RequireNoPostOps());
  const Sizes& x = call.sizes(0);
  NODEWISE_ASSIGN_OR_RETURN(const int axis,
                            Axis(kind.axis, static_cast<int>(x.size())));
  std::array<int64_t, 3> rows = {1, 1, 1};  // Before, along, behind the axis.
  for (int side = 0; side < static_cast<int>(x.size()); ++side) {
    const bool is_along = side == axis || (side > axis && kind.all_from_axis);
    rows[side < axis ? 0 : is_along ? 1 : 2] *= x[static_cast<size_t>(side)];
  }
  Sizes sizes = {rows[0], rows[1]};
  if (rows[2] > 1) sizes.push_back(rows[2]);
  const Desc desc = DescOf(sizes, DataType::f32, TensorLayout::kPlain);
  NODEWISE_ASSIGN_OR_RETURN(const Planned planned, PlanSoftmax(desc, 1));
  Guard guard;
  guard.rows = rows;
  program.AddGuard(guard);
  return program.Add(planned, {{DNNL_ARG_SRC, program.Input(0, desc)},
                               {DNNL_ARG_DST, program.Output(desc)}});
}

namespace {

struct Reduction {
  const void* type;
  Algorithm algorithm;
  float power;
};
constexpr Reduction kReductions[] = {
    {&kTypeTag<ops::ReduceSum>, Algorithm::reduction_sum, 0},
    {&kTypeTag<ops::ReduceMean>, Algorithm::reduction_mean, 0},
    {&kTypeTag<ops::ReduceMax>, Algorithm::reduction_max, 0},
    {&kTypeTag<ops::ReduceMin>, Algorithm::reduction_min, 0},
    {&kTypeTag<ops::ReduceL1>, Algorithm::reduction_norm_lp_power_p_sum, 1},
    {&kTypeTag<ops::ReduceL2>, Algorithm::reduction_norm_lp_sum, 2},
    {&kTypeTag<ops::ReduceSumSquare>, Algorithm::reduction_norm_lp_power_p_sum,
     2},
};

// All of the operators have the same attributes.
const ops::ReduceAttributes& AttributesOf(const OpAttrs& attrs) {
  if (const auto* const op = attrs.As<ops::ReduceSum>()) return *op;
  if (const auto* const op = attrs.As<ops::ReduceMean>()) return *op;
  if (const auto* const op = attrs.As<ops::ReduceMax>()) return *op;
  if (const auto* const op = attrs.As<ops::ReduceMin>()) return *op;
  if (const auto* const op = attrs.As<ops::ReduceL1>()) return *op;
  if (const auto* const op = attrs.As<ops::ReduceL2>()) return *op;
  return *attrs.As<ops::ReduceSumSquare>();
}

// Returns for each side whether it is reduced.
absl::StatusOr<std::vector<bool>> ReducedSides(
    const Call& call, const ops::ReduceAttributes& op) {
  const size_t rank = call.sizes(0).size();
  std::vector<int64_t> axes;
  if (call.has(1)) {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray* const data,
                              call.RequireConstant(1));
    for (const double axis : ToDoubles(*data)) {
      axes.push_back(static_cast<int64_t>(axis));
    }
  }
  if (axes.empty() && op.noop_with_empty_axes) {
    return Refuse("reduces nothing");
  }
  std::vector<bool> is_reduced(rank, axes.empty());
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<int> sides,
                            Axes(axes, static_cast<int>(rank)));
  for (const int side : sides) is_reduced[static_cast<size_t>(side)] = true;
  return is_reduced;
}

}  // namespace

absl::Status BuildReduction(ProgramBuilder& program) {
  const Call& call = program.call();
  NODEWISE_RETURN_IF_ERROR(call.RequireFloat32(0));
  NODEWISE_RETURN_IF_ERROR(call.RequirePlain(0));
  NODEWISE_RETURN_IF_ERROR(call.RequireNoPostOps());
  if (call.output_sizes().size() > 2 &&
      call.output_layout() != TensorLayout::kPlain) {
    return Refuse("the output has its channels last, expected it plain");
  }
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<bool> is_reduced,
                            ReducedSides(call, AttributesOf(call.op())));
  // Neighbours of one kind are one side to oneDNN, which has fast code for few
  // sides only.
  Sizes source;
  Sizes output;
  for (size_t side = 0; side < is_reduced.size(); ++side) {
    const int64_t size = call.sizes(0)[side];
    if (side > 0 && is_reduced[side] == is_reduced[side - 1]) {
      source.back() *= size;
    } else {
      source.push_back(size);
      output.push_back(1);
    }
    if (!is_reduced[side]) output.back() = source.back();
  }
  if (source == output) return Refuse("reduces nothing");
  const Desc from = DescOf(source, DataType::f32, TensorLayout::kPlain);
  const Desc to = DescOf(output, DataType::f32, TensorLayout::kPlain);
  for (const Reduction& row : kReductions) {
    if (row.type != call.op().def().type) continue;
    NODEWISE_ASSIGN_OR_RETURN(
        const Planned planned,
        PlanReduction(row.algorithm, from, to, row.power, {}));
    program.AddGuard({});
    return program.Add(planned, {{DNNL_ARG_SRC, program.Input(0, from)},
                                 {DNNL_ARG_DST, program.Output(to)}});
  }
  return Refuse("oneDNN has no such reduction");
}

}  // namespace nodewise::onednn
