#include "contrib/onednn/backward_plans.h"

#include <utility>

#include "contrib/onednn/onednn_catch.h"

// What the versions have in common is nearly all of it, so that they are not
// two files as those of the forward primitives are.

namespace nodewise::onednn {
namespace {

using dnnl::normalization_flags;
using dnnl::prop_kind;

constexpr auto kTraining = prop_kind::forward_training;

#if DNNL_VERSION_MAJOR >= 3
using PoolForward = dnnl::pooling_forward;
using PoolBackward = dnnl::pooling_backward;
using SoftmaxForward = dnnl::softmax_forward;
using SoftmaxBackward = dnnl::softmax_backward;

template <typename Primitive, typename... Arguments>
typename Primitive::primitive_desc ForwardOf(const Arguments&... arguments) {
  return typename Primitive::primitive_desc(Engine(), arguments...);
}
template <typename Primitive, typename Forward, typename... Arguments>
PlannedBackward BackwardOf(const Forward& forward,
                           const Arguments&... arguments) {
  return {forward,
          typename Primitive::primitive_desc(Engine(), arguments..., forward)};
}
#else
using PoolForward = dnnl::pooling_v2_forward;
using PoolBackward = dnnl::pooling_v2_backward;
using SoftmaxForward = dnnl::softmax_v2_forward;
using SoftmaxBackward = dnnl::softmax_v2_backward;

template <typename Primitive, typename... Arguments>
typename Primitive::primitive_desc ForwardOf(const Arguments&... arguments) {
  return typename Primitive::primitive_desc(
      typename Primitive::desc(arguments...), Engine());
}
template <typename Primitive, typename Forward, typename... Arguments>
PlannedBackward BackwardOf(const Forward& forward,
                           const Arguments&... arguments) {
  return {forward,
          typename Primitive::primitive_desc(
              typename Primitive::desc(arguments...), Engine(), forward)};
}
#endif

template <typename Forward>
typename Forward::primitive_desc ConvForward(const ConvSpec& spec,
                                             Algorithm algorithm) {
  return ForwardOf<Forward>(kTraining, algorithm, spec.source, spec.weights,
                            spec.output, spec.strides, spec.dilations,
                            spec.pads_begin, spec.pads_end);
}

template <typename Forward, typename Backward>
PlannedBackward ConvSource(const ConvSpec& spec, Algorithm algorithm) {
  return BackwardOf<Backward>(ConvForward<Forward>(spec, algorithm), algorithm,
                              spec.source, spec.weights, spec.output,
                              spec.strides, spec.dilations, spec.pads_begin,
                              spec.pads_end);
}

template <typename Forward, typename Backward>
PlannedBackward ConvWeights(const ConvSpec& spec, Algorithm algorithm) {
  const auto forward = ConvForward<Forward>(spec, algorithm);
  if (!spec.bias.has_value()) {
    return BackwardOf<Backward>(forward, algorithm, spec.source, spec.weights,
                                spec.output, spec.strides, spec.dilations,
                                spec.pads_begin, spec.pads_end);
  }
  return BackwardOf<Backward>(forward, algorithm, spec.source, spec.weights,
                              *spec.bias, spec.output, spec.strides,
                              spec.dilations, spec.pads_begin, spec.pads_end);
}

// Normalizations; version 3 tells the output apart from the source.
template <typename Forward, typename Backward>
PlannedBackward NormBackward(const Desc& data, float epsilon,
                             normalization_flags flags) {
#if DNNL_VERSION_MAJOR >= 3
  const auto forward =
      ForwardOf<Forward>(kTraining, data, data, epsilon, flags);
  return BackwardOf<Backward>(forward, prop_kind::backward, data, data, data,
                              epsilon, flags);
#else
  const auto forward = ForwardOf<Forward>(kTraining, data, epsilon, flags);
  return BackwardOf<Backward>(forward, prop_kind::backward, data, data, epsilon,
                              flags);
#endif
}

}  // namespace

absl::StatusOr<PlannedBackward> PlanConvSource(const ConvSpec& spec) {
  return Caught([&] {
    if (spec.is_transposed) {
      return ConvSource<dnnl::deconvolution_forward,
                        dnnl::deconvolution_backward_data>(
          spec, Algorithm::deconvolution_direct);
    }
    return ConvSource<dnnl::convolution_forward,
                      dnnl::convolution_backward_data>(
        spec, Algorithm::convolution_direct);
  });
}

absl::StatusOr<PlannedBackward> PlanConvWeights(const ConvSpec& spec) {
  return Caught([&] {
    if (spec.is_transposed) {
      return ConvWeights<dnnl::deconvolution_forward,
                         dnnl::deconvolution_backward_weights>(
          spec, Algorithm::deconvolution_direct);
    }
    return ConvWeights<dnnl::convolution_forward,
                       dnnl::convolution_backward_weights>(
        spec, Algorithm::convolution_direct);
  });
}

absl::StatusOr<PlannedBackward> PlanProductSource(const Desc& source,
                                                  const Desc& weights,
                                                  const Desc& output) {
  return Caught([&] {
    const auto forward = ForwardOf<dnnl::inner_product_forward>(
        kTraining, source, weights, output);
    return BackwardOf<dnnl::inner_product_backward_data>(forward, source,
                                                         weights, output);
  });
}

absl::StatusOr<PlannedBackward> PlanProductWeights(const Desc& source,
                                                   const Desc& weights,
                                                   const Desc& output) {
  return Caught([&] {
    const auto forward = ForwardOf<dnnl::inner_product_forward>(
        kTraining, source, weights, output);
    return BackwardOf<dnnl::inner_product_backward_weights>(forward, source,
                                                            weights, output);
  });
}

absl::StatusOr<PlannedBackward> PlanPoolBackward(const PoolSpec& spec) {
  return Caught([&] {
    const auto forward = ForwardOf<PoolForward>(
        kTraining, spec.algorithm, spec.source, spec.output, spec.strides,
        spec.kernel, spec.dilations, spec.pads_begin, spec.pads_end);
    return BackwardOf<PoolBackward>(
        forward, spec.algorithm, spec.source, spec.output, spec.strides,
        spec.kernel, spec.dilations, spec.pads_begin, spec.pads_end);
  });
}

absl::StatusOr<PlannedBackward> PlanEltwiseBackward(const PostOp& op,
                                                    const Desc& data) {
  return Caught([&] {
#if DNNL_VERSION_MAJOR >= 3
    const auto forward = ForwardOf<dnnl::eltwise_forward>(
        kTraining, op.algorithm, data, data, op.alpha, op.beta);
    return BackwardOf<dnnl::eltwise_backward>(forward, op.algorithm, data, data,
                                              data, op.alpha, op.beta);
#else
    const auto forward = ForwardOf<dnnl::eltwise_forward>(
        kTraining, op.algorithm, data, op.alpha, op.beta);
    return BackwardOf<dnnl::eltwise_backward>(forward, op.algorithm, data, data,
                                              op.alpha, op.beta);
#endif
  });
}

absl::StatusOr<PlannedBackward> PlanSoftmaxBackward(Algorithm algorithm,
                                                    const Desc& data,
                                                    int side) {
  return Caught([&] {
    const auto forward =
        ForwardOf<SoftmaxForward>(kTraining, algorithm, data, data, side);
    return BackwardOf<SoftmaxBackward>(forward, algorithm, data, data, data,
                                       side);
  });
}

absl::StatusOr<PlannedBackward> PlanBatchNormBackward(const Desc& data,
                                                      float epsilon,
                                                      bool are_given) {
  auto flags = normalization_flags::use_scale | normalization_flags::use_shift;
  if (are_given) flags = flags | normalization_flags::use_global_stats;
  return Caught([&] {
    return NormBackward<dnnl::batch_normalization_forward,
                        dnnl::batch_normalization_backward>(data, epsilon,
                                                            flags);
  });
}

absl::StatusOr<PlannedBackward> PlanLayerNormBackward(const Desc& data,
                                                      float epsilon) {
  return Caught([&] {
    return NormBackward<dnnl::layer_normalization_forward,
                        dnnl::layer_normalization_backward>(
        data, epsilon,
        normalization_flags::use_scale | normalization_flags::use_shift);
  });
}

bool NormBackwardReadsShift(bool is_batch_norm) {
  return !is_batch_norm || DNNL_VERSION_MAJOR < 3;
}

absl::StatusOr<PlannedBackward> PlanLrnBackward(const Desc& data,
                                                const LrnSpec& spec) {
  constexpr auto kAcross = Algorithm::lrn_across_channels;
  return Caught([&] {
#if DNNL_VERSION_MAJOR >= 3
    const auto forward =
        ForwardOf<dnnl::lrn_forward>(kTraining, kAcross, data, data, spec.size,
                                     spec.alpha, spec.beta, spec.bias);
    return BackwardOf<dnnl::lrn_backward>(forward, kAcross, data, data, data,
                                          spec.size, spec.alpha, spec.beta,
                                          spec.bias);
#else
    const auto forward = ForwardOf<dnnl::lrn_forward>(
        kTraining, kAcross, data, spec.size, spec.alpha, spec.beta, spec.bias);
    return BackwardOf<dnnl::lrn_backward>(forward, kAcross, data, data,
                                          spec.size, spec.alpha, spec.beta,
                                          spec.bias);
#endif
  });
}

}  // namespace nodewise::onednn
