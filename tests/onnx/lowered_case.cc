#include "tests/onnx/lowered_case.h"

#include <utility>

#include "nodewise/graph/graph_executor.h"
#include "nodewise/lower/lower.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Frozen inputs are small: the data that a network computes with is not frozen.
constexpr size_t kMostFrozenBytes = 8192;

// Makes constants of the small inputs that `is_meant` accepts. What the network
// refuses to freeze stays an input.
template <typename IsMeant>
void FreezeSmall(IsMeant is_meant, Network* network,
                 std::vector<NDArray>* inputs) {
  for (size_t i = inputs->size(); i-- > 0;) {
    const NDArray& input = (*inputs)[i];
    if (input.bytes() > kMostFrozenBytes || !is_meant(i, input.dtype())) {
      continue;
    }
    if (!network->Freeze(network->inputs()[i], input).ok()) continue;
    inputs->erase(inputs->begin() + static_cast<std::ptrdiff_t>(i));
  }
}

absl::StatusOr<Lowered> LowerFrozen(Network* network,
                                    std::vector<NDArray>* inputs) {
  auto lowered = Lower(*network, "graph");
  if (!absl::IsUnimplemented(lowered.status())) return lowered;
  FreezeSmall(
      [](size_t, DLDataType dtype) {
        return dtype.code == kDLInt || dtype == kBool;
      },
      network, inputs);
  lowered = Lower(*network, "graph");
  if (!absl::IsUnimplemented(lowered.status())) return lowered;
  FreezeSmall([](size_t i, DLDataType) { return i > 0; }, network, inputs);
  return Lower(*network, "graph");
}

}  // namespace

absl::StatusOr<Lowered> LowerFor(Network* network,
                                 std::vector<NDArray>* inputs) {
  for (size_t i = 0; i < inputs->size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(network->SetInputType(
        network->inputs()[i], TensorType::From(*(*inputs)[i])));
  }
  return LowerFrozen(network, inputs);
}

absl::StatusOr<std::vector<NDArray>> RunLowered(
    const Graph& graph, Ref<Library> library,
    const std::vector<NamedTensor>& params,
    const std::vector<NDArray>& inputs) {
  NODEWISE_ASSIGN_OR_RETURN(const auto executor,
                            GraphExecutor::Create(graph, std::move(library)));
  NODEWISE_RETURN_IF_ERROR(executor->LoadParams(Params{params}).status());
  for (size_t i = 0; i < inputs.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(executor->SetInput(i, *inputs[i]));
  }
  NODEWISE_RETURN_IF_ERROR(executor->Run());
  std::vector<NDArray> outputs;
  for (size_t i = 0; i < executor->NumOutputs(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray output, executor->GetOutput(i));
    NODEWISE_ASSIGN_OR_RETURN(NDArray copy, output.CopyToHost());
    outputs.push_back(std::move(copy));
  }
  return outputs;
}

absl::StatusOr<std::vector<NDArray>> RunAsGraph(Network network,
                                                std::vector<NDArray> inputs,
                                                Backend backend) {
  NODEWISE_ASSIGN_OR_RETURN(const Lowered lowered, LowerFor(&network, &inputs));
  return RunLowered(lowered.graph, BuiltInFunctions(AllOperators(), backend),
                    lowered.params, inputs);
}

}  // namespace nodewise
