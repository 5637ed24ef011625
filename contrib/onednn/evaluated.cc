#include "contrib/onednn/evaluated.h"

#include "nodewise/op/evaluate.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::onednn {
namespace {

// A tensor with its channels last, seen as [N, C, ...].
struct PlainView {
  DLTensor tensor;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;

  PlainView(const NDArray& data, const std::vector<int64_t>& sizes)
      : tensor(*data), shape(sizes), strides(sizes.size()) {
    int64_t stride = sizes[1];
    for (size_t side = sizes.size(); side-- > 0;) {
      if (side == 1) continue;
      strides[side] = stride;
      stride *= sizes[side];
    }
    strides[1] = 1;
    tensor.ndim = static_cast<int>(shape.size());
    tensor.shape = shape.data();
    tensor.strides = strides.data();
  }
  PlainView(const PlainView&) = delete;
};

bool IsPlain(TensorLayout layout, const TensorType& type) {
  return layout == TensorLayout::kPlain || type.rank() < 3;
}

absl::StatusOr<NDArray> ReadInput(const OneDnnInput& input,
                                  const NDArray& given) {
  if (!input.type.has_dtype()) return NDArray();
  if (input.constant.defined()) return input.constant;
  if (IsPlain(input.layout, input.type)) {
    // The evaluation may overwrite a tensor that has no other owner.
    return NDArray::Borrow(*given, std::make_shared<NDArray>(given));
  }
  const std::vector<int64_t> sizes = *input.type.sizes();
  const PlainView view(given, sizes);
  NODEWISE_ASSIGN_OR_RETURN(NDArray plain,
                            NDArray::Empty(sizes, input.type.dtype, kCpu));
  NODEWISE_RETURN_IF_ERROR(CopyTensor(view.tensor, *plain));
  return plain;
}

absl::StatusOr<NDArray> First(const OpAttrs& op, Tensors inputs) {
  NODEWISE_ASSIGN_OR_RETURN(const Evaluated evaluated,
                            Evaluate(op, std::move(inputs), {true}));
  return evaluated.outputs[0];
}

}  // namespace

absl::Status EvaluateCall(const OneDnnCall& call,
                          absl::Span<const NDArray> inputs,
                          const NDArray& output) {
  size_t next = 0;
  Tensors tensors;
  for (const OneDnnInput& input : call.inputs) {
    NODEWISE_ASSIGN_OR_RETURN(tensors.emplace_back(),
                              ReadInput(input, inputs[next++]));
  }
  NODEWISE_ASSIGN_OR_RETURN(NDArray result, First(call.op, std::move(tensors)));
  for (const OneDnnPostOp& post_op : call.post_ops) {
    tensors = {std::move(result)};
    for (const OneDnnInput& other : post_op.others) {
      NODEWISE_ASSIGN_OR_RETURN(tensors.emplace_back(),
                                ReadInput(other, inputs[next++]));
    }
    NODEWISE_ASSIGN_OR_RETURN(result, First(post_op.op, std::move(tensors)));
  }
  if (!IsOfType(result, call.output)) {
    return absl::InvalidArgumentError("the call's output is of another type");
  }
  if (IsPlain(call.output_layout, call.output)) {
    return CopyTensor(*result, *output);
  }
  const PlainView view(output, *call.output.sizes());
  return CopyTensor(*result, view.tensor);
}

}  // namespace nodewise::onednn
