#include "contrib/onednn/rows.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/ops/cast.h"
#include "nodewise/ops/layout.h"
#include "nodewise/support/status.h"

namespace nodewise::onednn {

namespace {

// A reordering is all that moving elements takes: oneDNN copies from one
// description to the other.
absl::Status AddReorder(ProgramBuilder& program, const Desc& from,
                        const Desc& to) {
  NODEWISE_RETURN_IF_ERROR(program.call().RequireNoPostOps());
  NODEWISE_ASSIGN_OR_RETURN(const Planned planned, PlanReorder(from, to, {}));
  return program.AddFromInput(planned, from, to);
}

}  // namespace

// oneDNN concatenates parts that lie alike; others would have to be reordered
// one by one.
absl::Status BuildConcat(ProgramBuilder& program) {
  const Call& call = program.call();
  NODEWISE_RETURN_IF_ERROR(call.RequireNoPostOps());
  const size_t rank = call.output_sizes().size();
  NODEWISE_ASSIGN_OR_RETURN(
      const int axis,
      Axis(call.op().As<ops::Concat>()->axis, static_cast<int>(rank)));
  std::vector<Desc> sources;
  Arguments arguments;
  for (size_t i = 0; i < call.num_inputs(); ++i) {
    if (!(call.dtype(i) == call.output_dtype())) {
      return Refuse("{}: is of another type than the output", call.NameOf(i));
    }
    if (rank > 2 && call.layout(i) != call.output_layout()) {
      return Refuse("{}: is in another layout than the output", call.NameOf(i));
    }
    NODEWISE_ASSIGN_OR_RETURN(sources.emplace_back(), call.InputDesc(i));
    arguments.emplace_back(DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i),
                           program.Input(i, sources.back()));
  }
  NODEWISE_ASSIGN_OR_RETURN(const Desc output, call.OutputDesc());
  NODEWISE_ASSIGN_OR_RETURN(const Planned planned,
                            PlanConcat(sources, axis, output));
  arguments.emplace_back(DNNL_ARG_DST, program.Output(output));
  return program.Add(planned, arguments);
}

// The output is compact. The input is described with its sides in the order of
// the output, each with its own stride, so that a reordering transposes it.
absl::Status BuildTranspose(ProgramBuilder& program) {
  const Call& call = program.call();
  NODEWISE_RETURN_IF_ERROR(call.RequirePlain(0));
  const Sizes& x = call.sizes(0);
  const size_t rank = x.size();
  std::vector<int64_t> perm = call.op().As<ops::Transpose>()->perm;
  if (perm.empty()) {
    for (size_t side = rank; side-- > 0;) {
      perm.push_back(static_cast<int64_t>(side));
    }
  }
  const Dims strides_of_x = StridesOf(x, TensorLayout::kPlain);
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<int> sides,
                            Axes(perm, static_cast<int>(rank)));
  Dims sizes;
  Dims strides;
  for (const int side : sides) {
    sizes.push_back(x[static_cast<size_t>(side)]);
    strides.push_back(strides_of_x[static_cast<size_t>(side)]);
  }
  NODEWISE_ASSIGN_OR_RETURN(const DataType type, DataTypeOf(call.dtype(0)));
  NODEWISE_ASSIGN_OR_RETURN(const Desc output, call.OutputDesc());
  if (rank == 0) return Refuse("has no sides");
  return AddReorder(program, Desc(sizes, type, strides), output);
}

// Elements keep their order in plain tensors only. Axes and shapes that are
// inputs are not operands.
absl::Status BuildReshape(ProgramBuilder& program) {
  const Call& call = program.call();
  NODEWISE_RETURN_IF_ERROR(call.RequirePlain(0));
  if (call.get().output_layout != TensorLayout::kPlain) {
    return Refuse("the output has its channels last, expected it plain");
  }
  for (size_t i = 1; i < call.get().inputs.size(); ++i) program.SetParameter(i);
  // Bytes, so that every type is one that oneDNN has.
  const auto size = static_cast<int64_t>(ElementBytes(call.dtype(0)));
  const Desc bytes = DescOf({call.count(0) * size}, DataType::u8);
  return AddReorder(program, bytes, bytes);
}

// An Identity between tensors that lie alike is a copy.
absl::Status BuildIdentity(ProgramBuilder& program) {
  const Call& call = program.call();
  NODEWISE_ASSIGN_OR_RETURN(const Desc from, call.InputDesc(0));
  NODEWISE_ASSIGN_OR_RETURN(const Desc to, call.OutputDesc());
  return AddReorder(program, from, to);
}

absl::Status BuildCast(ProgramBuilder& program) {
  const Call& call = program.call();
  // oneDNN rounds where a cast cuts off.
  if (!(call.output_dtype() == kFloat32) || call.dtype(0) == kFloat32) {
    return Refuse(
        "from {} to {}: oneDNN casts from integers to float32 only as ONNX "
        "does",
        ToString(call.dtype(0)), ToString(call.output_dtype()));
  }
  NODEWISE_RETURN_IF_ERROR(call.RequireOutputLike(0));
  return BuildIdentity(program);
}

}  // namespace nodewise::onednn
