#include "contrib/locate/reference_rest.h"

#include <string>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Nodes that compute nothing: the reference hands their input on.
bool OnlyMoves(const GraphNode& node) {
  return node.function == kNopFunction || node.function == kCopyFunction;
}

// What a region is checked against: types, and no contents.
DLTensor TypeOnly(const GraphEntry& entry) {
  DLTensor tensor{};
  tensor.device = kCpu;
  tensor.dtype = entry.dtype;
  tensor.ndim = static_cast<int>(entry.shape.size());
  tensor.shape = const_cast<int64_t*>(entry.shape.data());
  return tensor;
}

}  // namespace

ReferenceRest::ReferenceRest(const GraphIndex& index, const OpSet& ops)
    : index_(index), graph_(index.graph()), ops_(ops) {
  kernels_.resize(graph_.nodes.size());
}

absl::Status ReferenceRest::Prepare(absl::Span<const NodeId> nodes) {
  for (const NodeId node : nodes) {
    if (kernels_[Index(node)] != nullptr || OnlyMoves(graph_.node(node))) {
      continue;
    }
    auto kernel = MakeKernel(node);
    if (!kernel.ok()) {
      return absl::UnimplementedError(
          fmt::format("{}: {}, so the reference cannot compute it",
                      index_.TitleOf(node), MessageOf(kernel.status())));
    }
    kernels_[Index(node)] = *std::move(kernel);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ReferenceRest::Kernel>>
ReferenceRest::MakeKernel(NodeId id) const {
  const GraphNode& node = graph_.node(id);
  std::vector<DLTensor> types;
  for (const EntryRef& ref : node.inputs) {
    types.push_back(TypeOnly(graph_.entry(graph_.EntryOf(ref))));
  }
  const uint32_t num_outputs = graph_.OutputsOf(id);
  for (uint32_t slot = 0; slot < num_outputs; ++slot) {
    types.push_back(TypeOnly(graph_.entry(graph_.EntryOf(id, slot))));
  }
  std::vector<const DLTensor*> arguments;
  for (const DLTensor& type : types) arguments.push_back(&type);
  NODEWISE_ASSIGN_OR_RETURN(
      Region region,
      RegionOf({node.function, node.attrs, arguments, num_outputs}, ops_));
  return std::make_unique<Kernel>(std::move(region));
}

absl::StatusOr<std::vector<NDArray>> ReferenceRest::Run(
    absl::Span<const NodeId> nodes, ByEntry<NDArray> tensors,
    absl::Span<const EntryId> wanted) {
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
    return absl::NotFoundError(
        fmt::format("the run has not handed out {}", index_.KeyOf(entry)));
  }
  if (OnlyMoves(node)) {
    const EntryId made = graph_.EntryOf(id, 0);
    const GraphEntry& type = graph_.entry(made);
    NODEWISE_ASSIGN_OR_RETURN((*tensors)[made],
                              inputs[0].View(type.shape, type.dtype));
    return absl::OkStatus();
  }
  NODEWISE_ASSIGN_OR_RETURN(
      const std::vector<NDArray> made,
      kernels_[Index(id)]->interpreter.Run(std::move(inputs)));
  for (uint32_t slot = 0; slot < made.size(); ++slot) {
    (*tensors)[graph_.EntryOf(id, slot)] = made[slot];
  }
  return absl::OkStatus();
}

}  // namespace nodewise
