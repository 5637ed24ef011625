#include "contrib/lab/planter/node_call.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

absl::StatusOr<NodeCall> ReadCall(const PackedArgs& args, size_t num_outputs) {
  const auto count = static_cast<size_t>(args.size());
  if (count < num_outputs) {
    return absl::InvalidArgumentError(fmt::format(
        "is called with {} tensors, expected at least {}", count, num_outputs));
  }
  NodeCall call;
  for (size_t i = 0; i < count; ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(static_cast<int>(i)));
    NODEWISE_ASSIGN_OR_RETURN(const DLTensor* const tensor, arg.AsTensor());
    auto& list = i < count - num_outputs ? call.inputs : call.outputs;
    list.push_back(NDArray::Borrow(*tensor, nullptr));
  }
  return call;
}

}  // namespace

absl::Status CallNode(const PackedFunc& function, const NodeCall& call) {
  std::vector<TVMValue> values;
  for (const auto* list : {&call.inputs, &call.outputs}) {
    for (const NDArray& tensor : *list) {
      values.emplace_back().v_handle = tensor.tensor();
    }
  }
  const std::vector<int> codes(values.size(), kTVMDLTensorHandle);
  return function
      .CallPacked({values.data(), codes.data(), static_cast<int>(codes.size())})
      .status();
}

PackedFunc NodeFunction(size_t num_outputs, NodeBody body) {
  return PackedFunc::FromBody(
      [num_outputs, body = std::move(body)](
          const PackedArgs& args) -> absl::StatusOr<Value> {
        NODEWISE_ASSIGN_OR_RETURN(const NodeCall call,
                                  ReadCall(args, num_outputs));
        NODEWISE_RETURN_IF_ERROR(body(call));
        return Value();
      });
}

PackedFunc WithOutputsSpoiled(PackedFunc sound, size_t num_outputs,
                              NodeBody spoil) {
  return NodeFunction(num_outputs,
                      [sound = std::move(sound), spoil = std::move(spoil)](
                          const NodeCall& call) -> absl::Status {
                        NODEWISE_RETURN_IF_ERROR(CallNode(sound, call));
                        return spoil(call);
                      });
}

PackedFunc WithInputsReplaced(
    PackedFunc sound, size_t num_outputs,
    std::function<absl::Status(NodeCall* call)> replace) {
  return NodeFunction(num_outputs,
                      [sound = std::move(sound), replace = std::move(replace)](
                          const NodeCall& call) -> absl::Status {
                        NodeCall changed = call;
                        NODEWISE_RETURN_IF_ERROR(replace(&changed));
                        return CallNode(sound, changed);
                      });
}

void CopyBytes(const NDArray& from, const NDArray& to) {
  const size_t bytes = std::min(from.bytes(), to.bytes());
  if (bytes > 0) std::memmove(to.data(), from.data(), bytes);
}

}  // namespace nodewise
