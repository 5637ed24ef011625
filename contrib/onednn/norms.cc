#include <cstdint>
#include <limits>

#include "contrib/onednn/activation.h"
#include "contrib/onednn/rows.h"
#include "fmt/format.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/ops/layer_norm.h"
#include "nodewise/ops/norm.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::onednn {
namespace {

absl::StatusOr<Desc> ListDesc(const Call& call, size_t i, int64_t size) {
  if (call.count(i) == size) return Desc({size}, DataType::f32, Dims{1});
  return Refuse(fmt::format("{}: has {} elements, expected {}", call.NameOf(i),
                            call.count(i), size));
}

}  // namespace

absl::StatusOr<float> BatchNormEpsilon(const OpAttrs& attrs) {
  bool trains = false;
  bool is_spatial = true;
  float epsilon = 0;
  if (const auto* const op = attrs.As<ops::BatchNormalization>()) {
    epsilon = op->epsilon;
    trains = op->training_mode;
  } else if (const auto* const op9 = attrs.As<ops::BatchNormalization9>()) {
    epsilon = op9->epsilon;
  } else if (const auto* const op7 = attrs.As<ops::BatchNormalization7>()) {
    epsilon = op7->epsilon;
    is_spatial = op7->spatial;
  } else if (const auto* const op1 = attrs.As<ops::BatchNormalization1>()) {
    epsilon = op1->epsilon;
    is_spatial = op1->spatial;
    trains = op1->is_test == 0;
  }
  if (trains) return Refuse("trains");
  if (!is_spatial) return Refuse("has statistics of its own for each element");
  return epsilon;
}

absl::Status BuildBatchNorm(ProgramBuilder& program) {
  const Call& call = program.call();
  NODEWISE_ASSIGN_OR_RETURN(const float epsilon, BatchNormEpsilon(call.op()));
  NODEWISE_RETURN_IF_ERROR(call.RequireAllFloat32());
  NODEWISE_RETURN_IF_ERROR(call.RequireOutputLike(0));
  const Sizes& x = call.sizes(0);
  if (x.size() < 2 || x.size() > 5) {
    return Refuse(fmt::format("has {} sides, expected 2 to 5", x.size()));
  }
  NODEWISE_ASSIGN_OR_RETURN(Fused fused, FusePostOps(program, 1e6));
  NODEWISE_ASSIGN_OR_RETURN(const Desc desc, call.InputDesc(0));
  NODEWISE_ASSIGN_OR_RETURN(const Planned planned,
                            PlanBatchNorm(desc, epsilon, fused.attributes));
  constexpr int kArguments[] = {DNNL_ARG_SCALE, DNNL_ARG_SHIFT, DNNL_ARG_MEAN,
                                DNNL_ARG_VARIANCE};
  for (size_t i = 1; i < 5; ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const Desc list, ListDesc(call, i, x[1]));
    fused.arguments.emplace_back(kArguments[i - 1], program.Input(i, list));
  }
  fused.arguments.emplace_back(DNNL_ARG_SRC, program.Input(0, desc));
  fused.arguments.emplace_back(DNNL_ARG_DST, program.Output(desc));
  return program.Add(planned, fused.arguments);
}

absl::Status BuildLayerNorm(ProgramBuilder& program) {
  const Call& call = program.call();
  const auto& op = *call.op().As<ops::LayerNormalization>();
  NODEWISE_RETURN_IF_ERROR(call.RequireAllFloat32());
  NODEWISE_RETURN_IF_ERROR(call.RequireOutputLike(0));
  NODEWISE_RETURN_IF_ERROR(call.RequirePlain(0));
  NODEWISE_RETURN_IF_ERROR(call.RequireNoPostOps());
  const Sizes& x = call.sizes(0);
  NODEWISE_ASSIGN_OR_RETURN(const int axis,
                            Axis(op.axis, static_cast<int>(x.size())));
  int64_t rows = 1;
  int64_t run = 1;
  for (size_t side = 0; side < x.size(); ++side) {
    (static_cast<int>(side) < axis ? rows : run) *= x[side];
  }
  const Desc desc({rows, run}, DataType::f32, Dims{run, 1});
  const bool has_shift = call.has(2);
  NODEWISE_ASSIGN_OR_RETURN(const Planned planned,
                            PlanLayerNorm(desc, op.epsilon, has_shift, {}));
  std::vector<std::pair<int, Value>> arguments = {
      {DNNL_ARG_SRC, program.Input(0, desc)},
      {DNNL_ARG_DST, program.Output(desc)}};
  NODEWISE_ASSIGN_OR_RETURN(const Desc list, ListDesc(call, 1, run));
  arguments.emplace_back(DNNL_ARG_SCALE, program.Input(1, list));
  if (has_shift) {
    NODEWISE_RETURN_IF_ERROR(ListDesc(call, 2, run).status());
    arguments.emplace_back(DNNL_ARG_SHIFT, program.Input(2, list));
  }
  return program.Add(planned, arguments);
}

absl::Status BuildLrn(ProgramBuilder& program) {
  const Call& call = program.call();
  const auto& op = *call.op().As<ops::LRN>();
  NODEWISE_RETURN_IF_ERROR(call.RequireAllFloat32());
  NODEWISE_RETURN_IF_ERROR(call.RequireOutputLike(0));
  NODEWISE_RETURN_IF_ERROR(call.RequireNoPostOps());
  if (op.size > std::numeric_limits<int32_t>::max()) {
    return Refuse("has a size of more than 32 bits");
  }
  if (op.size % 2 == 0) {
    return Refuse("has an even size, whose middle oneDNN has elsewhere");
  }
  NODEWISE_ASSIGN_OR_RETURN(const Desc desc, call.InputDesc(0));
  NODEWISE_ASSIGN_OR_RETURN(
      const Planned planned,
      PlanLrn(desc, {op.size.get(), op.alpha, op.beta, op.bias}));
  program.AddGuard({});
  return program.Add(planned, {{DNNL_ARG_SRC, program.Input(0, desc)},
                               {DNNL_ARG_DST, program.Output(desc)}});
}

}  // namespace nodewise::onednn
