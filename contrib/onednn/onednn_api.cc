#include "contrib/onednn/onednn_api.h"

#include <algorithm>

namespace nodewise::onednn {
namespace {

using dnnl::normalization_flags;
using dnnl::prop_kind;

constexpr auto kInference = prop_kind::forward_inference;

#if DNNL_VERSION_MAJOR >= 3

// For oneDNN 3: the primitive's description in one call; scales and zero points
// are arguments of each run.

void AppendEltwise(const PostOp& op, dnnl::post_ops* list) {
  list->append_eltwise(op.algorithm, op.alpha, op.beta);
}

// Rescaling is not an attribute here but for masks, so it is added where
// arguments are known (PlanRescaled).
void SetRescale(const Attributes&, dnnl::primitive_attr*) {}

#else

// For oneDNN 2.6 and 2.7: a description of the operation first, of which the
// primitive's is made; scales and zero points are attributes.

// It has a scale of its own in this version, which is 1.
void AppendEltwise(const PostOp& op, dnnl::post_ops* list) {
  list->append_eltwise(1, op.algorithm, op.alpha, op.beta);
}

// Scales are those of the output, along the side that the bit of the mask
// stands for, and lie in the attributes with the zero points.
void SetRescale(const Attributes& attributes, dnnl::primitive_attr* attr) {
  if (!attributes.rescale.has_value()) return;
  const Rescale& rescale = *attributes.rescale;
  attr->set_output_scales(rescale.side < 0 ? 0 : 1 << rescale.side,
                          rescale.scales);
  if (rescale.source_zero != 0) {
    attr->set_zero_points(DNNL_ARG_SRC, 0, {rescale.source_zero});
  }
  if (rescale.output_zero != 0) {
    attr->set_zero_points(DNNL_ARG_DST, 0, {rescale.output_zero});
  }
}

#endif

dnnl::primitive_attr AttrOf(const Attributes& attributes) {
  dnnl::primitive_attr attr;
  dnnl::post_ops list;
  for (const PostOp& op : attributes.post_ops) {
    if (op.other.has_value()) {
      list.append_binary(op.algorithm, *op.other);
    } else {
      AppendEltwise(op, &list);
    }
  }
  SetRescale(attributes, &attr);
  attr.set_post_ops(list);
  return attr;
}

#if DNNL_VERSION_MAJOR >= 3

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
    planned.plan = typename Primitive::primitive_desc(Engine(), args..., attr);
    return planned;
  });
}

// Source and output have a description each in this version.
template <typename Primitive, typename... Args>
absl::StatusOr<Planned> PlanForward(const Attributes& attributes,
                                    Algorithm algorithm, const Desc& source,
                                    const Desc& output, const Args&... args) {
  return PlanOf<Primitive>(attributes, kInference, algorithm, source, output,
                           args...);
}
template <typename Primitive>
absl::StatusOr<Planned> PlanForwardNorm(const Attributes& attributes,
                                        const Desc& data, float epsilon,
                                        normalization_flags flags) {
  return PlanOf<Primitive>(attributes, kInference, data, data, epsilon, flags);
}

#else

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

// The attributes say all of the rescaling.
template <typename Primitive, typename... Args>
absl::StatusOr<Planned> PlanRescaled(const Attributes& attributes, int, int,
                                     const Args&... args) {
  return PlanOf<Primitive>(attributes, args...);
}

// Source and output have one description in this version.
template <typename Primitive, typename... Args>
absl::StatusOr<Planned> PlanForward(const Attributes& attributes,
                                    Algorithm algorithm, const Desc& source,
                                    const Desc&, const Args&... args) {
  return PlanOf<Primitive>(attributes, kInference, algorithm, source, args...);
}
template <typename Primitive>
absl::StatusOr<Planned> PlanForwardNorm(const Attributes& attributes,
                                        const Desc& data, float epsilon,
                                        normalization_flags flags) {
  return PlanOf<Primitive>(attributes, kInference, data, epsilon, flags);
}

#endif

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
        attributes, DNNL_ARG_WEIGHTS, spec.has_groups ? 3 : 1, kInference,
        algorithm, spec.source, spec.weights, bias..., spec.output,
        spec.strides, spec.dilations, spec.pads_begin, spec.pads_end);
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

// In version 3 the scales are those of the weights, so the bias is added to
// what they have made of the sum; in version 2 they multiply the sum with its
// bias.
bool BiasIsRescaled() { return DNNL_VERSION_MAJOR >= 3; }

absl::StatusOr<Planned> PlanMatMul(const Desc& left, const Desc& right,
                                   const Desc& output,
                                   const Attributes& attributes) {
  return PlanRescaled<dnnl::matmul>(attributes, DNNL_ARG_WEIGHTS,
                                    MaskOfSide(attributes), left, right,
                                    output);
}

absl::StatusOr<Planned> PlanPool(const PoolSpec& spec,
                                 const Attributes& attributes) {
  return PlanOf<PoolForward>(attributes, kInference, spec.algorithm,
                             spec.source, spec.output, spec.strides,
                             spec.kernel, spec.dilations, spec.pads_begin,
                             spec.pads_end);
}

absl::StatusOr<Planned> PlanBatchNorm(const Desc& data, float epsilon,
                                      const Attributes& attributes) {
  return PlanForwardNorm<dnnl::batch_normalization_forward>(
      attributes, data, epsilon,
      normalization_flags::use_global_stats | normalization_flags::use_scale |
          normalization_flags::use_shift);
}

absl::StatusOr<Planned> PlanLayerNorm(const Desc& data, float epsilon,
                                      bool has_shift,
                                      const Attributes& attributes) {
  auto flags = normalization_flags::use_scale;
  if (has_shift) flags = flags | normalization_flags::use_shift;
  return PlanForwardNorm<dnnl::layer_normalization_forward>(attributes, data,
                                                            epsilon, flags);
}

absl::StatusOr<Planned> PlanLrn(const Desc& data, const LrnSpec& spec) {
  return PlanForward<dnnl::lrn_forward>({}, Algorithm::lrn_across_channels,
                                        data, data, spec.size, spec.alpha,
                                        spec.beta, spec.bias);
}

absl::StatusOr<Planned> PlanSoftmax(const Desc& data, int side) {
  return PlanOf<SoftmaxForward>({}, kInference, Algorithm::softmax_accurate,
                                data, data, side);
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
  return PlanForward<dnnl::eltwise_forward>(attributes, op.algorithm, source,
                                            output, op.alpha, op.beta);
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
  return PlanOf<dnnl::resampling_forward>(attributes, kInference, algorithm,
                                          source, output);
}

// A concatenation and a reordering have no description of the operation in
// version 2.
absl::StatusOr<Planned> PlanConcat(const std::vector<Desc>& sources, int side,
                                   const Desc& output) {
#if DNNL_VERSION_MAJOR >= 3
  return PlanOf<dnnl::concat>({}, output, side, sources);
#else
  return Caught([&]() -> Planned {
    return {dnnl::concat::primitive_desc(output, side, sources, Engine()), {}};
  });
#endif
}

absl::StatusOr<Planned> PlanReorder(const Desc& source, const Desc& output,
                                    const Attributes& attributes) {
#if DNNL_VERSION_MAJOR >= 3
  return PlanRescaled<dnnl::reorder>(attributes, DNNL_ARG_SRC,
                                     MaskOfSide(attributes), source, Engine(),
                                     output);
#else
  return Caught([&]() -> Planned {
    return {dnnl::reorder::primitive_desc(Engine(), source, Engine(), output,
                                          AttrOf(attributes)),
            {}};
  });
#endif
}

}  // namespace nodewise::onednn
