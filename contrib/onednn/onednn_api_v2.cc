// For oneDNN 2.6 and 2.7: a description of the operation first, of which the
// primitive's is made; scales and zero points are attributes.

#include "contrib/onednn/onednn_api.h"
#include "contrib/onednn/onednn_catch.h"

namespace nodewise::onednn {
namespace {

using dnnl::prop_kind;

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
template <typename Primitive>
Planned PlanOf(const typename Primitive::desc& desc,
               const Attributes& attributes) {
  return {
      typename Primitive::primitive_desc(desc, AttrOf(attributes), Engine()),
      {}};
}

template <typename Primitive>
Planned ConvOf(const ConvSpec& spec, Algorithm algorithm,
               const Attributes& attributes) {
  using ConvDesc = typename Primitive::desc;
  const auto kind = prop_kind::forward_inference;
  if (spec.bias.has_value()) {
    return PlanOf<Primitive>(
        ConvDesc(kind, algorithm, spec.source, spec.weights, *spec.bias,
                 spec.output, spec.strides, spec.dilations, spec.pads_begin,
                 spec.pads_end),
        attributes);
  }
  return PlanOf<Primitive>(
      ConvDesc(kind, algorithm, spec.source, spec.weights, spec.output,
               spec.strides, spec.dilations, spec.pads_begin, spec.pads_end),
      attributes);
}

}  // namespace

absl::StatusOr<Planned> PlanConv(const ConvSpec& spec,
                                 const Attributes& attributes) {
  return Caught([&] {
    if (spec.is_transposed) {
      return ConvOf<dnnl::deconvolution_forward>(
          spec, Algorithm::deconvolution_direct, attributes);
    }
    return ConvOf<dnnl::convolution_forward>(
        spec, Algorithm::convolution_direct, attributes);
  });
}

bool BiasIsRescaled() { return false; }

absl::StatusOr<Planned> PlanMatMul(const Desc& left, const Desc& right,
                                   const Desc& output,
                                   const Attributes& attributes) {
  return Caught([&] {
    return PlanOf<dnnl::matmul>(dnnl::matmul::desc(left, right, output),
                                attributes);
  });
}

absl::StatusOr<Planned> PlanPool(const PoolSpec& spec,
                                 const Attributes& attributes) {
  return Caught([&] {
    return PlanOf<dnnl::pooling_v2_forward>(
        dnnl::pooling_v2_forward::desc(
            prop_kind::forward_inference, spec.algorithm, spec.source,
            spec.output, spec.strides, spec.kernel, spec.dilations,
            spec.pads_begin, spec.pads_end),
        attributes);
  });
}

absl::StatusOr<Planned> PlanBatchNorm(const Desc& data, float epsilon,
                                      const Attributes& attributes) {
  using dnnl::normalization_flags;
  return Caught([&] {
    return PlanOf<dnnl::batch_normalization_forward>(
        dnnl::batch_normalization_forward::desc(
            prop_kind::forward_inference, data, epsilon,
            normalization_flags::use_global_stats |
                normalization_flags::use_scale |
                normalization_flags::use_shift),
        attributes);
  });
}

absl::StatusOr<Planned> PlanLayerNorm(const Desc& data, float epsilon,
                                      bool has_shift,
                                      const Attributes& attributes) {
  using dnnl::normalization_flags;
  auto flags = normalization_flags::use_scale;
  if (has_shift) flags = flags | normalization_flags::use_shift;
  return Caught([&] {
    return PlanOf<dnnl::layer_normalization_forward>(
        dnnl::layer_normalization_forward::desc(prop_kind::forward_inference,
                                                data, epsilon, flags),
        attributes);
  });
}

absl::StatusOr<Planned> PlanLrn(const Desc& data, const LrnSpec& spec) {
  return Caught([&] {
    return PlanOf<dnnl::lrn_forward>(
        dnnl::lrn_forward::desc(prop_kind::forward_inference,
                                Algorithm::lrn_across_channels, data, spec.size,
                                spec.alpha, spec.beta, spec.bias),
        {});
  });
}

absl::StatusOr<Planned> PlanSoftmax(const Desc& data, int side) {
  return Caught([&] {
    return PlanOf<dnnl::softmax_v2_forward>(
        dnnl::softmax_v2_forward::desc(prop_kind::forward_inference,
                                       Algorithm::softmax_accurate, data, data,
                                       side),
        {});
  });
}

absl::StatusOr<Planned> PlanReduction(Algorithm algorithm, const Desc& source,
                                      const Desc& output, float power,
                                      const Attributes& attributes) {
  return Caught([&] {
    return PlanOf<dnnl::reduction>(
        dnnl::reduction::desc(algorithm, source, output, power, 0), attributes);
  });
}

// Source and output have one description in this version.
absl::StatusOr<Planned> PlanEltwise(const PostOp& op, const Desc& source,
                                    const Desc&, const Attributes& attributes) {
  return Caught([&] {
    return PlanOf<dnnl::eltwise_forward>(
        dnnl::eltwise_forward::desc(prop_kind::forward_inference, op.algorithm,
                                    source, op.alpha, op.beta),
        attributes);
  });
}

absl::StatusOr<Planned> PlanBinary(Algorithm algorithm, const Desc& left,
                                   const Desc& right, const Desc& output,
                                   const Attributes& attributes) {
  return Caught([&] {
    return PlanOf<dnnl::binary>(
        dnnl::binary::desc(algorithm, left, right, output), attributes);
  });
}

absl::StatusOr<Planned> PlanResampling(Algorithm algorithm, const Desc& source,
                                       const Desc& output,
                                       const Attributes& attributes) {
  return Caught([&] {
    return PlanOf<dnnl::resampling_forward>(
        dnnl::resampling_forward::desc(prop_kind::forward_inference, algorithm,
                                       source, output),
        attributes);
  });
}

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
