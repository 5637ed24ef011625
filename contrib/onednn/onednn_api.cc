#include "contrib/onednn/onednn_api.h"

#include <algorithm>

namespace nodewise::onednn {
// oneDNN 2.6 and 2.7 describe an operation first, of which the primitive's
// description is made; scales and zero points are attributes. oneDNN 3 has the
// primitive's description in one call; scales and zero points are arguments of
// each run, so they are added where arguments are known (PlanRescaled).
dnnl::primitive_attr AttrOf(const Attributes& attributes) {
  dnnl::primitive_attr attr;
  dnnl::post_ops list;
  for (const PostOp& op : attributes.post_ops) {
    if (op.other.has_value()) {
      list.append_binary(op.algorithm, *op.other);
      continue;
    }
#if DNNL_VERSION_MAJOR >= 3
    list.append_eltwise(op.algorithm, op.alpha, op.beta);
#else
    // In version 2 each function has a scale of its own, which is 1.
    list.append_eltwise(1, op.algorithm, op.alpha, op.beta);
#endif
  }
  attr.set_post_ops(list);
#if DNNL_VERSION_MAJOR < 3
  if (!attributes.rescale.has_value()) return attr;
  // Scales are those of the output, along the side that the bit of the mask
  // stands for.
  const Rescale& rescale = *attributes.rescale;
  attr.set_output_scales(rescale.side < 0 ? 0 : 1 << rescale.side,
                         rescale.scales);
  if (rescale.source_zero != 0) {
    attr.set_zero_points(DNNL_ARG_SRC, 0, {rescale.source_zero});
  }
  if (rescale.output_zero != 0) {
    attr.set_zero_points(DNNL_ARG_DST, 0, {rescale.output_zero});
  }
#endif
  return attr;
}

namespace {

#if DNNL_VERSION_MAJOR >= 3

// A list that lives as long as the primitive.
template <typename T>
std::pair<int, dnnl::memory> FixedList(int argument, DataType type,
                                       const std::vector<T>& values) {
  const Desc desc({static_cast<dnnl::memory::dim>(values.size())}, type,
                  Dims{1});
  dnnl::memory memory(desc, Engine());
  std::ranges::copy(values, static_cast<T*>(memory.get_data_handle()));
  return {argument, std::move(memory)};
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

#else

// In version 2 the attributes say all of the rescaling.
template <typename Primitive, typename... Args>
absl::StatusOr<Planned> PlanRescaled(const Attributes& attributes, int, int,
                                     const Args&... args) {
  return PlanOf<Primitive>(attributes, args...);
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
