// Operators that calculate along sides: normalizations, probabilities,
// reductions.

#include <array>
#include <cstdint>
#include <limits>

#include "contrib/onednn/rows.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/layer_norm.h"
#include "nodewise/ops/norm.h"
#include "nodewise/ops/reduce.h"
#include "nodewise/ops/softmax.h"
#include "nodewise/support/status.h"

namespace nodewise::onednn {
namespace {

using dnnl::normalization_flags;

// Input `i` as a list of one number for each of `size` channels or elements.
absl::Status AddList(ProgramBuilder& program, size_t i, int64_t size,
                     int argument, Arguments* arguments) {
  const Call& call = program.call();
  if (call.count(i) != size) {
    return Refuse("{}: has {} elements, expected {}", call.NameOf(i),
                  call.count(i), size);
  }
  arguments->emplace_back(argument, program.Input(i, ListDesc(size)));
  return absl::OkStatus();
}

struct Reduction {
  const void* type;
  Algorithm algorithm;
  float power;
};
// Norms are powers of oneDNN's p-norms: the sum of |x|^p, and its root where
// the name does not say "power".
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
template <typename... Classes>
const ops::ReduceAttributes& AttributesOf(const OpAttrs& attrs) {
  const ops::ReduceAttributes* found = nullptr;
  ((found = found != nullptr ? found : attrs.As<Classes>()), ...);
  return *found;
}

// Returns for each side whether it is reduced. Without axes that is every side
// or none, as an attribute says.
absl::StatusOr<std::vector<bool>> ReducedSides(
    const Call& call, const ops::ReduceAttributes& op) {
  const size_t rank = call.sizes(0).size();
  std::vector<int64_t> axes;
  if (call.has(1)) {
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<double> numbers,
                              call.RequireNumbers(1));
    axes.assign(numbers.begin(), numbers.end());
  }
  if (axes.empty() && op.noop_with_empty_axes) return Refuse("reduces nothing");
  std::vector<bool> is_reduced(rank, axes.empty());
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<int> sides,
                            Axes(axes, static_cast<int>(rank)));
  for (const int side : sides) is_reduced[static_cast<size_t>(side)] = true;
  return is_reduced;
}

}  // namespace

// Below opset 7 the operator trains unless it is told not to; from 7 to 8 each
// place may have statistics of its own.
absl::StatusOr<float> BatchNormEpsilon(const OpAttrs& attrs) {
  bool trains = false;
  bool is_spatial = true;
  float epsilon = 0;
  const auto read = [&](const auto* op) {
    if (op == nullptr) return;
    epsilon = op->epsilon;
    if constexpr (requires { op->spatial; }) is_spatial = op->spatial;
    if constexpr (requires { op->training_mode; }) trains = op->training_mode;
    if constexpr (requires { op->is_test; }) trains = op->is_test == 0;
  };
  read(attrs.As<ops::BatchNormalization>());
  read(attrs.As<ops::BatchNormalization9>());
  read(attrs.As<ops::BatchNormalization7>());
  read(attrs.As<ops::BatchNormalization1>());
  if (trains) return Refuse("trains");
  if (!is_spatial) return Refuse("has statistics of its own for each element");
  return epsilon;
}

// Behind a batch normalization oneDNN fuses a ReLU at most, and says so when
// the primitive is planned.
absl::Status BuildBatchNorm(ProgramBuilder& program) {
  const Call& call = program.call();
  NODEWISE_ASSIGN_OR_RETURN(const float epsilon, BatchNormEpsilon(call.op()));
  NODEWISE_RETURN_IF_ERROR(All(call.RequireAllFloat32(),
                               call.RequireOutputLike(0),
                               call.RequireRank(2, 5)));
  // With so many terms, a run is left to the operator where the largest numbers
  // of its inputs multiply to more than 1e31 (Guard::terms).
  NODEWISE_ASSIGN_OR_RETURN(Fused fused, FusePostOps(program, 1e6));
  NODEWISE_ASSIGN_OR_RETURN(const Desc desc, call.InputDesc(0));
  NODEWISE_ASSIGN_OR_RETURN(
      const Planned planned,
      PlanForwardNorm<dnnl::batch_normalization_forward>(
          fused.attributes, desc, epsilon,
          normalization_flags::use_global_stats |
              normalization_flags::use_scale | normalization_flags::use_shift));
  constexpr int kLists[] = {DNNL_ARG_SCALE, DNNL_ARG_SHIFT, DNNL_ARG_MEAN,
                            DNNL_ARG_VARIANCE};
  for (size_t i = 0; i < std::size(kLists); ++i) {
    NODEWISE_RETURN_IF_ERROR(
        AddList(program, i + 1, call.sizes(0)[1], kLists[i], &fused.arguments));
  }
  return program.AddFromInput(planned, desc, desc, fused.arguments);
}

absl::StatusOr<Sizes> RowsBefore(const Sizes& sizes, int64_t axis) {
  NODEWISE_ASSIGN_OR_RETURN(const int side,
                            Axis(axis, static_cast<int>(sizes.size())));
  const auto all = absl::MakeConstSpan(sizes);
  const auto at = static_cast<size_t>(side);
  return Sizes{ProductOf(all.first(at)), ProductOf(all.subspan(at))};
}

// Sides before the axis are rows of a matrix, and those from it on are
// normalized together.
absl::Status BuildLayerNorm(ProgramBuilder& program) {
  const Call& call = program.call();
  const auto& op = *call.op().As<ops::LayerNormalization>();
  NODEWISE_RETURN_IF_ERROR(All(call.RequireAllFloat32(),
                               call.RequireOutputLike(0), call.RequirePlain(0),
                               call.RequireNoPostOps()));
  NODEWISE_ASSIGN_OR_RETURN(const Sizes rows,
                            RowsBefore(call.sizes(0), op.axis));
  const Desc desc = DescOf(rows, DataType::f32);
  const bool has_shift = call.has(2);
  auto flags = normalization_flags::use_scale;
  if (has_shift) flags = flags | normalization_flags::use_shift;
  NODEWISE_ASSIGN_OR_RETURN(const Planned planned,
                            PlanForwardNorm<dnnl::layer_normalization_forward>(
                                {}, desc, op.epsilon, flags));
  Arguments lists;
  NODEWISE_RETURN_IF_ERROR(
      AddList(program, 1, rows[1], DNNL_ARG_SCALE, &lists));
  if (has_shift) {
    NODEWISE_RETURN_IF_ERROR(
        AddList(program, 2, rows[1], DNNL_ARG_SHIFT, &lists));
  }
  return program.AddFromInput(planned, desc, desc, std::move(lists));
}

// oneDNN has the middle of an even number of channels elsewhere, and 32 bits
// for the number.
absl::Status BuildLrn(ProgramBuilder& program) {
  const Call& call = program.call();
  const auto& op = *call.op().As<ops::LRN>();
  NODEWISE_RETURN_IF_ERROR(All(call.RequireAllFloat32(),
                               call.RequireOutputLike(0),
                               call.RequireNoPostOps()));
  if (op.size > std::numeric_limits<int32_t>::max()) {
    return Refuse("has a size of more than 32 bits");
  }
  if (op.size % 2 == 0) {
    return Refuse("has an even size, whose middle oneDNN has elsewhere");
  }
  NODEWISE_ASSIGN_OR_RETURN(const Desc desc, call.InputDesc(0));
  NODEWISE_ASSIGN_OR_RETURN(const Planned planned,
                            PlanForward<dnnl::lrn_forward>(
                                {}, Algorithm::lrn_across_channels, desc, desc,
                                op.size.get(), op.alpha, op.beta, op.bias));
  program.AddGuard({});
  return program.AddFromInput(planned, desc, desc);
}

// LogSoftmax is not here: oneDNN's logarithm is off by more than its bound.
// Sides are joined to those before the axis, along it and behind it, since
// oneDNN is fast with few sides. Rows are guarded: a row of -infinities alone
// has no probabilities.
absl::Status BuildSoftmax(ProgramBuilder& program) {
  const Call& call = program.call();
  const auto* const op = call.op().As<ops::Softmax>();
  const int64_t told =
      op != nullptr ? op->axis : call.op().As<ops::Softmax1>()->axis;
  const bool all_from_axis = op == nullptr;  // Below opset 13.
  NODEWISE_RETURN_IF_ERROR(All(call.RequireAllFloat32(),
                               call.RequireOutputLike(0), call.RequirePlain(0),
                               call.RequireNoPostOps()));
  const Sizes& x = call.sizes(0);
  NODEWISE_ASSIGN_OR_RETURN(const int axis,
                            Axis(told, static_cast<int>(x.size())));
  std::array<int64_t, 3> rows = {1, 1, 1};  // Before, along, behind the axis.
  for (int side = 0; side < static_cast<int>(x.size()); ++side) {
    const bool is_along = side == axis || (side > axis && all_from_axis);
    rows[side < axis ? 0 : is_along ? 1 : 2] *= x[static_cast<size_t>(side)];
  }
  Sizes sizes = {rows[0], rows[1]};
  if (rows[2] > 1) sizes.push_back(rows[2]);
  const Desc desc = DescOf(sizes, DataType::f32);
  NODEWISE_ASSIGN_OR_RETURN(
      const Planned planned,
      PlanOf<SoftmaxForward>({}, kInference, Algorithm::softmax_accurate, desc,
                             desc, 1));
  program.AddGuard({.rows = rows});
  return program.AddFromInput(planned, desc, desc);
}

absl::Status BuildReduction(ProgramBuilder& program) {
  const Call& call = program.call();
  NODEWISE_RETURN_IF_ERROR(All(call.RequireFloat32(0), call.RequirePlain(0),
                               call.RequireNoPostOps(),
                               call.RequirePlainOutput()));
  NODEWISE_ASSIGN_OR_RETURN(
      const std::vector<bool> is_reduced,
      ReducedSides(call,
                   AttributesOf<ops::ReduceSum, ops::ReduceMean, ops::ReduceMax,
                                ops::ReduceMin, ops::ReduceL1, ops::ReduceL2,
                                ops::ReduceSumSquare>(call.op())));
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
  const Desc from = DescOf(source, DataType::f32);
  const Desc to = DescOf(output, DataType::f32);
  for (const Reduction& row : kReductions) {
    if (row.type != call.op().def().type) continue;
    NODEWISE_ASSIGN_OR_RETURN(
        const Planned planned,
        // The last number is added to a norm; the operators add none.
        PlanOf<dnnl::reduction>({}, row.algorithm, from, to, row.power, 0.0F));
    program.AddGuard({});
    return program.AddFromInput(planned, from, to);
  }
  return Refuse("oneDNN has no such reduction");
}

}  // namespace nodewise::onednn
