#include "tests/measure/node_tensors.h"

#include <set>
#include <utility>

#include "nodewise/graph/graph_index.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status.h"
#include "nodewise/tensors/tensor_collector.h"

namespace nodewise {

absl::StatusOr<NodeTensors> TensorsOf(const SubjectTarget& target, NodeId node,
                                      const std::vector<NamedTensor>& inputs) {
  const Graph& graph = target.target->graph();
  const std::string key = GraphIndex(graph).KeyOf(node);
  NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker maker, target.Maker());
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, maker());
  TensorCollector collector;
  RunOptions run;
  run.sink = &collector;
  run.select = [&](const std::string& name) { return name == key; };
  run.with_node_inputs = true;
  NODEWISE_RETURN_IF_ERROR(runner->Run(inputs, run).status());
  NodeTensors found;
  found.inputs.resize(graph.node(node).inputs.size());
  found.outputs.resize(graph.OutputsOf(node));
  for (const TensorCollector::Kept& kept : collector.kept()) {
    auto& list =
        kept.key.role == TensorRole::kInput ? found.inputs : found.outputs;
    if (kept.key.slot >= list.size()) continue;
    NODEWISE_ASSIGN_OR_RETURN(list[kept.key.slot], kept.tensor.CopyToHost());
  }
  return found;
}

absl::StatusOr<std::vector<NDArray>> OutputsOn(
    const SubjectTarget& target, NodeId node,
    const std::vector<NDArray>& node_inputs,
    const std::vector<NamedTensor>& inputs) {
  const Graph& graph = target.target->graph();
  const GraphIndex index(graph);
  NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker maker, target.Maker());
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, maker());
  RunOptions run;
  run.stop = StopRule{index.KeyOf(node), "the node", std::nullopt};
  std::set<EntryId> patched;
  for (size_t i = 0; i < node_inputs.size(); ++i) {
    const EntryId entry = graph.EntryOf(graph.node(node).inputs[i]);
    if (!patched.insert(entry).second) continue;
    run.patches.push_back(
        {index.KeyOf(entry), node_inputs[i], "drawn", index.KeyOf(node)});
  }
  NODEWISE_ASSIGN_OR_RETURN(const RunResult result, runner->Run(inputs, run));
  std::vector<NDArray> made;
  for (const NamedTensor& output : result.outputs) {
    made.push_back(output.tensor);
  }
  return made;
}

absl::StatusOr<Region> RegionOfNode(const Graph& graph, NodeId node,
                                    const NodeTensors& tensors) {
  std::vector<const DLTensor*> arguments;
  for (const auto* list : {&tensors.inputs, &tensors.outputs}) {
    for (const NDArray& tensor : *list) arguments.push_back(tensor.tensor());
  }
  const GraphNode& called = graph.node(node);
  return RegionOf(
      {called.function, called.attrs, arguments, tensors.outputs.size()},
      AllOperators());
}

}  // namespace nodewise
