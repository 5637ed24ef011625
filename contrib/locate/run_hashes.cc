#include "contrib/locate/run_hashes.h"

#include <utility>

#include "fmt/format.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

absl::StatusOr<uint64_t> HashOf(const TensorItem& item) {
  if (item.hash.has_value() && item.hash->kind == HashKind::kXxh3) {
    return item.hash->value;
  }
  if (item.tensor == nullptr) {
    return absl::NotFoundError(
        fmt::format("{}: has neither contents nor a hash", item.key.Name()));
  }
  NDArray tensor = NDArray::Borrow(*item.tensor, nullptr);
  if (tensor.device().device_type != kDLCPU || !IsCompact(*item.tensor)) {
    NODEWISE_ASSIGN_OR_RETURN(tensor, tensor.CopyToHost());
  }
  return HashBytes(tensor.data(), tensor.bytes());
}

NodeId FirstWriter(const Graph& graph, const StoragePlan& plan, EntryId victim,
                   NodeId reader) {
  const uint32_t base = plan.base_of[Index(victim)];
  const uint32_t slot = plan.slot_of[base];
  const NodeId maker = graph.NodeOf(EntryId{base});
  for (uint32_t n = Index(maker) + 1; n < Index(reader); ++n) {
    const NodeId node{n};
    if (!graph.IsFunction(node)) continue;
    for (uint32_t i = 0; i < graph.OutputsOf(node); ++i) {
      const uint32_t made = Index(graph.EntryOf(node, i));
      if (plan.slot_of[made] == slot && plan.base_of[made] != base) return node;
    }
  }
  return NodeId{static_cast<uint32_t>(graph.nodes.size())};
}

}  // namespace

HashSink::HashSink(const GraphIndex& index) : index_(index) {
  const Graph& graph = index.graph();
  hashes_.made = ByEntry<RunHashes::Hash>(graph);
  hashes_.read = ByNode<std::vector<RunHashes::Hash>>(graph);
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    nodes_.emplace(index.KeyOf(NodeId{n}), NodeId{n});
    hashes_.read[NodeId{n}].resize(graph.nodes[n].inputs.size());
  }
}

absl::Status HashSink::Take(const TensorItem& item) {
  const auto found = nodes_.find(item.key.node);
  const bool is_known = item.tensor != nullptr || item.hash.has_value();
  if (found == nodes_.end() || !is_known) return absl::OkStatus();
  const NodeId node = found->second;
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t hash, HashOf(item));
  if (item.key.role == TensorRole::kInput) {
    std::vector<RunHashes::Hash>& read = hashes_.read[node];
    if (item.key.slot < read.size()) read[item.key.slot] = hash;
  } else if (item.key.slot < index_.graph().OutputsOf(node)) {
    hashes_.made[index_.graph().EntryOf(node, item.key.slot)] = hash;
  }
  return absl::OkStatus();
}

RunHashes HashSink::Finish(absl::Span<const NamedTensor> outputs) {
  for (const NamedTensor& output : outputs) {
    hashes_.outputs.push_back(
        HashBytes(output.tensor.data(), output.tensor.bytes()));
  }
  return std::move(hashes_);
}

std::vector<Overwriting> FindOverwritten(const GraphIndex& index,
                                         const StoragePlan& plan,
                                         const RunHashes& run) {
  const Graph& graph = index.graph();
  std::vector<Overwriting> found;
  const auto check = [&](const EntryRef& ref, RunHashes::Hash read,
                         NodeId reader) {
    const EntryId entry = graph.EntryOf(ref);
    const RunHashes::Hash made = run.made[EntryId{plan.base_of[Index(entry)]}];
    if (!made.has_value() || !read.has_value() || made == read) return;
    found.push_back({entry, reader, FirstWriter(graph, plan, entry, reader)});
  };
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const GraphNode& node = graph.nodes[n];
    // Nothing is called for a __nop that shares its input's memory.
    if (node.kind != GraphNode::Kind::kFunction || index.IsFree(NodeId{n})) {
      continue;
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      check(node.inputs[i], run.read[NodeId{n}][i], NodeId{n});
    }
  }
  const NodeId end{static_cast<uint32_t>(graph.nodes.size())};
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    check(graph.heads[i], run.outputs[i], end);
  }
  return found;
}

bool IsSteady(const Graph& graph, NodeId node, const RunHashes& run,
              const RunHashes& other) {
  if (run.read[node] != other.read[node]) return true;
  for (uint32_t i = 0; i < graph.OutputsOf(node); ++i) {
    const EntryId entry = graph.EntryOf(node, i);
    if (run.made[entry] != other.made[entry]) return false;
  }
  return true;
}

}  // namespace nodewise
