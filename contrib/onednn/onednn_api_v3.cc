// For oneDNN 3: the primitive's description in one call; scales and zero points
// are arguments of each run.

#include <algorithm>

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

// All scales are those of the argument `scaled`, whose mask is `mask`.
Planned WithRescale(const Attributes& attributes, int scaled, int mask,
                    dnnl::primitive_attr* attr) {
  Planned planned;
  *attr = AttrOf(attributes);
  if (!attributes.rescale.has_value()) return planned;
  const Rescale& rescale = *attributes.rescale;
  attr->set_scales_mask(scaled, rescale.side < 0 ? 0 : mask);
  planned.fixed.push_back(
      FixedList(DNNL_ARG_ATTR_SCALES | scaled, DataType::f32, rescale.scales));
  for (const auto& [argument, zero] :
       {std::pair(DNNL_ARG_SRC, rescale.source_zero),
        std::pair(DNNL_ARG_DST, rescale.output_zero)}) {
    if (zero == 0) continue;
    attr->set_zero_points_mask(argument, 0);
    planned.fixed.push_back(FixedList<int32_t>(
        DNNL_ARG_ATTR_ZERO_POINTS | argument, DataType::s32, {zero}));
  }
  return planned;
}

template <typename Primitive>
Planned ConvOf(const ConvSpec& spec, Algorithm algorithm,
               const Attributes& attributes) {
  using PrimitiveDesc = typename Primitive::primitive_desc;
  const auto kind = prop_kind::forward_inference;
  dnnl::primitive_attr attr;
  Planned planned =
      WithRescale(attributes, DNNL_ARG_WEIGHTS, spec.has_groups ? 3 : 1, &attr);
  if (spec.bias.has_value()) {
    planned.plan =
        PrimitiveDesc(Engine(), kind, algorithm, spec.source, spec.weights,
                      *spec.bias, spec.output, spec.strides, spec.dilations,
                      spec.pads_begin, spec.pads_end, attr);
  } else {
    planned.plan = PrimitiveDesc(
        Engine(), kind, algorithm, spec.source, spec.weights, spec.output,
        spec.strides, spec.dilations, spec.pads_begin, spec.pads_end, attr);
  }
  return planned;
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

bool BiasIsRescaled() { return true; }

absl::StatusOr<Planned> PlanMatMul(const Desc& left, const Desc& right,
                                   const Desc& output,
                                   const Attributes& attributes) {
  return Caught([&] {
    dnnl::primitive_attr attr;
    const int side = attributes.rescale.has_value()
                         ? std::max(attributes.rescale->side, 0)
                         : 0;
    Planned planned =
        WithRescale(attributes, DNNL_ARG_WEIGHTS, 1 << side, &attr);
    planned.plan =
        dnnl::matmul::primitive_desc(Engine(), left, right, output, attr);
    return planned;
  });
}

absl::StatusOr<Planned> PlanPool(const PoolSpec& spec,
                                 const Attributes& attributes) {
  return Caught([&]() -> Planned {
    return {
        dnnl::pooling_forward::primitive_desc(
            Engine(), prop_kind::forward_inference, spec.algorithm, spec.source,
            spec.output, spec.strides, spec.kernel, spec.dilations,
            spec.pads_begin, spec.pads_end, AttrOf(attributes)),
        {}};
  });
}

absl::StatusOr<Planned> PlanBatchNorm(const Desc& data, float epsilon,
                                      const Attributes& attributes) {
  using dnnl::normalization_flags;
  return Caught([&]() -> Planned {
    return {
        dnnl::batch_normalization_forward::primitive_desc(
            Engine(), prop_kind::forward_inference, data, data, epsilon,
            normalization_flags::use_global_stats |
                normalization_flags::use_scale | normalization_flags::use_shift,
            AttrOf(attributes)),
        {}};
  });
}

absl::StatusOr<Planned> PlanLayerNorm(const Desc& data, float epsilon,
                                      bool has_shift,
                                      const Attributes& attributes) {
  using dnnl::normalization_flags;
  auto flags = normalization_flags::use_scale;
  if (has_shift) flags = flags | normalization_flags::use_shift;
  return Caught([&]() -> Planned {
    return {dnnl::layer_normalization_forward::primitive_desc(
                Engine(), prop_kind::forward_inference, data, data, epsilon,
                flags, AttrOf(attributes)),
            {}};
  });
}

absl::StatusOr<Planned> PlanLrn(const Desc& data, const LrnSpec& spec) {
  return Caught([&]() -> Planned {
    return {dnnl::lrn_forward::primitive_desc(
                Engine(), prop_kind::forward_inference,
                Algorithm::lrn_across_channels, data, data, spec.size,
                spec.alpha, spec.beta, spec.bias),
            {}};
  });
}

absl::StatusOr<Planned> PlanSoftmax(const Desc& data, int side) {
  return Caught([&]() -> Planned {
    return {dnnl::softmax_forward::primitive_desc(
                Engine(), prop_kind::forward_inference,
                Algorithm::softmax_accurate, data, data, side),
            {}};
  });
}

absl::StatusOr<Planned> PlanReduction(Algorithm algorithm, const Desc& source,
                                      const Desc& output, float power,
                                      const Attributes& attributes) {
  return Caught([&]() -> Planned {
    return {dnnl::reduction::primitive_desc(Engine(), algorithm, source, output,
                                            power, 0, AttrOf(attributes)),
            {}};
  });
}

absl::StatusOr<Planned> PlanEltwise(const PostOp& op, const Desc& source,
                                    const Desc& output,
                                    const Attributes& attributes) {
  return Caught([&]() -> Planned {
    return {dnnl::eltwise_forward::primitive_desc(
                Engine(), prop_kind::forward_inference, op.algorithm, source,
                output, op.alpha, op.beta, AttrOf(attributes)),
            {}};
  });
}

absl::StatusOr<Planned> PlanBinary(Algorithm algorithm, const Desc& left,
                                   const Desc& right, const Desc& output,
                                   const Attributes& attributes) {
  return Caught([&]() -> Planned {
    return {dnnl::binary::primitive_desc(Engine(), algorithm, left, right,
                                         output, AttrOf(attributes)),
            {}};
  });
}

absl::StatusOr<Planned> PlanResampling(Algorithm algorithm, const Desc& source,
                                       const Desc& output,
                                       const Attributes& attributes) {
  return Caught([&]() -> Planned {
    return {dnnl::resampling_forward::primitive_desc(
                Engine(), prop_kind::forward_inference, algorithm, source,
                output, AttrOf(attributes)),
            {}};
  });
}

absl::StatusOr<Planned> PlanConcat(const std::vector<Desc>& sources, int side,
                                   const Desc& output) {
  return Caught([&]() -> Planned {
    return {dnnl::concat::primitive_desc(Engine(), output, side, sources), {}};
  });
}

absl::StatusOr<Planned> PlanReorder(const Desc& source, const Desc& output,
                                    const Attributes& attributes) {
  return Caught([&] {
    dnnl::primitive_attr attr;
    const int side = attributes.rescale.has_value()
                         ? std::max(attributes.rescale->side, 0)
                         : 0;
    Planned planned = WithRescale(attributes, DNNL_ARG_SRC, 1 << side, &attr);
    planned.plan =
        dnnl::reorder::primitive_desc(Engine(), source, Engine(), output, attr);
    return planned;
  });
}

}  // namespace nodewise::onednn
