#include "contrib/ops/util/body_loops.h"

#include <algorithm>

#include "contrib/ops/util/tensor_moves.h"
#include "fmt/format.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

absl::Status CheckBody(const char* attribute, const Subgraph& body,
                       size_t inputs) {
  if (body.body == nullptr) return AttributeError(attribute, "has no graph");
  const size_t found = body.body->inputs().size();
  if (found == inputs + body.captures) return absl::OkStatus();
  return AttributeError(
      attribute, fmt::format("has {} inputs, expected {} and {} captured",
                             found, inputs, body.captures));
}

absl::Status RequireBodyType(const Inputs& in, size_t slot,
                             const Subgraph& body, size_t number) {
  const TensorType& wanted = body.body->value(body.body->inputs()[number]).type;
  if (AreCompatible(in.type(slot), wanted)) return absl::OkStatus();
  return InputError(slot,
                    fmt::format("is {}, expected {}, as the body has it",
                                ToString(in.type(slot)), ToString(wanted)));
}

absl::Status RequireCount(const Inputs& in, size_t count) {
  if (in.size() == count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("has {} inputs, expected {}", in.size(), count));
}

std::vector<TensorType> OutputTypesOf(const Subgraph& body) {
  std::vector<TensorType> types;
  for (const ValueId id : body.body->outputs()) {
    types.push_back(body.body->value(id).type);
  }
  return types;
}

absl::StatusOr<std::vector<NDArray>> RunBody(EvalArgs& args,
                                             const Subgraph& body,
                                             std::vector<NDArray> inputs,
                                             size_t first) {
  if (!args.run_body()) {
    return absl::FailedPreconditionError(
        "has a body, which only an interpreter runs");
  }
  for (size_t i = 0; i < body.captures; ++i) {
    inputs.push_back(args.in(first + i));
  }
  auto outputs = args.run_body()(body, std::move(inputs));
  if (!outputs.ok()) return At("body", outputs.status());
  if (outputs->size() == body.body->outputs().size()) return outputs;
  return absl::InternalError(fmt::format("body: made {} outputs of {}",
                                         outputs->size(),
                                         body.body->outputs().size()));
}

TensorType Stacked(TensorType type, int64_t axis, const Dim& count) {
  if (!type.has_rank()) return type;
  const auto at = Axis(axis, type.rank() + 1);
  // Names of a body mean another number in each trip.
  for (Dim& side : *type.shape) {
    if (!side.is_known()) side = Dim();
  }
  if (!at.ok()) return TensorType(type.dtype);
  type.shape->insert(type.shape->begin() + *at, count);
  return type;
}

absl::Status StackOutput(EvalArgs& args, size_t i,
                         const std::vector<NDArray>& elements, int64_t axis,
                         const TensorType& type) {
  std::vector<int64_t> shape;
  DLDataType dtype = type.dtype;
  if (!elements.empty()) {
    shape.assign(elements[0].shape().begin(), elements[0].shape().end());
    dtype = elements[0].dtype();
  } else {
    const Shape sides = type.shape.value_or(Shape());
    for (const Dim& side : sides) {
      shape.push_back(side.is_known() ? side.size() : 0);
    }
  }
  NODEWISE_ASSIGN_OR_RETURN(const int at,
                            Axis(axis, static_cast<int>(shape.size()) + 1));
  shape.insert(shape.begin() + at, static_cast<int64_t>(elements.size()));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(i, shape, dtype));
  std::vector<int64_t> strides = StridesOf(shape);
  const int64_t step = strides[static_cast<size_t>(at)];
  strides.erase(strides.begin() + at);
  for (size_t trip = 0; trip < elements.size(); ++trip) {
    const NDArray& element = elements[trip];
    if (!(element.dtype() == dtype) || element.shape() != elements[0].shape()) {
      return AttributeError(
          "body", fmt::format("makes {} in trip {}, but {} in the first one",
                              ToString(TensorType::Of(*element)), trip,
                              ToString(TensorType::Of(*elements[0]))));
    }
    CopyStrided({{element.shape().begin(), element.shape().end()},
                 StridesOf(element.shape()),
                 strides,
                 0,
                 static_cast<int64_t>(trip) * step},
                element, y);
  }
  return absl::OkStatus();
}

absl::StatusOr<NDArray> SliceAt(const NDArray& tensor, int axis,
                                int64_t index) {
  std::vector<int64_t> sides(tensor.shape().begin(), tensor.shape().end());
  std::vector<int64_t> strides = StridesOf(sides);
  const int64_t begin = index * strides[static_cast<size_t>(axis)];
  sides.erase(sides.begin() + axis);
  strides.erase(strides.begin() + axis);
  NODEWISE_ASSIGN_OR_RETURN(const NDArray slice,
                            NDArray::Empty(sides, tensor.dtype(), kCpu));
  CopyStrided({sides, strides, StridesOf(sides), begin, 0}, tensor, slice);
  return slice;
}

}  // namespace nodewise
