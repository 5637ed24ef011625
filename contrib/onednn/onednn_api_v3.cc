// For oneDNN 3: the primitive's description in one call; scales and zero points
// are arguments of each run.

#include <algorithm>

#include "contrib/onednn/onednn_api.h"

namespace nodewise::onednn {
namespace {

using dnnl::normalization_flags;
using dnnl::prop_kind;

// Rescaling is not an attribute here but for masks, so it is added where
// arguments are known (PlanRescaled).
dnnl::primitive_attr AttrOf(const Attributes& attributes) {
  dnnl::primitive_attr attr;
  dnnl::post_ops list;
  for (const PostOp& op : attributes.post_ops) {
    if (op.other.has_value()) {
      list.append_binary(op.algorithm, *op.other);
    } else {
      list.append_eltwise(op.algorithm, op.alpha, op.beta);
    }
  }
  attr.set_post_ops(list);
  return attr;
}

// A list that lives as long as the primitive.
template <typename T>
std::pair<int, dnnl::memory> FixedList(int argument, DataType type,
                                       const std::vector<T>& values) {
  const Desc desc({static_cast<dnnl::memory::dim>(values.size())}, type,
                  Dims{1});
  dnnl::memory memory(desc, Engine());
  std::copy(values.begin(), values.end(),
            static_cast<T*>(memory.get_data_handle()));
  return {argument, std::move(memory)};
}

template <typename Primitive, typename... Args>
absl::StatusOr<Planned> PlanOf(const Attributes& attributes,
                               const Args&... args) {
  return Caught([&]() -> Planned {
    return {typename Primitive::primitive_desc(Engine(), args...,
                                               AttrOf(attributes)),
            {}};
  });
}

// A primitive with a rescaling. All scales are those of the argument `scaled`,
// whose mask is `mask` unless there is one scale for all.
template <typename Primitive, typename... Args>
absl::StatusOr<Planned> PlanRescaled(const Attributes& attributes, int scaled,
                                     int mask, const Args&... args) {
  return Caught([&] {
    Planned planned;
    dnnl::primitive_attr attr = AttrOf(attributes);
    if (attributes.rescale.has_value()) {
      const Rescale& rescale = *attributes.rescale;
      attr.set_scales_mask(scaled, rescale.side < 0 ? 0 : mask);
      planned.fixed.push_back(FixedList(DNNL_ARG_ATTR_SCALES | scaled,
                                        DataType::f32, rescale.scales));
      for (const auto& [argument, zero] :
           {std::pair(DNNL_ARG_SRC, rescale.source_zero),
            std::pair(DNNL_ARG_DST, rescale.output_zero)}) {
        if (zero == 0) continue;
        attr.set_zero_points_mask(argument, 0);
        planned.fixed.push_back(FixedList<int32_t>(
            DNNL_ARG_ATTR_ZERO_POINTS | argument, DataType::s32, {zero}));
      }
    }
    planned.plan = typename Primitive::primitive_desc(args..., attr);
    return planned;
  });
}

// The mask of an argument that has the output's sides.
// One bit stands for one side; with one scale for all the mask does not count.
int MaskOfSide(const Attributes& attributes) {
  return attributes.rescale.has_value()
             ? 1 << std::max(attributes.rescale->side, 0)
             : 1;
}

// Weights with groups have one more side in front, and scales for both.
template <typename Primitive>
absl::StatusOr<Planned> PlanConvAs(const ConvSpec& spec, Algorithm algorithm,
                                   const Attributes& attributes) {
  const auto plan = [&](const auto&... bias) {
    return PlanRescaled<Primitive>(
        attributes, DNNL_ARG_WEIGHTS, spec.has_groups ? 3 : 1, Engine(),
        prop_kind::forward_inference, algorithm, spec.source, spec.weights,
        bias..., spec.output, spec.strides, spec.dilations, spec.pads_begin,
        spec.pads_end);
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

// The scales are those of the weights, so the bias is added to what they have
// made of the sum.
bool BiasIsRescaled() { return true; }

absl::StatusOr<Planned> PlanMatMul(const Desc& left, const Desc& right,
                                   const Desc& output,
                                   const Attributes& attributes) {
  return PlanRescaled<dnnl::matmul>(attributes, DNNL_ARG_WEIGHTS,
                                    MaskOfSide(attributes), Engine(), left,
                                    right, output);
}

// Dilations and separate outputs need no name of their own in this version.
absl::StatusOr<Planned> PlanPool(const PoolSpec& spec,
                                 const Attributes& attributes) {
  return PlanOf<dnnl::pooling_forward>(
      attributes, prop_kind::forward_inference, spec.algorithm, spec.source,
      spec.output, spec.strides, spec.kernel, spec.dilations, spec.pads_begin,
      spec.pads_end);
}

// Source and output have a description each in this version.
absl::StatusOr<Planned> PlanBatchNorm(const Desc& data, float epsilon,
                                      const Attributes& attributes) {
  return PlanOf<dnnl::batch_normalization_forward>(
      attributes, prop_kind::forward_inference, data, data, epsilon,
      normalization_flags::use_global_stats | normalization_flags::use_scale |
          normalization_flags::use_shift);
}

absl::StatusOr<Planned> PlanLayerNorm(const Desc& data, float epsilon,
                                      bool has_shift,
                                      const Attributes& attributes) {
  auto flags = normalization_flags::use_scale;
  if (has_shift) flags = flags | normalization_flags::use_shift;
  return PlanOf<dnnl::layer_normalization_forward>(
      attributes, prop_kind::forward_inference, data, data, epsilon, flags);
}

absl::StatusOr<Planned> PlanLrn(const Desc& data, const LrnSpec& spec) {
  return PlanOf<dnnl::lrn_forward>({}, prop_kind::forward_inference,
                                   Algorithm::lrn_across_channels, data, data,
                                   spec.size, spec.alpha, spec.beta, spec.bias);
}

absl::StatusOr<Planned> PlanSoftmax(const Desc& data, int side) {
  return PlanOf<dnnl::softmax_forward>({}, prop_kind::forward_inference,
                                       Algorithm::softmax_accurate, data, data,
                                       side);
}

absl::StatusOr<Planned> PlanReduction(Algorithm algorithm, const Desc& source,
                                      const Desc& output, float power,
                                      const Attributes& attributes) {
  // The last number is added to a norm; the operators add none.
  return PlanOf<dnnl::reduction>(attributes, algorithm, source, output, power,
                                 0.0F);
}

absl::StatusOr<Planned> PlanEltwise(const PostOp& op, const Desc& source,
                                    const Desc& output,
                                    const Attributes& attributes) {
  return PlanOf<dnnl::eltwise_forward>(attributes, prop_kind::forward_inference,
                                       op.algorithm, source, output, op.alpha,
                                       op.beta);
}

absl::StatusOr<Planned> PlanBinary(Algorithm algorithm, const Desc& left,
                                   const Desc& right, const Desc& output,
                                   const Attributes& attributes) {
  return PlanOf<dnnl::binary>(attributes, algorithm, left, right, output);
}

absl::StatusOr<Planned> PlanResampling(Algorithm algorithm, const Desc& source,
                                       const Desc& output,
                                       const Attributes& attributes) {
  return PlanOf<dnnl::resampling_forward>(
      attributes, prop_kind::forward_inference, algorithm, source, output);
}

absl::StatusOr<Planned> PlanConcat(const std::vector<Desc>& sources, int side,
                                   const Desc& output) {
  return PlanOf<dnnl::concat>({}, output, side, sources);
}

absl::StatusOr<Planned> PlanReorder(const Desc& source, const Desc& output,
                                    const Attributes& attributes) {
  return PlanRescaled<dnnl::reorder>(attributes, DNNL_ARG_SRC,
                                     MaskOfSide(attributes), Engine(), source,
                                     Engine(), output);
}

}  // namespace nodewise::onednn
