#include "nodewise/ops/pool.h"

#include "contrib/onednn/activation.h"
#include "contrib/onednn/windows.h"
#include "fmt/format.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::onednn {
namespace {

absl::Status CheckRank(const Call& call) {
  const size_t rank = call.sizes(0).size();
  if (rank >= 3 && rank <= 5) return absl::OkStatus();
  return Refuse(fmt::format("has {} sides, expected 3 to 5", rank));
}

}  // namespace

absl::Status PlacePool(const Call& call, const ops::PoolAttributes& op,
                       PoolSpec* spec, bool* reaches_beyond) {
  const Sizes& x = call.sizes(0);
  const size_t spatial = x.size() - 2;
  NODEWISE_ASSIGN_OR_RETURN(
      Window window, ResolveWindow({op.auto_pad, op.kernel_shape, op.strides,
                                    op.dilations, op.pads, op.ceil_mode},
                                   static_cast<int>(spatial)));
  NODEWISE_RETURN_IF_ERROR(CheckWindows(
      call.sizes(0), {window.kernel, window.strides, window.dilations,
                      window.pads, window.pads}));
  *reaches_beyond = false;
  for (size_t s = 0; s < spatial; ++s) {
    PadSame(op.auto_pad, static_cast<int>(s), x[s + 2], &window);
    const int64_t out = call.output_sizes()[s + 2];
    const int64_t reach = (window.kernel[s] - 1) * window.dilations[s] + 1;
    const int64_t begin = window.pads[s];
    const int64_t needed =
        (out - 1) * window.strides[s] + reach - x[s + 2] - begin;
    const int64_t end = std::max(window.pads[s + spatial], needed);
    *reaches_beyond = *reaches_beyond || end > window.pads[s + spatial];
    if (begin >= reach || end >= reach) {
      return Refuse("has windows that lie in the padding altogether");
    }
    spec->pads_begin.push_back(begin);
    spec->pads_end.push_back(end);
    spec->dilations.push_back(window.dilations[s] - 1);
  }
  spec->kernel = window.kernel;
  spec->strides = window.strides;
  return absl::OkStatus();
}

namespace {

// With AVX-512, oneDNN 3.2 reads other elements of an operand of the output's
// size than it should behind a pool of plain tensors, even some beyond its end.
absl::Status CheckPostOps(const Call& call) {
  if (call.output_layout() != TensorLayout::kPlain) return absl::OkStatus();
  for (size_t k = 0; k < call.get().post_ops.size(); ++k) {
    if (call.get().post_ops[k].others.empty()) continue;
    const size_t other = call.first_other(k);
    if (call.is_given(other) && call.sizes(other) == call.output_sizes()) {
      return Refuse(fmt::format(
          "{}: is as large as the output, behind a pool of plain tensors",
          call.NameOf(other)));
    }
  }
  return absl::OkStatus();
}

absl::Status AddPool(ProgramBuilder& program, PoolSpec spec) {
  const Call& call = program.call();
  NODEWISE_RETURN_IF_ERROR(CheckPostOps(call));
  NODEWISE_ASSIGN_OR_RETURN(Fused fused, FusePostOps(program, 1));
  // Its fast code has the same layout on both sides.
  NODEWISE_ASSIGN_OR_RETURN(const Desc given, call.InputDesc(0));
  NODEWISE_ASSIGN_OR_RETURN(const DataType type, DataTypeOf(call.dtype(0)));
  NODEWISE_ASSIGN_OR_RETURN(spec.output, call.OutputDesc());
  spec.source = DescOf(call.sizes(0), type, call.output_layout());
  NODEWISE_ASSIGN_OR_RETURN(const Planned planned,
                            PlanPool(spec, fused.attributes));
  NODEWISE_ASSIGN_OR_RETURN(
      const Value source,
      program.Reordered(program.Input(0, given), spec.source));
  fused.arguments.emplace_back(DNNL_ARG_SRC, source);
  fused.arguments.emplace_back(DNNL_ARG_DST, program.Output(spec.output));
  return program.Add(planned, fused.arguments);
}

bool IsByte(DLDataType dtype) { return dtype == kInt8 || dtype == kUint8; }

}  // namespace

absl::Status BuildMaxPool(ProgramBuilder& program) {
  const Call& call = program.call();
  NODEWISE_RETURN_IF_ERROR(CheckRank(call));
  if (IsByte(call.dtype(0))) {
    NODEWISE_RETURN_IF_ERROR(call.RequireNoPostOps());
  } else {
    NODEWISE_RETURN_IF_ERROR(call.RequireAllFloat32());
    program.AddGuard({});
  }
  PoolSpec spec;
  spec.algorithm = Algorithm::pooling_max;
  bool reaches_beyond = false;
  NODEWISE_RETURN_IF_ERROR(
      PlacePool(call, *call.op().As<ops::MaxPool>(), &spec, &reaches_beyond));
  return AddPool(program, std::move(spec));
}

absl::Status BuildAveragePool(ProgramBuilder& program) {
  const Call& call = program.call();
  const auto& op = *call.op().As<ops::AveragePool>();
  NODEWISE_RETURN_IF_ERROR(call.RequireAllFloat32());
  NODEWISE_RETURN_IF_ERROR(CheckRank(call));
  PoolSpec spec;
  spec.algorithm = op.count_include_pad
                       ? Algorithm::pooling_avg_include_padding
                       : Algorithm::pooling_avg_exclude_padding;
  bool reaches_beyond = false;
  NODEWISE_RETURN_IF_ERROR(PlacePool(call, op, &spec, &reaches_beyond));
  if (reaches_beyond && op.count_include_pad) {
    return Refuse(
        "counts padding, and has windows that reach beyond it (ceil_mode), "
        "where oneDNN would count on");
  }
  return AddPool(program, std::move(spec));
}

absl::Status BuildGlobalPool(ProgramBuilder& program) {
  const Call& call = program.call();
  NODEWISE_RETURN_IF_ERROR(call.RequireAllFloat32());
  NODEWISE_RETURN_IF_ERROR(CheckRank(call));
  const Sizes& x = call.sizes(0);
  PoolSpec spec;
  spec.algorithm = Algorithm::pooling_avg_exclude_padding;
  if (call.op().As<ops::GlobalMaxPool>() != nullptr) {
    spec.algorithm = Algorithm::pooling_max;
    program.AddGuard({});
  }
  spec.kernel.assign(x.begin() + 2, x.end());
  const size_t spatial = spec.kernel.size();
  spec.strides.assign(spatial, 1);
  spec.dilations.assign(spatial, 0);
  spec.pads_begin.assign(spatial, 0);
  spec.pads_end.assign(spatial, 0);
  NODEWISE_RETURN_IF_ERROR(
      CheckWindows(x, {spec.kernel, spec.strides, spec.dilations,
                       spec.pads_begin, spec.pads_end}));
  return AddPool(program, std::move(spec));
}

}  // namespace nodewise::onednn
