#pragma once

#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace nodewise::onednn {

// Descriptions of primitives become primitives of oneDNN here: the calls that
// are not the same in its versions 2 and 3.

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using DataType = dnnl::memory::data_type;
using Algorithm = dnnl::algorithm;

inline constexpr auto kInference = dnnl::prop_kind::forward_inference;

// Primitives with dilations and those that tell source and output apart have
// the plain names in version 3, and "_v2" in version 2.
#if DNNL_VERSION_MAJOR >= 3
using PoolForward = dnnl::pooling_forward;
using PoolBackward = dnnl::pooling_backward;
using SoftmaxForward = dnnl::softmax_forward;
using SoftmaxBackward = dnnl::softmax_backward;
#else
using PoolForward = dnnl::pooling_v2_forward;
using PoolBackward = dnnl::pooling_v2_backward;
using SoftmaxForward = dnnl::softmax_v2_forward;
using SoftmaxBackward = dnnl::softmax_v2_backward;
#endif

// A primitive that is known but not made yet.
struct Planned {
  dnnl::primitive_desc_base plan;
  // Arguments with the same data in every run: scales and zero points, where
  // the version takes them so.
  std::vector<std::pair<int, dnnl::memory>> fixed;
};

struct PostOp {
  Algorithm algorithm = Algorithm::undef;
  float alpha = 0;
  float beta = 0;
  std::optional<Desc> other;  // For a binary one.
};

// How integers are rescaled: y = scale * (x - source zero) + output zero, x
// being one element or a sum of products, rounded and clamped to the type of y.
struct Rescale {
  std::vector<float> scales;  // One, or as many as there are along `side`.
  int side = -1;              // A side of the output; -1: one scale for all.
  int32_t source_zero = 0;
  int32_t output_zero = 0;
};

struct Attributes {
  std::vector<PostOp> post_ops;
  std::optional<Rescale> rescale;
};

const dnnl::engine& Engine();

// Post-operations, and in version 2 the rescaling.
dnnl::primitive_attr AttrOf(const Attributes& attributes);

struct ConvSpec {
  bool is_transposed = false;
  Desc source;
  Desc weights;
  std::optional<Desc> bias;
  Desc output;
  Dims strides;
  Dims dilations;  // 0 for windows without gaps.
  Dims pads_begin;
  Dims pads_end;
  bool has_groups = false;  // The weights have one more side, in front.
};
absl::StatusOr<Planned> PlanConv(const ConvSpec& spec,
                                 const Attributes& attributes);

// Whether the bias of an integer product is to be given multiplied by the
// scales. Otherwise it is added to the sum as it is.
bool BiasIsRescaled();

absl::StatusOr<Planned> PlanMatMul(const Desc& left, const Desc& right,
                                   const Desc& output,
                                   const Attributes& attributes);

struct PoolSpec {
  Algorithm algorithm = Algorithm::undef;
  Desc source;
  Desc output;
  Dims kernel;
  Dims strides;
  Dims dilations;  // 0 for windows without gaps.
  Dims pads_begin;
  Dims pads_end;
};

absl::StatusOr<Planned> PlanConcat(const std::vector<Desc>& sources, int side,
                                   const Desc& output);
// With a `rescale`, scales are factors of the elements.
absl::StatusOr<Planned> PlanReorder(const Desc& source, const Desc& output,
                                    const Attributes& attributes);

// Errors that oneDNN throws, as a status.

absl::Status StatusOf(const dnnl::error& error);

// Returns what f() returns, with a status around it where it has none, or the
// error that f() throws.
template <typename Result>
struct WithStatus {
  using Type = std::conditional_t<std::is_constructible_v<Result, absl::Status>,
                                  Result, absl::StatusOr<Result>>;
};
template <>
struct WithStatus<void> {
  using Type = absl::Status;
};
template <typename F>
typename WithStatus<std::invoke_result_t<F>>::Type Caught(F f) {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
      f();
      return absl::OkStatus();
    } else {
      return f();
    }
  } catch (const dnnl::error& error) {
    return StatusOf(error);
  }
}

// Returns oneDNN's description of a primitive.
template <typename Primitive, typename... Args>
typename Primitive::primitive_desc DescriptionOf(
    const dnnl::primitive_attr& attr, const Args&... args) {
  using Description = typename Primitive::primitive_desc;
#if DNNL_VERSION_MAJOR >= 3
  return Description(Engine(), args..., attr);
#else
  return Description(typename Primitive::desc(args...), attr, Engine());
#endif
}

// Plans of primitives without a rescaling.

template <typename Primitive, typename... Args>
absl::StatusOr<Planned> PlanOf(const Attributes& attributes,
                               const Args&... args) {
  return Caught([&]() -> Planned {
    return {DescriptionOf<Primitive>(AttrOf(attributes), args...), {}};
  });
}

// Calls f with the descriptions of source and output where those are alike:
// version 2 takes one for both.
template <typename F>
auto WithBoth(const Desc& source, [[maybe_unused]] const Desc& output, F f) {
#if DNNL_VERSION_MAJOR >= 3
  return f(source, output);
#else
  return f(source);
#endif
}

// A forward primitive with such a pair, and one that normalizes.
template <typename Primitive, typename... Args>
absl::StatusOr<Planned> PlanForward(const Attributes& attributes,
                                    Algorithm algorithm, const Desc& source,
                                    const Desc& output, const Args&... args) {
  return WithBoth(source, output, [&](const auto&... both) {
    return PlanOf<Primitive>(attributes, kInference, algorithm, both...,
                             args...);
  });
}
template <typename Primitive>
absl::StatusOr<Planned> PlanForwardNorm(const Attributes& attributes,
                                        const Desc& data, float epsilon,
                                        dnnl::normalization_flags flags) {
  return WithBoth(data, data, [&](const auto&... both) {
    return PlanOf<Primitive>(attributes, kInference, both..., epsilon, flags);
  });
}

}  // namespace nodewise::onednn
