#include "contrib/repro/one_node.h"

#include <vector>

namespace nodewise {
namespace {

// Describes a tensor of an entry without memory: for its type alone.
DLTensor TypeOnly(const GraphEntry& entry) {
  DLTensor tensor{};
  tensor.device = kCpu;
  tensor.ndim = static_cast<int32_t>(entry.shape.size());
  tensor.dtype = entry.dtype;
  tensor.shape = const_cast<int64_t*>(entry.shape.data());
  return tensor;
}

}  // namespace

absl::StatusOr<Region> RegionOfNodeIn(const Graph& graph, NodeId id,
                                      const OpSet& operators) {
  const GraphNode& node = graph.node(id);
  std::vector<DLTensor> tensors;
  for (const EntryRef& ref : node.inputs) {
    tensors.push_back(TypeOnly(graph.entry(graph.EntryOf(ref))));
  }
  for (uint32_t slot = 0; slot < graph.OutputsOf(id); ++slot) {
    tensors.push_back(TypeOnly(graph.entry(graph.EntryOf(id, slot))));
  }
  std::vector<const DLTensor*> arguments;
  for (const DLTensor& tensor : tensors) arguments.push_back(&tensor);
  return RegionOf({node.function, node.attrs, arguments, graph.OutputsOf(id)},
                  operators);
}

}  // namespace nodewise
