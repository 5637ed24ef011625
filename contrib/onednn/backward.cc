// Gradients of operations, by oneDNN's backward primitives.

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "contrib/onednn/omp_team.h"
#include "contrib/onednn/onednn_api.h"
#include "contrib/onednn/rows.h"
#include "nodewise/onednn/onednn.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/layer_norm.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/norm.h"
#include "nodewise/ops/pool.h"
#include "nodewise/ops/softmax.h"
#include "nodewise/ops/unary.h"
#include "nodewise/support/status.h"

namespace nodewise::onednn {
namespace {

// The primitives of gradients. A backward primitive is made with the forward
// one that it belongs to, which some must have run before. oneDNN's errors are
// thrown as far as RunRow().
struct PlannedBackward {
  dnnl::primitive_desc_base forward;
  dnnl::primitive_desc_base backward;
};

using dnnl::normalization_flags;
using dnnl::prop_kind;

constexpr auto kTraining = prop_kind::forward_training;

template <typename Primitive, typename... Args>
typename Primitive::primitive_desc ForwardOf(const Args&... args) {
  return DescriptionOf<Primitive>({}, args...);
}
template <typename Primitive, typename Forward, typename... Args>
PlannedBackward BackwardOf(const Forward& forward, const Args&... args) {
  using Description = typename Primitive::primitive_desc;
#if DNNL_VERSION_MAJOR >= 3
  return {forward, Description(Engine(), args..., forward)};
#else
  return {forward,
          Description(typename Primitive::desc(args...), Engine(), forward)};
#endif
}

// Where both primitives are described by the same arguments.
template <typename Forward, typename Backward, typename... Args>
PlannedBackward PlanPair(const Args&... args) {
  return BackwardOf<Backward>(ForwardOf<Forward>(kTraining, args...), args...);
}

// Where source, output and their gradients are described alike: version 3 asks
// for the description of each gradient, version 2 takes one for both.
template <typename Forward, typename Backward, typename... Args>
PlannedBackward PlanAlike(Algorithm algorithm, const Desc& data,
                          const Args&... args) {
  return WithBoth(data, data, [&](const auto&... both) {
    return BackwardOf<Backward>(
        ForwardOf<Forward>(kTraining, algorithm, both..., args...), algorithm,
        both..., data, args...);
  });
}

// As PlanAlike(), for normalizations with scale and shift, whose statistics are
// those of the data, or given.
template <typename Forward, typename Backward>
PlannedBackward PlanNorm(const Desc& data, float epsilon, bool are_given) {
  auto flags = normalization_flags::use_scale | normalization_flags::use_shift;
  if (are_given) flags = flags | normalization_flags::use_global_stats;
  return WithBoth(data, data, [&](const auto&... both) {
    return BackwardOf<Backward>(
        ForwardOf<Forward>(kTraining, both..., epsilon, flags),
        prop_kind::backward, both..., data, epsilon, flags);
  });
}

template <typename Forward, typename Source>
PlannedBackward PlanConvSource(const ConvSpec& spec, Algorithm algorithm) {
  return PlanPair<Forward, Source>(algorithm, spec.source, spec.weights,
                                   spec.output, spec.strides, spec.dilations,
                                   spec.pads_begin, spec.pads_end);
}
template <typename Forward, typename Weights>
PlannedBackward PlanConvWeights(const ConvSpec& spec, Algorithm algorithm) {
  const auto forward = ForwardOf<Forward>(
      kTraining, algorithm, spec.source, spec.weights, spec.output,
      spec.strides, spec.dilations, spec.pads_begin, spec.pads_end);
  const auto plan = [&](const auto&... bias) {
    return BackwardOf<Weights>(forward, algorithm, spec.source, spec.weights,
                               bias..., spec.output, spec.strides,
                               spec.dilations, spec.pads_begin, spec.pads_end);
  };
  return spec.bias.has_value() ? plan(*spec.bias) : plan();
}

struct Placed {
  Desc desc;
  NDArray tensor;
};

// Runs primitives, and brings tensors into the order that each of them wants.
class BackwardRun {
 public:
  BackwardRun(const Call& call, const OneDnnBackwardCall& backward)
      : call_(call), backward_(backward), stream_(Engine()) {}

  const Call& call() const { return call_; }
  bool wants(size_t input) const {
    return std::ranges::count(backward_.wanted, input) > 0;
  }
  Placed Input(size_t i) const { return Input(i, PlainOf(i)); }
  Placed Input(size_t i, const Desc& desc) const {
    return {desc, backward_.inputs[i]};
  }
  Placed Cotangent() const {
    return Cotangent(DescOf(call_.output_sizes(), DataType::f32));
  }
  Placed Cotangent(const Desc& desc) const {
    return {desc, backward_.cotangent};
  }
  Desc PlainOf(size_t i) const { return DescOf(call_.sizes(i), DataType::f32); }

  // Arguments of the next primitive. What it makes, and what is only handed on
  // from one primitive to the next, lies as the primitive wants.
  void Read(int argument, const Placed& placed) {
    read_.emplace_back(argument, placed);
  }
  void Make(int argument) { made_.push_back(argument); }
  // The backward primitive reads what the forward one has made, as the same
  // argument.
  void Keep(int argument) { kept_.push_back(argument); }
  // Runs a primitive with all the arguments that have been told, and forgets
  // them. A primitive says how each argument has to lie; what is read or handed
  // on otherwise is brought into that order first, and what it makes has memory
  // of its own.
  void Run(const dnnl::primitive_desc_base& plan) {
    const auto desc_of = [&](int argument) {
      return ArgumentOf({plan, {}}, argument);
    };
    std::unordered_map<int, dnnl::memory> arguments;
    for (const auto& [argument, placed] : read_) {
      dnnl::memory memory(placed.desc, Engine(), placed.tensor.data());
      if (desc_of(argument) != placed.desc) {
        const dnnl::memory ordered(desc_of(argument), Engine());
        Reorder(memory, ordered);
        memory = ordered;
      }
      arguments[argument] = memory;
    }
    for (const int argument : made_) {
      memories_[argument] = dnnl::memory(desc_of(argument), Engine());
      arguments[argument] = memories_[argument];
    }
    for (const int argument : kept_) {
      const dnnl::memory& before = memories_[argument];
      if (desc_of(argument) == before.get_desc()) {
        arguments[argument] = before;
        continue;
      }
      arguments[argument] = dnnl::memory(desc_of(argument), Engine());
      Reorder(before, arguments[argument]);
    }
    read_.clear();
    made_.clear();
    kept_.clear();
    dnnl::primitive(plan.get()).execute(stream_, arguments);
    stream_.wait();
  }
  absl::Status GiveSourceGradient(const PlannedBackward& plan) {
    Read(DNNL_ARG_DIFF_DST, Cotangent());
    Make(DNNL_ARG_DIFF_SRC);
    Run(plan.backward);
    return StoreGradient(0, DNNL_ARG_DIFF_SRC);
  }

  absl::Status StoreGradient(size_t i, int argument, const Desc& desc) {
    NODEWISE_ASSIGN_OR_RETURN(
        gradients_[i],
        NDArray::Empty(backward_.inputs[i].shape(), kFloat32, kCpu));
    Reorder(memories_[argument],
            dnnl::memory(desc, Engine(), gradients_[i].data()));
    return absl::OkStatus();
  }
  absl::Status StoreGradient(size_t i, int argument) {
    return StoreGradient(i, argument, PlainOf(i));
  }
  absl::StatusOr<std::vector<NDArray>> Gradients() const {
    std::vector<NDArray> all;
    for (const size_t input : backward_.wanted) {
      const auto found = gradients_.find(input);
      if (found == gradients_.end()) {
        return Refuse("{}: oneDNN has no gradient for it", call_.NameOf(input));
      }
      all.push_back(found->second);
    }
    return all;
  }

 private:
  void Reorder(dnnl::memory from, dnnl::memory to) {
    dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
  }

  const Call& call_;
  const OneDnnBackwardCall& backward_;
  dnnl::stream stream_;
  std::vector<std::pair<int, Placed>> read_;
  std::vector<int> made_;
  std::vector<int> kept_;
  std::map<int, dnnl::memory> memories_;
  std::map<size_t, NDArray> gradients_;
};

// `weights` is how the operation has its weights. The gradients of the weights
// and the bias come from one primitive.
template <typename Forward, typename BackwardData, typename BackwardWeights>
absl::Status ConvGradients(BackwardRun& run, Algorithm algorithm, ConvSpec spec,
                           const Desc& weights) {
  const Call& call = run.call();
  spec.source = AnyOrder(call.sizes(0), DataType::f32);
  spec.output = AnyOrder(call.output_sizes(), DataType::f32);
  if (run.wants(0)) {
    const auto plan = PlanConvSource<Forward, BackwardData>(spec, algorithm);
    run.Read(DNNL_ARG_WEIGHTS, run.Input(1, weights));
    NODEWISE_RETURN_IF_ERROR(run.GiveSourceGradient(plan));
  }
  const bool has_bias = call.has(2) && run.wants(2);
  if (!run.wants(1) && !has_bias) return absl::OkStatus();
  if (has_bias) spec.bias = AnyOrder(call.sizes(2), DataType::f32);
  const auto plan = PlanConvWeights<Forward, BackwardWeights>(spec, algorithm);
  run.Read(DNNL_ARG_DIFF_DST, run.Cotangent());
  run.Read(DNNL_ARG_SRC, run.Input(0));
  run.Make(DNNL_ARG_DIFF_WEIGHTS);
  if (has_bias) run.Make(DNNL_ARG_DIFF_BIAS);
  run.Run(plan.backward);
  if (has_bias)
    NODEWISE_RETURN_IF_ERROR(run.StoreGradient(2, DNNL_ARG_DIFF_BIAS));
  return run.StoreGradient(1, DNNL_ARG_DIFF_WEIGHTS, weights);
}

// oneDNN's weights have one more side in front for groups, with which a plain
// tensor lies as it does without.
absl::Status RunConv(BackwardRun& run) {
  const Call& call = run.call();
  NODEWISE_RETURN_IF_ERROR(CheckConvRanks(call, 1));
  ConvSpec spec;
  NODEWISE_ASSIGN_OR_RETURN(
      const Sizes weights,
      PlaceConv(call, *call.op().As<ops::Conv>(), 1, DataType::f32, &spec));
  return ConvGradients<dnnl::convolution_forward,
                       dnnl::convolution_backward_data,
                       dnnl::convolution_backward_weights>(
      run, Algorithm::convolution_direct, std::move(spec),
      DescOf(weights, DataType::f32));
}

// A transposed convolution is called a deconvolution in oneDNN.
absl::Status RunConvTranspose(BackwardRun& run) {
  NODEWISE_RETURN_IF_ERROR(CheckConvRanks(run.call(), 1));
  ConvSpec spec;
  NODEWISE_ASSIGN_OR_RETURN(const Desc weights,
                            PlaceConvTranspose(run.call(), &spec));
  return ConvGradients<dnnl::deconvolution_forward,
                       dnnl::deconvolution_backward_data,
                       dnnl::deconvolution_backward_weights>(
      run, Algorithm::deconvolution_direct, std::move(spec), weights);
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
    const PlannedBackward plan =
        PlanPair<dnnl::inner_product_forward,
                 dnnl::inner_product_backward_data>(source, weights, output);
    run.Read(DNNL_ARG_WEIGHTS, run.Input(1, turned));
    NODEWISE_RETURN_IF_ERROR(run.GiveSourceGradient(plan));
  }
  if (!run.wants(1)) return absl::OkStatus();
  const PlannedBackward plan =
      PlanPair<dnnl::inner_product_forward,
               dnnl::inner_product_backward_weights>(source, weights, output);
  run.Read(DNNL_ARG_DIFF_DST, run.Cotangent());
  run.Read(DNNL_ARG_SRC, run.Input(0));
  run.Make(DNNL_ARG_DIFF_WEIGHTS);
  run.Run(plan.backward);
  return run.StoreGradient(1, DNNL_ARG_DIFF_WEIGHTS, turned);
}

// A maximum has to know which elements won: the forward primitive notes them in
// its workspace.
absl::Status PoolGradient(BackwardRun& run, PoolSpec spec) {
  spec.source = run.PlainOf(0);
  spec.output = DescOf(run.call().output_sizes(), DataType::f32);
  const PlannedBackward plan = PlanPair<PoolForward, PoolBackward>(
      spec.algorithm, spec.source, spec.output, spec.strides, spec.kernel,
      spec.dilations, spec.pads_begin, spec.pads_end);
  if (spec.algorithm == Algorithm::pooling_max) {
    run.Read(DNNL_ARG_SRC, run.Input(0));
    run.Make(DNNL_ARG_DST);
    run.Make(DNNL_ARG_WORKSPACE);
    run.Run(plan.forward);
    run.Keep(DNNL_ARG_WORKSPACE);
  }
  return run.GiveSourceGradient(plan);
}

absl::Status RunMaxPool(BackwardRun& run) {
  bool reaches_beyond = false;
  NODEWISE_ASSIGN_OR_RETURN(
      PoolSpec spec, PlacePool(run.call(), *run.call().op().As<ops::MaxPool>(),
                               Algorithm::pooling_max, &reaches_beyond));
  return PoolGradient(run, std::move(spec));
}

// oneDNN would count padding that ceil_mode makes windows reach, and the
// operator does not.
absl::Status RunAveragePool(BackwardRun& run) {
  const auto& op = *run.call().op().As<ops::AveragePool>();
  bool reaches_beyond = false;
  NODEWISE_ASSIGN_OR_RETURN(
      PoolSpec spec, PlacePool(run.call(), op, AverageOf(op), &reaches_beyond));
  if (reaches_beyond && op.count_include_pad) {
    return Refuse("counts padding beyond that of the operator (ceil_mode)");
  }
  return PoolGradient(run, std::move(spec));
}

template <Algorithm kAlgorithm>
absl::Status RunGlobalPool(BackwardRun& run) {
  return PoolGradient(run, GlobalPool(run.call(), kAlgorithm));
}

// oneDNN calculates these gradients from the input of the function, and not
// from its result.
absl::Status RunFunction(BackwardRun& run) {
  const OpAttrs& op = run.call().op();
  std::optional<Activation> function = FunctionOf(op);
  // Log and Mish have gradients alone; all others have forward kernels, which
  // FunctionOf() knows.
  if (op.As<ops::Log>() != nullptr) {
    function = {{{Algorithm::eltwise_log, 0, 0, std::nullopt}}};
  } else if (op.As<ops::Mish>() != nullptr) {
    function = {{{Algorithm::eltwise_mish, 0, 0, std::nullopt}}};
  }
  if (!function.has_value()) return Refuse("oneDNN has no such function");
  const PostOp& part = function->parts[0];
  const auto plan = PlanAlike<dnnl::eltwise_forward, dnnl::eltwise_backward>(
      part.algorithm, run.PlainOf(0), part.alpha, part.beta);
  run.Read(DNNL_ARG_SRC, run.Input(0));
  return run.GiveSourceGradient(plan);
}

// The gradient of a Softmax is calculated from its results.
template <typename Class, Algorithm kAlgorithm>
absl::Status RunSoftmax(BackwardRun& run) {
  NODEWISE_ASSIGN_OR_RETURN(const int side,
                            Axis(run.call().op().As<Class>()->axis,
                                 static_cast<int>(run.call().sizes(0).size())));
  const Desc data = run.PlainOf(0);
  const PlannedBackward plan = BackwardOf<SoftmaxBackward>(
      ForwardOf<SoftmaxForward>(kTraining, kAlgorithm, data, data, side),
      kAlgorithm, data, data, data, side);
  run.Read(DNNL_ARG_SRC, run.Input(0));
  run.Make(DNNL_ARG_DST);
  run.Run(plan.forward);
  run.Keep(DNNL_ARG_DST);
  return run.GiveSourceGradient(plan);
}

// The gradients of data, scale and shift, of which the last two are lists. The
// statistics are inputs 3 and 4 if `are_given`; else the forward primitive
// finds them.
absl::Status NormGradients(BackwardRun& run, const PlannedBackward& plan,
                           const Desc& data, const Desc& list, bool are_given) {
  const Placed source = run.Input(0, data);
  const bool has_shift = run.call().has(2);
  if (are_given) {
    run.Read(DNNL_ARG_MEAN, run.Input(3, list));
    run.Read(DNNL_ARG_VARIANCE, run.Input(4, list));
  } else {
    run.Read(DNNL_ARG_SRC, source);
    run.Read(DNNL_ARG_SCALE, run.Input(1, list));
    // The statistics do not depend on the shift, so the scale stands in for one
    // that is not given.
    run.Read(DNNL_ARG_SHIFT, run.Input(has_shift ? 2 : 1, list));
    run.Make(DNNL_ARG_DST);
    run.Make(DNNL_ARG_MEAN);
    run.Make(DNNL_ARG_VARIANCE);
    run.Run(plan.forward);
    run.Keep(DNNL_ARG_MEAN);
    run.Keep(DNNL_ARG_VARIANCE);
  }
  run.Read(DNNL_ARG_SRC, source);
  run.Read(DNNL_ARG_DIFF_DST, run.Cotangent(data));
  run.Read(DNNL_ARG_SCALE, run.Input(1, list));
  // Some primitives ask for the shift, which they do not use, and fail if it is
  // missing; others fail if it is given.
  const bool reads_shift =
      DNNL_VERSION_MAJOR < 3 ||
      run.call().op().As<ops::BatchNormalization>() == nullptr;
  if (reads_shift) {
    run.Read(DNNL_ARG_SHIFT, run.Input(has_shift ? 2 : 1, list));
  }
  run.Make(DNNL_ARG_DIFF_SRC);
  run.Make(DNNL_ARG_DIFF_SCALE);
  run.Make(DNNL_ARG_DIFF_SHIFT);
  run.Run(plan.backward);
  NODEWISE_RETURN_IF_ERROR(run.StoreGradient(0, DNNL_ARG_DIFF_SRC, data));
  NODEWISE_RETURN_IF_ERROR(run.StoreGradient(1, DNNL_ARG_DIFF_SCALE, list));
  return has_shift ? run.StoreGradient(2, DNNL_ARG_DIFF_SHIFT, list)
                   : absl::OkStatus();
}

// In training the statistics are those of the batch, on which the gradient of
// the data depends; else they are constants.
absl::Status RunBatchNorm(BackwardRun& run) {
  const auto& op = *run.call().op().As<ops::BatchNormalization>();
  const Sizes& x = run.call().sizes(0);
  if (x.size() < 2 || x.size() > 5) return Refuse("has no 2 to 5 sides");
  const Desc data = run.PlainOf(0);
  const auto plan = PlanNorm<dnnl::batch_normalization_forward,
                             dnnl::batch_normalization_backward>(
      data, op.epsilon, !op.training_mode);
  return NormGradients(run, plan, data, ListDesc(x[1]), !op.training_mode);
}

// oneDNN normalizes rows of a matrix, so sides are joined. Its scale and shift
// are one list for all rows.
absl::Status RunLayerNorm(BackwardRun& run) {
  const Call& call = run.call();
  const auto& op = *call.op().As<ops::LayerNormalization>();
  NODEWISE_ASSIGN_OR_RETURN(const Sizes rows,
                            RowsBefore(call.sizes(0), op.axis));
  for (size_t i = 1; i < 3; ++i) {
    if (call.has(i) && call.count(i) != rows[1]) {
      return Refuse("{}: is repeated", call.NameOf(i));
    }
  }
  const Desc data = DescOf(rows, DataType::f32);
  const auto plan =
      PlanNorm<dnnl::layer_normalization_forward,
               dnnl::layer_normalization_backward>(data, op.epsilon, false);
  return NormGradients(run, plan, data, ListDesc(rows[1]), false);
}

// Some implementations keep what they need of the forward run in a workspace,
// and tell by its description whether they do.
absl::Status RunLrn(BackwardRun& run) {
  const auto& op = *run.call().op().As<ops::LRN>();
  if (op.size % 2 == 0) {
    return Refuse("has an even size, whose middle oneDNN has elsewhere");
  }
  const auto plan = PlanAlike<dnnl::lrn_forward, dnnl::lrn_backward>(
      Algorithm::lrn_across_channels, run.PlainOf(0), op.size.get(), op.alpha,
      op.beta, op.bias);
  run.Read(DNNL_ARG_SRC, run.Input(0));
  run.Make(DNNL_ARG_DST);
  const bool has_workspace =
      !(ArgumentOf({plan.forward, {}}, DNNL_ARG_WORKSPACE) == Desc());
  if (has_workspace) run.Make(DNNL_ARG_WORKSPACE);
  run.Run(plan.forward);
  if (has_workspace) run.Keep(DNNL_ARG_WORKSPACE);
  run.Read(DNNL_ARG_SRC, run.Input(0));
  return run.GiveSourceGradient(plan);
}

struct BackwardRow {
  std::string_view name;
  const void* type;
  absl::Status (*run)(BackwardRun& run);
};

constexpr BackwardRow kBackwardRows[] = {
    {"Abs", &kTypeTag<ops::Abs>, &RunFunction},
    {"AveragePool", &kTypeTag<ops::AveragePool>, &RunAveragePool},
    {"BatchNormalization", &kTypeTag<ops::BatchNormalization>, &RunBatchNorm},
    {"Conv", &kTypeTag<ops::Conv>, &RunConv},
    {"ConvTranspose", &kTypeTag<ops::ConvTranspose>, &RunConvTranspose},
    {"Elu", &kTypeTag<ops::Elu>, &RunFunction},
    {"Exp", &kTypeTag<ops::Exp>, &RunFunction},
    {"Gelu", &kTypeTag<ops::Gelu>, &RunFunction},
    {"GlobalAveragePool", &kTypeTag<ops::GlobalAveragePool>,
     &RunGlobalPool<Algorithm::pooling_avg_exclude_padding>},
    {"GlobalMaxPool", &kTypeTag<ops::GlobalMaxPool>,
     &RunGlobalPool<Algorithm::pooling_max>},
    {"LRN", &kTypeTag<ops::LRN>, &RunLrn},
    {"LayerNormalization", &kTypeTag<ops::LayerNormalization>, &RunLayerNorm},
    {"LeakyRelu", &kTypeTag<ops::LeakyRelu>, &RunFunction},
    {"Log", &kTypeTag<ops::Log>, &RunFunction},
    {"LogSoftmax", &kTypeTag<ops::LogSoftmax>,
     &RunSoftmax<ops::LogSoftmax, Algorithm::softmax_log>},
    {"MatMul", &kTypeTag<ops::MatMul>, &RunMatMul},
    {"MaxPool", &kTypeTag<ops::MaxPool>, &RunMaxPool},
    {"Mish", &kTypeTag<ops::Mish>, &RunFunction},
    {"Relu", &kTypeTag<ops::Relu>, &RunFunction},
    {"Sigmoid", &kTypeTag<ops::Sigmoid>, &RunFunction},
    {"Softmax", &kTypeTag<ops::Softmax>,
     &RunSoftmax<ops::Softmax, Algorithm::softmax_accurate>},
    {"Sqrt", &kTypeTag<ops::Sqrt>, &RunFunction},
    {"Swish", &kTypeTag<ops::Swish>, &RunFunction},
    {"Tanh", &kTypeTag<ops::Tanh>, &RunFunction},
};

// The rules by which a forward call is refused hold for its gradient as well,
// so the call is read as one.
absl::StatusOr<std::vector<NDArray>> RunRow(const BackwardRow& row,
                                            const OneDnnBackwardCall& call) {
  OneDnnCall forward;
  forward.op = call.op;
  for (const NDArray& input : call.inputs) {
    OneDnnInput& read = forward.inputs.emplace_back();
    if (input.defined()) read.type = TensorType::From(*input);
  }
  forward.output = TensorType::From(*call.cotangent);
  NODEWISE_ASSIGN_OR_RETURN(const Call read, Call::Read(forward));
  NODEWISE_RETURN_IF_ERROR(read.RequireAllFloat32());
  const OmpThreads threads(OneDnnThreads::Count());
  return Caught([&]() -> absl::StatusOr<std::vector<NDArray>> {
    BackwardRun run(read, call);
    NODEWISE_RETURN_IF_ERROR(row.run(run));
    return run.Gradients();
  });
}

}  // namespace
}  // namespace nodewise::onednn

namespace nodewise {

absl::StatusOr<std::vector<NDArray>> RunOneDnnBackward(
    const OneDnnBackwardCall& call) {
  for (const onednn::BackwardRow& row : onednn::kBackwardRows) {
    if (row.type == call.op.def().type) return onednn::RunRow(row, call);
  }
  return onednn::Refuse("oneDNN has no backward primitive for {}",
                        call.op.def().name);
}

std::vector<std::string_view> OneDnnBackwardOperators() {
  std::vector<std::string_view> names;
  for (const onednn::BackwardRow& row : onednn::kBackwardRows) {
    names.push_back(row.name);
  }
  return names;
}

}  // namespace nodewise
