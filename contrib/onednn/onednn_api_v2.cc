// For oneDNN 2.6 and 2.7: a description of the operation first, of which the
// primitive's is made; scales and zero points are attributes.

#include "contrib/onednn/onednn_api.h"

namespace nodewise::onednn {
namespace {

using dnnl::normalization_flags;
using dnnl::prop_kind;

// Scales are those of the output, along the side that the bit of the mask
// stands for, and lie in the attributes with the zero points. An eltwise one
// has a scale of its own in this version, which is 1.
dnnl::primitive_attr AttrOf(const Attributes& attributes) {
  dnnl::primitive_attr attr;
  dnnl::post_ops list;
  for (const PostOp& op : attributes.post_ops) {
    if (op.other.has_value()) {
      list.append_binary(op.algorithm, *op.other);
    } else {
      list.append_eltwise(1, op.algorithm, op.alpha, op.beta);
    }
  }
  if (attributes.rescale.has_value()) {
    const Rescale& rescale = *attributes.rescale;
    attr.set_output_scales(rescale.side < 0 ? 0 : 1 << rescale.side,
                           rescale.scales);
    if (rescale.source_zero != 0) {
      attr.set_zero_points(DNNL_ARG_SRC, 0, {rescale.source_zero});
    }
    if (rescale.output_zero != 0) {
      attr.set_zero_points(DNNL_ARG_DST, 0, {rescale.output_zero});
    }
  }
  attr.set_post_ops(list);
  return attr;
}

// Makes the primitive's description from the operation's.
template <typename Primitive, typename... Args>
absl::StatusOr<Planned> PlanOf(const Attributes& attributes,
                               const Args&... args) {
  return Caught([&]() -> Planned {
    return {
        typename Primitive::primitive_desc(typename Primitive::desc(args...),
                                           AttrOf(attributes), Engine()),
        {}};
  });
}

template <typename Primitive>
absl::StatusOr<Planned> PlanConvAs(const ConvSpec& spec, Algorithm algorithm,
                                   const Attributes& attributes) {
  const auto plan = [&](const auto&... bias) {
    return PlanOf<Primitive>(attributes, prop_kind::forward_inference,
                             algorithm, spec.source, spec.weights, bias...,
                             spec.output, spec.strides, spec.dilations,
                             spec.pads_begin, spec.pads_end);
  };
  return spec.bias.has_value() ? plan(*spec.bias) : plan();
}

}  // namespace

absl::StatusOr<Planned> PlanConv(const ConvSpec& spec,
                                 const Attributes& attributes) {
  return spec.is_transposed
             ? PlanConvAs<dnnl::deconvolution_forward>(
                   spec, Algorithm::deconvolution_direct, attributes)
             : PlanConvAs<dnnl::convolution_forward>(
                   spec, Algorithm::convolution_direct, attributes);
}

// The scales multiply the sum with its bias.
bool BiasIsRescaled() { return false; }

absl::StatusOr<Planned> PlanMatMul(const Desc& left, const Desc& right,
                                   const Desc& output,
                                   const Attributes& attributes) {
  return PlanOf<dnnl::matmul>(attributes, left, right, output);
}

// The first pooling primitive of this version has no dilations.
absl::StatusOr<Planned> PlanPool(const PoolSpec& spec,
                                 const Attributes& attributes) {
  return PlanOf<dnnl::pooling_v2_forward>(
      attributes, prop_kind::forward_inference, spec.algorithm, spec.source,
      spec.output, spec.strides, spec.kernel, spec.dilations, spec.pads_begin,
      spec.pads_end);
}

absl::StatusOr<Planned> PlanBatchNorm(const Desc& data, float epsilon,
                                      const Attributes& attributes) {
  return PlanOf<dnnl::batch_normalization_forward>(
      attributes, prop_kind::forward_inference, data, epsilon,
      normalization_flags::use_global_stats | normalization_flags::use_scale |
          normalization_flags::use_shift);
}

absl::StatusOr<Planned> PlanLayerNorm(const Desc& data, float epsilon,
                                      bool has_shift,
                                      const Attributes& attributes) {
  auto flags = normalization_flags::use_scale;
  if (has_shift) flags = flags | normalization_flags::use_shift;
  return PlanOf<dnnl::layer_normalization_forward>(
      attributes, prop_kind::forward_inference, data, epsilon, flags);
}

absl::StatusOr<Planned> PlanLrn(const Desc& data, const LrnSpec& spec) {
  return PlanOf<dnnl::lrn_forward>({}, prop_kind::forward_inference,
                                   Algorithm::lrn_across_channels, data,
                                   spec.size, spec.alpha, spec.beta, spec.bias);
}

// Its first primitive has no output of its own, hence "v2".
absl::StatusOr<Planned> PlanSoftmax(const Desc& data, int side) {
  return PlanOf<dnnl::softmax_v2_forward>({}, prop_kind::forward_inference,
                                          Algorithm::softmax_accurate, data,
                                          data, side);
}

absl::StatusOr<Planned> PlanReduction(Algorithm algorithm, const Desc& source,
                                      const Desc& output, float power,
                                      const Attributes& attributes) {
  // The last number is added to a norm; the operators add none.
  return PlanOf<dnnl::reduction>(attributes, algorithm, source, output, power,
                                 0.0F);
}

// Source and output have one description in this version.
absl::StatusOr<Planned> PlanEltwise(const PostOp& op, const Desc& source,
                                    const Desc&, const Attributes& attributes) {
  return PlanOf<dnnl::eltwise_forward>(attributes, prop_kind::forward_inference,
                                       op.algorithm, source, op.alpha, op.beta);
}

absl::StatusOr<Planned> PlanBinary(Algorithm algorithm, const Desc& left,
                                   const Desc& right, const Desc& output,
                                   const Attributes& attributes) {
  return PlanOf<dnnl::binary>(attributes, algorithm, left, right, output);
}

// Its factors follow from both descriptions.
absl::StatusOr<Planned> PlanResampling(Algorithm algorithm, const Desc& source,
                                       const Desc& output,
                                       const Attributes& attributes) {
  return PlanOf<dnnl::resampling_forward>(
      attributes, prop_kind::forward_inference, algorithm, source, output);
}

// A concatenation and a reordering have no description of the operation.
absl::StatusOr<Planned> PlanConcat(const std::vector<Desc>& sources, int side,
                                   const Desc& output) {
  return Caught([&]() -> Planned {
    return {dnnl::concat::primitive_desc(output, side, sources, Engine()), {}};
  });
}

absl::StatusOr<Planned> PlanReorder(const Desc& source, const Desc& output,
                                    const Attributes& attributes) {
  return Caught([&]() -> Planned {
    return {dnnl::reorder::primitive_desc(Engine(), source, Engine(), output,
                                          AttrOf(attributes)),
            {}};
  });
}

}  // namespace nodewise::onednn
