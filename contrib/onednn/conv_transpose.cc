#include "contrib/onednn/conv.h"
#include "contrib/onednn/windows.h"
#include "nodewise/ops/conv.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::onednn {
namespace {

// oneDNN has the weights [out, in, ...], ONNX [in, out, ...].
Desc SwappedWeights(const Sizes& w, int64_t group) {
  int64_t kernel = 1;
  for (size_t side = 2; side < w.size(); ++side) kernel *= w[side];
  Dims sizes;
  Dims strides;
  if (group > 1) {
    sizes.push_back(group);
    strides.push_back(w[0] / group * w[1] * kernel);
  }
  sizes.insert(sizes.end(), {w[1], w[0] / group});
  strides.insert(strides.end(), {kernel, w[1] * kernel});
  for (size_t side = 2; side < w.size(); ++side) {
    kernel /= w[side];
    sizes.push_back(w[side]);
    strides.push_back(kernel);
  }
  return {sizes, DataType::f32, strides};
}

// The padding of one side of which the output's size follows.
absl::Status PlaceSide(const ops::ConvTranspose& op, const Window& window,
                       size_t s, const Call& call, ConvSpec* spec) {
  const int64_t in = call.sizes(0)[s + 2];
  const int64_t out = call.output_sizes()[s + 2];
  const int64_t reach = (window.kernel[s] - 1) * window.dilations[s] + 1;
  const int64_t full = window.strides[s] * (in - 1) + reach;
  int64_t begin = window.pads[s];
  const bool is_same =
      op.auto_pad == Padding::kSameUpper || op.auto_pad == Padding::kSameLower;
  if (is_same || !op.output_shape.empty()) {
    const int64_t extra = op.output_padding.empty() ? 0 : op.output_padding[s];
    const int64_t total = std::max<int64_t>(full + extra - out, 0);
    const bool less_before = op.auto_pad == Padding::kSameUpper;
    begin = less_before ? total / 2 : total - total / 2;
  }
  spec->strides.push_back(window.strides[s]);
  spec->dilations.push_back(window.dilations[s] - 1);
  spec->pads_begin.push_back(begin);
  spec->pads_end.push_back(full - begin - out);
  // Elements that no tap reaches are the bias, which oneDNN does not promise.
  if (spec->pads_end.back() >= 0) return absl::OkStatus();
  return Refuse("the output reaches beyond the last window");
}

}  // namespace

absl::Status PlaceConvTranspose(const Call& call, ConvSpec* spec,
                                Desc* weights) {
  const auto& op = *call.op().As<ops::ConvTranspose>();
  const Sizes& w = call.sizes(1);
  const size_t spatial = w.size() - 2;
  NODEWISE_ASSIGN_OR_RETURN(const Window window,
                            ResolveWindow({op.auto_pad,
                                           {w.begin() + 2, w.end()},
                                           op.strides,
                                           op.dilations,
                                           op.pads,
                                           false},
                                          static_cast<int>(spatial)));
  NODEWISE_RETURN_IF_ERROR(CheckWindows(
      call.sizes(0), {window.kernel, window.strides, window.dilations,
                      window.pads, window.pads}));
  spec->is_transposed = true;
  spec->has_groups = op.group > 1;
  for (size_t s = 0; s < spatial; ++s) {
    NODEWISE_RETURN_IF_ERROR(PlaceSide(op, window, s, call, spec));
  }
  NODEWISE_RETURN_IF_ERROR(CheckWindows(
      call.sizes(0), {window.kernel, spec->strides, spec->dilations,
                      spec->pads_begin, spec->pads_end}));
  *weights = SwappedWeights(w, op.group);
  Sizes sizes = w;
  std::swap(sizes[0], sizes[1]);
  sizes[0] *= op.group;
  sizes[1] /= op.group;
  spec->weights = AnyOrder(GroupedSizes(sizes, op.group), DataType::f32);
  return absl::OkStatus();
}

absl::Status BuildConvTranspose(ProgramBuilder& program) {
  const Call& call = program.call();
  NODEWISE_RETURN_IF_ERROR(call.RequireAllFloat32());
  NODEWISE_RETURN_IF_ERROR(CheckConvRanks(call, 1));
  NODEWISE_RETURN_IF_ERROR(call.RequirePlain(1));
  ConvSpec spec;
  Desc weights;
  NODEWISE_RETURN_IF_ERROR(PlaceConvTranspose(call, &spec, &weights));
  return AddConv(program, std::move(spec), weights,
                 call.op().As<ops::ConvTranspose>()->group);
}

}  // namespace nodewise::onednn
