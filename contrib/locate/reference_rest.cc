#include "contrib/locate/reference_rest.h"

#include <cstdint>
#include <utility>

#include "nodewise/runner/node_graph.h"
#include "nodewise/support/status.h"

namespace nodewise {

absl::Status ReferenceRest::Prepare(absl::Span<const NodeId> nodes) {
  for (const NodeId node : nodes) {
    if (kernels_[node] != nullptr || !CallsLibrary(graph_.node(node))) continue;
    auto region = RegionOfNode(graph_, node, ops_);
    if (!region.ok()) {
      return Unimplemented("{}: {}, so the reference cannot compute it",
                           index_.TitleOf(node), MessageOf(region.status()));
    }
    kernels_[node] = std::make_shared<const Kernel>(*std::move(region));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NDArray>> ReferenceRest::Run(
    absl::Span<const NodeId> nodes, ByEntry<NDArray> tensors,
    absl::Span<const EntryId> wanted) {
  // A tensor that is wanted is never let go.
  constexpr size_t kToTheEnd = SIZE_MAX;
  ByEntry<size_t> last_read(graph_);
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const EntryRef& ref : graph_.node(nodes[i]).inputs) {
      last_read[graph_.EntryOf(ref)] = i;
    }
  }
  for (const EntryId entry : wanted) last_read[entry] = kToTheEnd;
  for (size_t i = 0; i < nodes.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(
        At("the reference",
           At(index_.TitleOf(nodes[i]), Compute(nodes[i], &tensors))));
    for (const EntryRef& ref : graph_.node(nodes[i]).inputs) {
      const EntryId entry = graph_.EntryOf(ref);
      if (last_read[entry] <= i) tensors[entry] = NDArray();
    }
  }
  std::vector<NDArray> outputs;
  for (const EntryId entry : wanted) outputs.push_back(tensors[entry]);
  return outputs;
}

absl::Status ReferenceRest::Compute(NodeId id,
                                    ByEntry<NDArray>* tensors) const {
  const GraphNode& node = graph_.node(id);
  std::vector<NDArray> inputs;
  for (const EntryRef& ref : node.inputs) {
    const EntryId entry = graph_.EntryOf(ref);
    inputs.push_back((*tensors)[entry]);
    if (inputs.back().defined()) continue;
    return NotFound("the run has not handed out {}", index_.KeyOf(entry));
  }
  // The reference hands the input of a node on that computes nothing.
  if (!CallsLibrary(node)) {
    const EntryId made = graph_.EntryOf(id, 0);
    const GraphEntry& type = graph_.entry(made);
    NODEWISE_ASSIGN_OR_RETURN((*tensors)[made],
                              inputs[0].View(type.shape, type.dtype));
    return absl::OkStatus();
  }
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> made,
                            kernels_[id]->interpreter.Run(std::move(inputs)));
  for (uint32_t slot = 0; slot < made.size(); ++slot) {
    (*tensors)[graph_.EntryOf(id, slot)] = made[slot];
  }
  return absl::OkStatus();
}

}  // namespace nodewise
