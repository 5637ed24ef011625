#include <algorithm>
#include <utility>

#include "nodewise/autotest/candidate.h"
#include "nodewise/onednn/onednn.h"
#include "nodewise/onednn/onednn_backward.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// What an operation reads: what the network is given, or a constant.
absl::StatusOr<std::vector<NDArray>> TensorsOf(
    const Network& network, const Operation& operation,
    const std::vector<NDArray>& inputs) {
  std::vector<NDArray> tensors;
  for (const ValueId id : operation.inputs) {
    NDArray& tensor = tensors.emplace_back();
    if (id == kNoValue) continue;
    const auto all = network.inputs();
    const auto place = std::find(all.begin(), all.end(), id);
    tensor = place != all.end()
                 ? inputs[static_cast<size_t>(place - all.begin())]
                 : network.value(id).data;
    if (tensor.defined()) continue;
    return absl::UnimplementedError("an input is made by another operation");
  }
  return tensors;
}

CandidateOutputs RunBackward(const BackwardCase& backward,
                             const std::vector<NDArray>& inputs) {
  const OneDnnThreads one(1);
  const Network& network = backward.forward;
  if (network.order().size() != 1 || network.outputs().size() != 1 ||
      backward.outputs.size() != 1) {
    return absl::UnimplementedError("is not an operation with one output");
  }
  const Operation& operation = network.operation(network.order()[0]);
  if (operation.outputs[0] != network.outputs()[0]) {
    return absl::UnimplementedError("the output is not the first");
  }
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> tensors,
                            TensorsOf(network, operation, inputs));
  std::vector<size_t> wanted;
  for (const size_t input : backward.inputs) {
    const ValueId id = network.inputs()[input];
    const auto& read = operation.inputs;
    const auto slot = std::find(read.begin(), read.end(), id);
    if (std::count(read.begin(), read.end(), id) != 1) {
      return absl::UnimplementedError("an input is not read once");
    }
    wanted.push_back(static_cast<size_t>(slot - read.begin()));
  }
  return RunOneDnnBackward(
      {operation.attrs, tensors, inputs[network.inputs().size()], wanted});
}

}  // namespace

BackwardFunction OneDnnBackward() { return &RunBackward; }

}  // namespace nodewise
