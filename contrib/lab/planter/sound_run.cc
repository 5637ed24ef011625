#include "contrib/lab/planter/sound_run.h"

#include <utility>

#include "nodewise/graph/graph_executor.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/random/random.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// The graph with every entry of a function as an output, in memory of its own.
Graph WithAllOutputs(Graph graph) {
  graph.heads.clear();
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    for (uint32_t slot = 0; slot < graph.OutputsOf(NodeId{n}); ++slot) {
      const EntryId entry = graph.EntryOf(NodeId{n}, slot);
      graph.entries[Index(entry)].storage_id =
          static_cast<int32_t>(Index(entry));
      if (graph.IsFunction(NodeId{n})) graph.heads.push_back({n, slot});
    }
  }
  return graph;
}

const NDArray* FindTensor(const std::vector<NamedTensor>& tensors,
                          const std::string& name) {
  for (const NamedTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor.tensor;
  }
  return nullptr;
}

// Integers may be indices, and those that are always in range are 0 and 1.
absl::StatusOr<NDArray> DrawnInput(const TensorInfo& info, uint64_t seed) {
  RandomSource random(seed, info.name);
  NODEWISE_ASSIGN_OR_RETURN(const NDArray drawn,
                            RandomTensor(random, info.shape, info.dtype));
  if (!IsInteger(info.dtype)) return drawn;
  std::vector<double> values = ToDoubles(drawn);
  for (double& value : values)
    value = static_cast<double>(random.Between(0, 1));
  StoreDoubles(values.data(), 0, static_cast<int64_t>(values.size()), drawn);
  return drawn;
}

absl::Status SetAllInputs(const PlanterOptions& options,
                          GraphExecutor* executor) {
  for (size_t i = 0; i < executor->NumInputs(); ++i) {
    const TensorInfo info = executor->InputInfo(i);
    const NDArray* given = FindTensor(options.inputs, info.name);
    if (given == nullptr) given = FindTensor(options.params, info.name);
    NDArray drawn;
    if (given == nullptr) {
      NODEWISE_ASSIGN_OR_RETURN(drawn, DrawnInput(info, options.input_seed));
      given = &drawn;
    }
    NODEWISE_RETURN_IF_ERROR(executor->SetInput(i, **given));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<NDArray>> RunSoundly(const Graph& graph,
                                                const Ref<Library>& library,
                                                const PlanterOptions& options) {
  NODEWISE_ASSIGN_OR_RETURN(
      const auto executor,
      GraphExecutor::Create(WithAllOutputs(graph), library));
  NODEWISE_RETURN_IF_ERROR(SetAllInputs(options, executor.get()));
  NODEWISE_RETURN_IF_ERROR(executor->Run());
  std::vector<NDArray> held(graph.entries.size());
  for (size_t i = 0; i < graph.arg_nodes.size(); ++i) {
    const EntryId entry = graph.EntryOf(NodeId{graph.arg_nodes[i]}, 0);
    NODEWISE_ASSIGN_OR_RETURN(const NDArray input, executor->GetInput(i));
    NODEWISE_ASSIGN_OR_RETURN(held[Index(entry)], input.CopyToHost());
  }
  const std::vector<EntryRef>& heads = executor->graph().heads;
  for (size_t i = 0; i < heads.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray output, executor->GetOutput(i));
    NODEWISE_ASSIGN_OR_RETURN(held[Index(graph.EntryOf(heads[i]))],
                              output.CopyToHost());
  }
  return held;
}

}  // namespace nodewise
