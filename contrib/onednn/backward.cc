#include <algorithm>
#include <optional>
#include <utility>

#include "contrib/onednn/backward_run.h"
#include "contrib/onednn/conv.h"
#include "contrib/onednn/omp_team.h"
#include "contrib/onednn/onednn_catch.h"
#include "contrib/onednn/windows.h"
#include "fmt/format.h"
#include "nodewise/onednn/onednn.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/layer_norm.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/norm.h"
#include "nodewise/ops/pool.h"
#include "nodewise/ops/softmax.h"
#include "nodewise/ops/unary.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::onednn {
namespace {

// The gradient of the data, from the cotangent and what has been read before.
absl::Status GiveSourceGradient(BackwardRun& run, const PlannedBackward& plan) {
  run.Read(DNNL_ARG_DIFF_DST, run.Cotangent());
  run.Make(DNNL_ARG_DIFF_SRC);
  run.Run(plan.backward);
  return run.Give(0, DNNL_ARG_DIFF_SRC);
}

absl::Status ConvGradients(BackwardRun& run, ConvSpec spec,
                           const Desc& weights) {
  const Call& call = run.call();
  spec.source = AnyOrder(call.sizes(0), DataType::f32);
  spec.output = AnyOrder(call.output_sizes(), DataType::f32);
  if (run.wants(0)) {
    NODEWISE_ASSIGN_OR_RETURN(const PlannedBackward plan, PlanConvSource(spec));
    run.Read(DNNL_ARG_WEIGHTS, run.Input(1, weights));
    NODEWISE_RETURN_IF_ERROR(GiveSourceGradient(run, plan));
  }
  const bool has_bias = call.has(2) && run.wants(2);
  if (!run.wants(1) && !has_bias) return absl::OkStatus();
  if (has_bias) spec.bias = AnyOrder(call.sizes(2), DataType::f32);
  NODEWISE_ASSIGN_OR_RETURN(const PlannedBackward plan, PlanConvWeights(spec));
  run.Read(DNNL_ARG_DIFF_DST, run.Cotangent());
  run.Read(DNNL_ARG_SRC, run.Input(0));
  run.Make(DNNL_ARG_DIFF_WEIGHTS);
  if (has_bias) run.Make(DNNL_ARG_DIFF_BIAS);
  run.Run(plan.backward);
  if (has_bias) NODEWISE_RETURN_IF_ERROR(run.Give(2, DNNL_ARG_DIFF_BIAS));
  return run.Give(1, DNNL_ARG_DIFF_WEIGHTS, weights);
}

absl::Status RunConv(BackwardRun& run) {
  const Call& call = run.call();
  const auto& op = *call.op().As<ops::Conv>();
  NODEWISE_RETURN_IF_ERROR(CheckConvRanks(call, 1));
  ConvSpec spec;
  NODEWISE_RETURN_IF_ERROR(PlaceConv(call, op, 1, &spec));
  const Sizes grouped = GroupedSizes(call.sizes(1), op.group);
  spec.has_groups = op.group > 1;
  spec.weights = AnyOrder(grouped, DataType::f32);
  return ConvGradients(run, std::move(spec),
                       DescOf(grouped, DataType::f32, TensorLayout::kPlain));
}

absl::Status RunConvTranspose(BackwardRun& run) {
  NODEWISE_RETURN_IF_ERROR(CheckConvRanks(run.call(), 1));
  ConvSpec spec;
  Desc weights;
  NODEWISE_RETURN_IF_ERROR(PlaceConvTranspose(run.call(), &spec, &weights));
  return ConvGradients(run, std::move(spec), weights);
}

// The inner product takes the second matrix as [N, K].
absl::Status RunMatMul(BackwardRun& run) {
  const Sizes& a = run.call().sizes(0);
  const Sizes& b = run.call().sizes(1);
  if (a.size() != 2 || b.size() != 2) return Refuse("is of no two matrices");
  const Desc turned({b[1], b[0]}, DataType::f32, Dims{1, b[1]});
  const Desc source = AnyOrder(a, DataType::f32);
  const Desc weights = AnyOrder({b[1], b[0]}, DataType::f32);
  const Desc output = AnyOrder({a[0], b[1]}, DataType::f32);
  if (run.wants(0)) {
    NODEWISE_ASSIGN_OR_RETURN(const PlannedBackward plan,
                              PlanProductSource(source, weights, output));
    run.Read(DNNL_ARG_WEIGHTS, run.Input(1, turned));
    NODEWISE_RETURN_IF_ERROR(GiveSourceGradient(run, plan));
  }
  if (!run.wants(1)) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const PlannedBackward plan,
                            PlanProductWeights(source, weights, output));
  run.Read(DNNL_ARG_DIFF_DST, run.Cotangent());
  run.Read(DNNL_ARG_SRC, run.Input(0));
  run.Make(DNNL_ARG_DIFF_WEIGHTS);
  run.Run(plan.backward);
  return run.Give(1, DNNL_ARG_DIFF_WEIGHTS, turned);
}

absl::Status PoolGradient(BackwardRun& run, PoolSpec spec) {
  const Call& call = run.call();
  spec.source = run.PlainOf(0);
  spec.output =
      DescOf(call.output_sizes(), DataType::f32, TensorLayout::kPlain);
  NODEWISE_ASSIGN_OR_RETURN(const PlannedBackward plan, PlanPoolBackward(spec));
  const bool is_max = spec.algorithm == Algorithm::pooling_max;
  if (is_max) {
    run.Read(DNNL_ARG_SRC, run.Input(0));
    run.Make(DNNL_ARG_DST);
    run.Make(DNNL_ARG_WORKSPACE);
    run.Run(plan.forward);
    run.Keep(DNNL_ARG_WORKSPACE);
  }
  return GiveSourceGradient(run, plan);
}

absl::Status RunMaxPool(BackwardRun& run) {
  PoolSpec spec;
  spec.algorithm = Algorithm::pooling_max;
  bool reaches_beyond = false;
  NODEWISE_RETURN_IF_ERROR(PlacePool(
      run.call(), *run.call().op().As<ops::MaxPool>(), &spec, &reaches_beyond));
  return PoolGradient(run, std::move(spec));
}

absl::Status RunAveragePool(BackwardRun& run) {
  const auto& op = *run.call().op().As<ops::AveragePool>();
  PoolSpec spec;
  spec.algorithm = op.count_include_pad
                       ? Algorithm::pooling_avg_include_padding
                       : Algorithm::pooling_avg_exclude_padding;
  bool reaches_beyond = false;
  NODEWISE_RETURN_IF_ERROR(PlacePool(run.call(), op, &spec, &reaches_beyond));
  if (reaches_beyond && op.count_include_pad) {
    return Refuse("counts padding beyond that of the operator (ceil_mode)");
  }
  return PoolGradient(run, std::move(spec));
}

absl::Status GlobalGradient(BackwardRun& run, Algorithm algorithm) {
  const Sizes& x = run.call().sizes(0);
  PoolSpec spec;
  spec.algorithm = algorithm;
  spec.kernel.assign(x.begin() + 2, x.end());
  spec.strides.assign(spec.kernel.size(), 1);
  spec.dilations.assign(spec.kernel.size(), 0);
  spec.pads_begin = spec.pads_end = spec.dilations;
  return PoolGradient(run, std::move(spec));
}

// One function of each number, as oneDNN has it.
std::optional<PostOp> FunctionOf(const OpAttrs& op) {
  const auto of = [](Algorithm algorithm, float alpha = 0, float beta = 0) {
    return PostOp{algorithm, alpha, beta, std::nullopt};
  };
  if (op.As<ops::Relu>() != nullptr) return of(Algorithm::eltwise_relu);
  if (op.As<ops::Tanh>() != nullptr) return of(Algorithm::eltwise_tanh);
  if (op.As<ops::Abs>() != nullptr) return of(Algorithm::eltwise_abs);
  if (op.As<ops::Sqrt>() != nullptr) return of(Algorithm::eltwise_sqrt);
  if (op.As<ops::Exp>() != nullptr) return of(Algorithm::eltwise_exp);
  if (op.As<ops::Log>() != nullptr) return of(Algorithm::eltwise_log);
  if (op.As<ops::Sigmoid>() != nullptr) return of(Algorithm::eltwise_logistic);
  if (op.As<ops::Mish>() != nullptr) return of(Algorithm::eltwise_mish);
  if (const auto* const leaky = op.As<ops::LeakyRelu>()) {
    return of(Algorithm::eltwise_relu, leaky->alpha);
  }
  if (const auto* const elu = op.As<ops::Elu>()) {
    return of(Algorithm::eltwise_elu, elu->alpha);
  }
  if (const auto* const swish = op.As<ops::Swish>()) {
    return of(Algorithm::eltwise_swish, swish->alpha);
  }
  if (const auto* const gelu = op.As<ops::Gelu>()) {
    return of(gelu->approximate == ops::GeluFormula::kErf
                  ? Algorithm::eltwise_gelu_erf
                  : Algorithm::eltwise_gelu_tanh);
  }
  return std::nullopt;
}

absl::Status RunFunction(BackwardRun& run) {
  const auto function = FunctionOf(run.call().op());
  if (!function.has_value()) return Refuse("oneDNN has no such function");
  NODEWISE_ASSIGN_OR_RETURN(const PlannedBackward plan,
                            PlanEltwiseBackward(*function, run.PlainOf(0)));
  run.Read(DNNL_ARG_SRC, run.Input(0));
  return GiveSourceGradient(run, plan);
}

absl::Status SoftmaxGradient(BackwardRun& run, Algorithm algorithm,
                             int64_t axis) {
  NODEWISE_ASSIGN_OR_RETURN(
      const int side, Axis(axis, static_cast<int>(run.call().sizes(0).size())));
  NODEWISE_ASSIGN_OR_RETURN(
      const PlannedBackward plan,
      PlanSoftmaxBackward(algorithm, run.PlainOf(0), side));
  run.Read(DNNL_ARG_SRC, run.Input(0));
  run.Make(DNNL_ARG_DST);
  run.Run(plan.forward);
  run.Keep(DNNL_ARG_DST);
  return GiveSourceGradient(run, plan);
}

// The gradients of data, scale and shift. `list` are the sizes of the last two.
absl::Status NormGradients(BackwardRun& run, const PlannedBackward& plan,
                           const Desc& data, const Desc& list, bool are_given) {
  const Placed source = run.Input(0, data);
  const bool has_shift = run.call().has(2);
  const auto read_statistics = [&] {
    run.Read(DNNL_ARG_MEAN, run.Input(3, list));
    run.Read(DNNL_ARG_VARIANCE, run.Input(4, list));
  };
  if (!are_given) {
    run.Read(DNNL_ARG_SRC, source);
    run.Read(DNNL_ARG_SCALE, run.Input(1, list));
    // A shift moves no statistics.
    run.Read(DNNL_ARG_SHIFT, run.Input(has_shift ? 2 : 1, list));
    run.Make(DNNL_ARG_DST);
    run.Make(DNNL_ARG_MEAN);
    run.Make(DNNL_ARG_VARIANCE);
    run.Run(plan.forward);
    run.Keep(DNNL_ARG_MEAN);
    run.Keep(DNNL_ARG_VARIANCE);
  } else {
    read_statistics();
  }
  run.Read(DNNL_ARG_SRC, source);
  run.Read(DNNL_ARG_DIFF_DST, run.Cotangent(data));
  run.Read(DNNL_ARG_SCALE, run.Input(1, list));
  const bool is_batch_norm =
      run.call().op().As<ops::BatchNormalization>() != nullptr;
  if (NormBackwardReadsShift(is_batch_norm)) {
    run.Read(DNNL_ARG_SHIFT, run.Input(has_shift ? 2 : 1, list));
  }
  run.Make(DNNL_ARG_DIFF_SRC);
  run.Make(DNNL_ARG_DIFF_SCALE);
  run.Make(DNNL_ARG_DIFF_SHIFT);
  run.Run(plan.backward);
  NODEWISE_RETURN_IF_ERROR(run.Give(0, DNNL_ARG_DIFF_SRC, data));
  NODEWISE_RETURN_IF_ERROR(run.Give(1, DNNL_ARG_DIFF_SCALE, list));
  return has_shift ? run.Give(2, DNNL_ARG_DIFF_SHIFT, list) : absl::OkStatus();
}

absl::Status RunBatchNorm(BackwardRun& run) {
  const auto& op = *run.call().op().As<ops::BatchNormalization>();
  const Sizes& x = run.call().sizes(0);
  if (x.size() < 2 || x.size() > 5) return Refuse("has no 2 to 5 sides");
  NODEWISE_ASSIGN_OR_RETURN(
      const PlannedBackward plan,
      PlanBatchNormBackward(run.PlainOf(0), op.epsilon, !op.training_mode));
  return NormGradients(run, plan, run.PlainOf(0),
                       Desc({x[1]}, DataType::f32, Dims{1}), !op.training_mode);
}

absl::Status RunLayerNorm(BackwardRun& run) {
  const Call& call = run.call();
  const auto& op = *call.op().As<ops::LayerNormalization>();
  const Sizes& x = call.sizes(0);
  NODEWISE_ASSIGN_OR_RETURN(const int axis,
                            Axis(op.axis, static_cast<int>(x.size())));
  int64_t rows = 1;
  int64_t count = 1;
  for (size_t side = 0; side < x.size(); ++side) {
    (static_cast<int>(side) < axis ? rows : count) *= x[side];
  }
  for (size_t i = 1; i < 3; ++i) {
    if (call.has(i) && call.count(i) != count) {
      return Refuse(fmt::format("{}: is repeated", call.NameOf(i)));
    }
  }
  const Desc data({rows, count}, DataType::f32, Dims{count, 1});
  NODEWISE_ASSIGN_OR_RETURN(const PlannedBackward plan,
                            PlanLayerNormBackward(data, op.epsilon));
  return NormGradients(run, plan, data, Desc({count}, DataType::f32, Dims{1}),
                       false);
}

absl::Status RunLrn(BackwardRun& run) {
  const auto& op = *run.call().op().As<ops::LRN>();
  if (op.size % 2 == 0) {
    return Refuse("has an even size, whose middle oneDNN has elsewhere");
  }
  NODEWISE_ASSIGN_OR_RETURN(
      const PlannedBackward plan,
      PlanLrnBackward(run.PlainOf(0),
                      {op.size.get(), op.alpha, op.beta, op.bias}));
  run.Read(DNNL_ARG_SRC, run.Input(0));
  run.Make(DNNL_ARG_DST);
  const bool has_workspace =
      !(ArgumentOf({plan.forward, {}}, DNNL_ARG_WORKSPACE) == Desc());
  if (has_workspace) run.Make(DNNL_ARG_WORKSPACE);
  run.Run(plan.forward);
  if (has_workspace) run.Keep(DNNL_ARG_WORKSPACE);
  run.Read(DNNL_ARG_SRC, run.Input(0));
  return GiveSourceGradient(run, plan);
}

struct BackwardRow {
  std::string_view name;
  const void* type;
  absl::Status (*run)(BackwardRun& run);
};

template <typename Class>
constexpr BackwardRow BackwardRowOf(std::string_view name,
                                    absl::Status (*run)(BackwardRun& run)) {
  return {name, &kTypeTag<Class>, run};
}

constexpr BackwardRow kBackwardRows[] = {
    BackwardRowOf<ops::Abs>("Abs", &RunFunction),
    BackwardRowOf<ops::AveragePool>("AveragePool", &RunAveragePool),
    BackwardRowOf<ops::BatchNormalization>("BatchNormalization", &RunBatchNorm),
    BackwardRowOf<ops::Conv>("Conv", &RunConv),
    BackwardRowOf<ops::ConvTranspose>("ConvTranspose", &RunConvTranspose),
    BackwardRowOf<ops::Elu>("Elu", &RunFunction),
    BackwardRowOf<ops::Exp>("Exp", &RunFunction),
    BackwardRowOf<ops::Gelu>("Gelu", &RunFunction),
    BackwardRowOf<ops::GlobalAveragePool>(
        "GlobalAveragePool",
        [](BackwardRun& run) {
          return GlobalGradient(run, Algorithm::pooling_avg_exclude_padding);
        }),
    BackwardRowOf<ops::GlobalMaxPool>("GlobalMaxPool",
                                      [](BackwardRun& run) {
                                        return GlobalGradient(
                                            run, Algorithm::pooling_max);
                                      }),
    BackwardRowOf<ops::LRN>("LRN", &RunLrn),
    BackwardRowOf<ops::LayerNormalization>("LayerNormalization", &RunLayerNorm),
    BackwardRowOf<ops::LeakyRelu>("LeakyRelu", &RunFunction),
    BackwardRowOf<ops::Log>("Log", &RunFunction),
    BackwardRowOf<ops::LogSoftmax>(
        "LogSoftmax",
        [](BackwardRun& run) {
          return SoftmaxGradient(run, Algorithm::softmax_log,
                                 run.call().op().As<ops::LogSoftmax>()->axis);
        }),
    BackwardRowOf<ops::MatMul>("MatMul", &RunMatMul),
    BackwardRowOf<ops::MaxPool>("MaxPool", &RunMaxPool),
    BackwardRowOf<ops::Mish>("Mish", &RunFunction),
    BackwardRowOf<ops::Relu>("Relu", &RunFunction),
    BackwardRowOf<ops::Sigmoid>("Sigmoid", &RunFunction),
    BackwardRowOf<ops::Softmax>("Softmax",
                                [](BackwardRun& run) {
                                  return SoftmaxGradient(
                                      run, Algorithm::softmax_accurate,
                                      run.call().op().As<ops::Softmax>()->axis);
                                }),
    BackwardRowOf<ops::Sqrt>("Sqrt", &RunFunction),
    BackwardRowOf<ops::Swish>("Swish", &RunFunction),
    BackwardRowOf<ops::Tanh>("Tanh", &RunFunction),
};

absl::StatusOr<std::vector<NDArray>> RunRow(const BackwardRow& row,
                                            const OneDnnBackwardCall& call) {
  OneDnnCall forward;
  forward.op = call.op;
  for (const NDArray& input : call.inputs) {
    if (input.defined()) {
      forward.inputs.emplace_back().type = TensorType::Of(*input);
    } else {
      forward.inputs.emplace_back();
    }
  }
  forward.output = TensorType::Of(*call.cotangent);
  NODEWISE_ASSIGN_OR_RETURN(const Call read, Call::Read(forward));
  NODEWISE_RETURN_IF_ERROR(read.RequireAllFloat32());
  const OmpThreads threads(OneDnnThreads::Count());
  auto made = Caught([&]() -> absl::StatusOr<std::vector<NDArray>> {
    BackwardRun run(read, call);
    NODEWISE_RETURN_IF_ERROR(row.run(run));
    return run.Gradients();
  });
  if (!made.ok()) return made.status();
  return *std::move(made);
}

}  // namespace
}  // namespace nodewise::onednn

namespace nodewise {

absl::StatusOr<std::vector<NDArray>> RunOneDnnBackward(
    const OneDnnBackwardCall& call) {
  for (const onednn::BackwardRow& row : onednn::kBackwardRows) {
    if (row.type == call.op.def().type) return onednn::RunRow(row, call);
  }
  return onednn::Refuse(fmt::format("oneDNN has no backward primitive for {}",
                                    call.op.def().name));
}

std::vector<std::string_view> OneDnnBackwardOperators() {
  std::vector<std::string_view> names;
  for (const onednn::BackwardRow& row : onednn::kBackwardRows) {
    names.push_back(row.name);
  }
  return names;
}

}  // namespace nodewise
