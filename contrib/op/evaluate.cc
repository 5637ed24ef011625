// Evaluates one operation by its operator's row, between checks of what goes in
// and what comes out: kernels rely on checked inputs, and everything that
// compares with the reference relies on checked outputs.

#include "nodewise/op/evaluate.h"

#include <limits>
#include <utility>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

std::vector<InputInfo> InfosOf(absl::Span<const NDArray> inputs) {
  std::vector<InputInfo> infos(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    infos[i].is_given = true;
    infos[i].type = TensorType::From(*inputs[i]);
    infos[i].constant = &inputs[i];
  }
  return infos;
}

// Operators read required inputs without checking.
absl::Status CheckGiven(const OperatorDef& def,
                        absl::Span<const NDArray> inputs, size_t outputs) {
  for (size_t i = 0; i < def.inputs.size(); ++i) {
    const Param& param = def.inputs[i];
    if (param.kind != Param::Kind::kRequired) continue;
    if (i < inputs.size() && inputs[i].defined()) continue;
    return InvalidArgument("{}: input {} ({}) is not given, expected a tensor",
                           def.name, i, param.name);
  }
  if (outputs <= def.max_outputs()) return absl::OkStatus();
  return InvalidArgument("{}: {} outputs are wanted, expected {} at most",
                         def.name, outputs, def.max_outputs());
}

// A mistake in an operator's evaluation shows here, and not as a fault of the
// network behind it. IsOfType() is the quick way for the usual case, without
// making a type.
absl::Status CheckOutputs(const OpAttrs& attrs, const EvalArgs& args) {
  for (size_t i = 0; i < args.num_outputs(); ++i) {
    if (!args.wants(i)) continue;
    const NDArray& made = args.outputs()[i];
    if (!made.defined()) {
      return Internal("{} made no output {}", attrs.def().name, i);
    }
    if (IsOfType(made, args.inferred(i))) continue;
    const TensorType type = TensorType::From(*made);
    if (AreCompatible(type, args.inferred(i))) continue;
    return Internal("{} made output {} of type {}, expected {} as inferred",
                    attrs.def().name, i, ToString(type),
                    ToString(args.inferred(i)));
  }
  return absl::OkStatus();
}

void FillBounds(const ErrorBound& bound, const NDArray& output,
                Bounds* bounds) {
  const auto count = static_cast<size_t>(CountOf(output));
  // Bounds that the operator has set itself are kept: those of an exact
  // operator, too, may be open in places.
  if (bounds->proved.size() == count) return;
  if (bound.kind == ErrorBound::Kind::kSum) {
    // Only the operator knows the terms of its sums: where it gave no bounds,
    // the errors are unknown.
    bounds->proved.assign(count, std::numeric_limits<double>::quiet_NaN());
    bounds->expected = bounds->proved;
    return;
  }
  bounds->proved.assign(count, 0);
  if (bound.kind == ErrorBound::Kind::kUlps) {
    ParallelFor(CountOf(output), 3, [&](int64_t begin, int64_t end) {
      double* const proved = bounds->proved.data();
      LoadDoubles(output, begin, end, proved + begin);
      for (int64_t i = begin; i < end; ++i) {
        proved[i] = 2 * bound.ulps * HalfUlp(output.dtype(), proved[i]);
      }
    });
  }
  bounds->expected = bounds->proved;
}

}  // namespace

// The lists of outputs are as long as what is wanted of them, so that
// operators may set any of them in any order.
EvalArgs::EvalArgs(absl::Span<const NDArray> inputs,
                   absl::Span<const bool> wanted, const Options& options,
                   absl::Span<const TensorType* const> inferred)
    : inputs_(inputs),
      wanted_(wanted),
      options_(options),
      inferred_(inferred),
      outputs_(wanted_.size()),
      bounds_(options_.with_bounds ? wanted_.size() : 0) {}

// Axes and shapes come in either of the two types, and operators calculate
// with the wider one.
absl::StatusOr<std::vector<int64_t>> EvalArgs::Ints(size_t i) const {
  const NDArray& tensor = inputs_[i];
  const int64_t count = CountOf(tensor);
  const auto read = [count](const auto* data) {
    return std::vector<int64_t>(data, data + count);
  };
  if (tensor.dtype() == kInt64) return read(tensor.As<int64_t>());
  if (tensor.dtype() == kInt32) return read(tensor.As<int32_t>());
  return InvalidArgument("input {}: is of type {}, expected int32 or int64", i,
                         ToString(tensor.dtype()));
}

absl::StatusOr<NDArray> EvalArgs::MakeOutput(size_t i,
                                             absl::Span<const int64_t> shape,
                                             DLDataType dtype) {
  NODEWISE_ASSIGN_OR_RETURN(outputs_[i], NDArray::Empty(shape, dtype, kCpu));
  return outputs_[i];
}

// An input that has another owner is still needed, and one of another type or
// shape has no room for the output.
absl::StatusOr<NDArray> EvalArgs::MakeOutputOver(
    size_t i, size_t from, absl::Span<const int64_t> shape, DLDataType dtype) {
  const NDArray& input = inputs_[from];
  // Bounds are calculated from inputs and outputs.
  if (options_.with_bounds || !input.is_held_once() ||
      !(input.dtype() == dtype) || input.shape() != shape) {
    return MakeOutput(i, shape, dtype);
  }
  outputs_[i] = input;
  return outputs_[i];
}

bool EvalArgs::is_inferred(size_t i) const {
  return i < inferred_.size() && inferred_[i]->has_dtype() &&
         inferred_[i]->is_static();
}

absl::StatusOr<NDArray> EvalArgs::MakeOutput(size_t i) {
  if (!is_inferred(i)) {
    return InvalidArgument("output {}: the type cannot be told from the inputs",
                           i);
  }
  const TensorType& type = *inferred_[i];
  return MakeOutput(i, *type.sizes(), type.dtype);
}

bool IsOfType(const NDArray& tensor, const TensorType& type) {
  if (!tensor.defined() || !(tensor.dtype() == type.dtype) ||
      !type.has_rank() || tensor.shape().size() != type.shape->size()) {
    return false;
  }
  for (size_t i = 0; i < type.shape->size(); ++i) {
    const Dim& side = (*type.shape)[i];
    if (!side.is_known() || side.size() != tensor.shape()[i]) return false;
  }
  return true;
}

// The types are those of the tensors themselves, so that inference knows
// everything and its answer can be checked against the outputs.
absl::StatusOr<Evaluated> Evaluate(const OpAttrs& attrs, Tensors inputs,
                                   absl::Span<const bool> wanted,
                                   const EvalArgs::Options& options) {
  const OperatorDef& def = attrs.def();
  NODEWISE_RETURN_IF_ERROR(CheckGiven(def, inputs, wanted.size()));
  const std::vector<InputInfo> infos = InfosOf(inputs);
  NODEWISE_RETURN_IF_ERROR(def.check(attrs.get(), Inputs(infos)));
  NODEWISE_ASSIGN_OR_RETURN(
      const OutputInfos expected,
      def.infer(attrs.get(), Inputs(infos), wanted.size()));
  if (expected.size() < wanted.size()) {
    return Internal("{} tells of {} outputs, expected {}", def.name,
                    expected.size(), wanted.size());
  }
  std::vector<const TensorType*> types;
  for (const OutputInfo& info : expected) types.push_back(&info.type);
  return EvaluateChecked(attrs, std::move(inputs), types, wanted, options);
}

// The inputs are taken by value although they are only read: an operator may
// write its output over one that has no other owner.
absl::StatusOr<Evaluated> EvaluateChecked(
    const OpAttrs& attrs,
    Tensors inputs,  // NOLINT(performance-unnecessary-value-param)
    absl::Span<const TensorType* const> types, absl::Span<const bool> wanted,
    const EvalArgs::Options& options) {
  const OperatorDef& def = attrs.def();
  EvalArgs args(inputs, wanted, options, types);
  NODEWISE_RETURN_IF_ERROR(def.evaluate(attrs.get(), args));
  NODEWISE_RETURN_IF_ERROR(CheckOutputs(attrs, args));
  Evaluated result{args.TakeOutputs(), std::move(args.all_bounds())};
  if (!options.with_bounds) return result;
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    if (!result.outputs[i].defined()) continue;
    FillBounds(def.bound, result.outputs[i], &result.bounds[i]);
  }
  return result;
}

// No outputs are made, so that the arguments need neither wanted ones nor
// types.
std::optional<LeastBounds> LeastBoundsOf(const OpAttrs& attrs,
                                         const Tensors& inputs) {
  const OperatorDef& def = attrs.def();
  if (def.bound.kind == ErrorBound::Kind::kExact) return LeastBounds();
  if (def.bound.kind == ErrorBound::Kind::kUlps) {
    return LeastBounds{0, 2 * def.bound.ulps};
  }
  if (def.least_bound == nullptr) return std::nullopt;
  const EvalArgs::Options options;
  const EvalArgs args(inputs, {}, options, {});
  return LeastBounds{def.least_bound(attrs.get(), args), 0};
}

// No outputs are made here either, so the arguments need neither wanted ones
// nor types.
absl::StatusOr<std::optional<Bounds>> BoundsAt(
    const OpAttrs& attrs, const Tensors& inputs, const NDArray& output,
    absl::Span<const int64_t> elements) {
  const OperatorDef& def = attrs.def();
  if (def.bounds_at == nullptr) return std::optional<Bounds>();
  const EvalArgs::Options options;
  const EvalArgs args(inputs, {}, options, {});
  Bounds bounds;
  NODEWISE_RETURN_IF_ERROR(
      def.bounds_at(attrs.get(), args, output, elements, &bounds));
  return std::optional<Bounds>(std::move(bounds));
}

}  // namespace nodewise
