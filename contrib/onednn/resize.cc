// Resize and Upsample: oneDNN computes those whose elements come from the same
// places as its own do.

#include "nodewise/ops/resize.h"

#include <algorithm>
#include <cmath>

#include "contrib/onednn/rows.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise::onednn {

namespace {

using ops::Interpolation;

// What Resize and Upsample have in common of their attributes.
struct ResizeKind {
  Interpolation mode = Interpolation::kNearest;
  size_t scales = 1;  // The inputs.
  size_t sizes = SIZE_MAX;
};

// Attributes that oneDNN knows nothing of are refused unless they have the
// values that change nothing. Other rules of coordinates are not looked at,
// since places are compared (CheckSide).
absl::StatusOr<ResizeKind> ResizeKindOf(const OpAttrs& attrs) {
  if (const auto* const op = attrs.As<ops::Upsample>())
    return ResizeKind{op->mode};
  if (const auto* const op = attrs.As<ops::Resize10>())
    return ResizeKind{op->mode};
  const auto& op = *attrs.As<ops::Resize>();
  if (op.antialias) return Refuse("antialias is 1");
  if (op.exclude_outside) return Refuse("exclude_outside is 1");
  if (op.axes.has_value()) return Refuse("axes are given");
  if (op.keep_aspect_ratio_policy != ops::AspectRatio::kStretch) {
    return Refuse("keep_aspect_ratio_policy is not stretch");
  }
  if (op.coordinate_transformation_mode ==
      ops::CoordinateRule::kTfCropAndResize) {
    return Refuse("coordinate_transformation_mode is tf_crop_and_resize");
  }
  return ResizeKind{op.mode, 2, 3};
}

// Asks the operator itself which place of a side each element of the output
// comes from: it resizes the numbers 0, 1, 2, ... along that side alone.
absl::StatusOr<std::vector<double>> PlacesOf(const Call& call,
                                             const ResizeKind& kind,
                                             size_t side) {
  const size_t rank = call.sizes(0).size();
  Sizes shape(rank, 1);
  shape[side] = call.sizes(0)[side];
  NODEWISE_ASSIGN_OR_RETURN(NDArray line,
                            NDArray::Empty(shape, kFloat32, kCpu));
  for (int64_t i = 0; i < shape[side]; ++i) {
    line.As<float>()[i] = static_cast<float>(i);
  }
  Tensors inputs = {std::move(line)};
  inputs.resize(call.get().inputs.size());
  const bool by_sizes = call.has(kind.sizes);
  const size_t from = by_sizes ? kind.sizes : kind.scales;
  NODEWISE_ASSIGN_OR_RETURN(const NDArray* const given,
                            call.RequireConstant(from));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray own, given->CopyToHost());
  for (size_t i = 0; i < rank; ++i) {
    if (i == side) continue;
    if (by_sizes) {
      own.As<int64_t>()[i] = 1;
    } else {
      own.As<float>()[i] = 1;
    }
  }
  inputs[from] = own;
  NODEWISE_ASSIGN_OR_RETURN(const Evaluated evaluated,
                            Evaluate(call.op(), std::move(inputs), {true}));
  return ToDoubles(evaluated.outputs[0]);
}

// The place as oneDNN has it.
// It takes the middles of elements for their places, in floats, and does not
// leave the input.
double PlaceInOneDnn(Interpolation mode, int64_t o, int64_t in, int64_t out) {
  const float at = (static_cast<float>(o) + 0.5F) * static_cast<float>(in) /
                       static_cast<float>(out) -
                   0.5F;
  const auto last = static_cast<float>(in - 1);
  if (mode == Interpolation::kLinear) return std::clamp(at, 0.0F, last);
  return std::clamp(std::round(at), 0.0F, last);
}

// Each element of the output has to come from the same place in oneDNN as by
// the operator. Linear places may differ by what floats round; nearest ones are
// whole numbers, which must be equal.
absl::Status CheckSide(const Call& call, const ResizeKind& kind, size_t side) {
  const int64_t in = call.sizes(0)[side];
  const int64_t out = call.output_sizes()[side];
  // A float holds larger numbers not exactly.
  if (in > 1 << 20) return Refuse("side {} is too long", side);
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<double> places,
                            PlacesOf(call, kind, side));
  if (static_cast<int64_t>(places.size()) != out) {
    return Refuse("side {} of the output is {}, expected {}", side, out,
                  places.size());
  }
  const double slack =
      kind.mode == Interpolation::kLinear ? 1e-6 * static_cast<double>(in) : 0;
  for (int64_t o = 0; o < out; ++o) {
    const double own = PlaceInOneDnn(kind.mode, o, in, out);
    if (std::fabs(own - places[static_cast<size_t>(o)]) <= slack) continue;
    return Refuse(
        "side {}: element {} comes from place {:g}, in oneDNN from {:g}", side,
        o, places[static_cast<size_t>(o)], own);
  }
  return absl::OkStatus();
}

}  // namespace

// Sides are resized one by one in the operator and all at once in oneDNN, which
// is the same sum in another order.
absl::Status BuildResize(ProgramBuilder& program) {
  const Call& call = program.call();
  NODEWISE_ASSIGN_OR_RETURN(const ResizeKind kind, ResizeKindOf(call.op()));
  if (kind.mode == Interpolation::kCubic) return Refuse("mode is cubic");
  NODEWISE_RETURN_IF_ERROR(call.RequireFloat32(0));
  const Sizes& x = call.sizes(0);
  NODEWISE_RETURN_IF_ERROR(call.RequireRank(3, 5));
  if (call.layout(0) != call.output_layout()) {
    return Refuse("changes the layout of its tensor");
  }
  if (x[0] != call.output_sizes()[0] || x[1] != call.output_sizes()[1]) {
    return Refuse("resizes images or channels");
  }
  for (size_t side = 0; side < x.size(); ++side) {
    NODEWISE_RETURN_IF_ERROR(CheckSide(call, kind, side));
  }
  for (size_t i = 1; i < call.get().inputs.size(); ++i) {
    program.SetParameter(i);
  }
  NODEWISE_ASSIGN_OR_RETURN(Fused fused, FusePostOps(program, 1));
  NODEWISE_ASSIGN_OR_RETURN(const Desc from, call.InputDesc(0));
  NODEWISE_ASSIGN_OR_RETURN(const Desc to, call.OutputDesc());
  Algorithm algorithm = Algorithm::resampling_nearest;
  if (kind.mode == Interpolation::kLinear) {
    algorithm = Algorithm::resampling_linear;
    program.AddGuard({});  // Infinity times a weight of 0.
  }
  NODEWISE_ASSIGN_OR_RETURN(
      const Planned planned,
      PlanOf<dnnl::resampling_forward>(fused.attributes, kInference, algorithm,
                                       from, to));
  return program.AddFromInput(planned, from, to, fused.arguments);
}

}  // namespace nodewise::onednn
