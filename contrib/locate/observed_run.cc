#include "contrib/locate/observed_run.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "contrib/locate/partial_graph.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/runner/runner.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

absl::StatusOr<uint64_t> HashOf(const TensorItem& item) {
  // Old dumps have hashes of another kind, which no run could be compared with.
  if (item.hash.has_value() && item.hash->kind == HashKind::kXxh3) {
    return item.hash->value;
  }
  if (item.tensor == nullptr) {
    return NotFound("{}: has neither contents nor a hash", item.key.Name());
  }
  NDArray tensor = NDArray::Borrow(*item.tensor, nullptr);
  if (tensor.device().device_type != kDLCPU || !IsCompact(*item.tensor)) {
    NODEWISE_ASSIGN_OR_RETURN(tensor, tensor.CopyToHost());
  }
  return HashBytes(tensor.data(), tensor.bytes());
}

// No run shows who has written there, so the plan must say who may have. The
// first one is named, since the tensor is gone from there on, even if others
// write to that memory later.
NodeId FirstWriter(const Graph& graph, const StoragePlan& plan, EntryId victim,
                   NodeId reader) {
  const uint32_t base = plan.base_of[Index(victim)];
  const uint32_t slot = plan.slot_of[base];
  const NodeId maker = graph.NodeOf(EntryId{base});
  for (const NodeId node : IdRange<NodeId>{Index(maker) + 1, Index(reader)}) {
    if (!graph.IsFunction(node)) continue;
    for (const EntryId entry : EntriesMadeBy(graph, node)) {
      const uint32_t made = Index(entry);
      // Another entry of the same base is the victim itself in another shape.
      if (plan.slot_of[made] == slot && plan.base_of[made] != base) return node;
    }
  }
  return NodeId{static_cast<uint32_t>(graph.nodes.size())};
}

// Hashes and keeps what a run hands out, and hands it on.
struct KeepingSink : public TensorSink {
  KeepingSink(const GraphIndex& index, const ObserveOptions& options,
              ByEntry<NDArray>* kept_tensors, TensorSink* next_sink)
      : nodes(index),
        is_wanted(index.graph()),
        kept(*kept_tensors),
        next(next_sink) {
    if (options.with_hashes) hashes.emplace(index);
    for (const EntryId entry : options.keeps) is_wanted[entry] = true;
  }

  absl::Status Consume(const TensorItem& item) override {
    if (hashes.has_value()) NODEWISE_RETURN_IF_ERROR(hashes->Consume(item));
    const auto entry = nodes.MadeEntryOf(item);
    if (entry.has_value() && is_wanted[*entry] && item.tensor != nullptr) {
      // A new copy is aligned as operators need it.
      NODEWISE_ASSIGN_OR_RETURN(
          kept[*entry], NDArray::Borrow(*item.tensor, nullptr).CopyToHost());
    }
    return next == nullptr ? absl::OkStatus() : next->Consume(item);
  }

  const KeyedNodes nodes;
  std::optional<HashSink> hashes;
  ByEntry<bool> is_wanted;
  ByEntry<NDArray>& kept;
  TensorSink* const next;  // May be null.
};

}  // namespace

KeyedNodes::KeyedNodes(const GraphIndex& index) : graph_(index.graph()) {
  for (const NodeId node : AllNodes(graph_)) {
    nodes_.emplace(index.KeyOf(node), node);
  }
}

std::optional<NodeId> KeyedNodes::NodeOf(const TensorItem& item) const {
  const auto found = nodes_.find(item.key.node);
  if (found == nodes_.end()) return std::nullopt;
  return found->second;
}

std::optional<EntryId> KeyedNodes::MadeEntryOf(const TensorItem& item) const {
  const auto node = NodeOf(item);
  const bool is_made = node.has_value() &&
                       item.key.role != TensorRole::kInput &&
                       item.key.slot < graph_.OutputsOf(*node);
  if (!is_made) return std::nullopt;
  return graph_.EntryOf(*node, item.key.slot);
}

RunHashes::RunHashes(const Graph& graph) : made(graph), read(graph) {
  for (const NodeId node : AllNodes(graph)) {
    read[node].resize(graph.node(node).inputs.size());
  }
}

absl::Status HashSink::Consume(const TensorItem& item) {
  const auto node = nodes_.NodeOf(item);
  const bool is_known = item.tensor != nullptr || item.hash.has_value();
  if (!node.has_value() || !is_known) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const uint64_t hash, HashOf(item));
  if (item.key.role == TensorRole::kInput) {
    std::vector<RunHashes::Hash>& read = hashes_.read[*node];
    if (item.key.slot < read.size()) read[item.key.slot] = hash;
  } else if (const auto entry = nodes_.MadeEntryOf(item)) {
    hashes_.made[*entry] = hash;
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
                                         const RunHashes& run) {
  const Graph& graph = index.graph();
  const StoragePlan& plan = index.plan();
  // Entries that are one tensor were made once, under the entry of its
  // base.
  std::vector<Overwriting> found;
  const auto check = [&](const EntryRef& ref, RunHashes::Hash read,
                         NodeId reader) {
    const EntryId entry = graph.EntryOf(ref);
    const RunHashes::Hash made = run.made[index.BaseOf(entry)];
    if (!made.has_value() || !read.has_value() || made == read) return;
    found.push_back({entry, reader, FirstWriter(graph, plan, entry, reader)});
  };
  for (const NodeId node : FunctionNodesOf(graph)) {
    // Nothing is called for a __nop that shares its input's memory.
    if (index.IsFree(node)) continue;
    const std::vector<EntryRef>& inputs = graph.node(node).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      check(inputs[i], run.read[node][i], node);
    }
  }
  const NodeId end{static_cast<uint32_t>(graph.nodes.size())};
  // The caller reads the outputs last, so that any later node may be the
  // writer.
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    check(graph.heads[i], run.outputs[i], end);
  }
  return found;
}

bool IsSteady(const Graph& graph, NodeId node, const RunHashes& run,
              const RunHashes& other) {
  // A node that reads other bits may well make others: the node that made those
  // is the one that is not steady.
  return run.read[node] != other.read[node] ||
         std::ranges::all_of(EntriesMadeBy(graph, node), [&](EntryId entry) {
           return run.made[entry] == other.made[entry];
         });
}

ObservedRun::ObservedRun(Runner& runner, const GraphIndex& index,
                         const std::vector<NamedTensor>& inputs,
                         ObserveOptions options)
    : runner_(runner),
      index_(index),
      inputs_(inputs),
      options_(std::move(options)) {}

RunOptions ObservedRun::OptionsOfRun() const {
  RunOptions run;
  run.patches = options_.patches;
  run.node_limit_ms = options_.node_limit_ms;
  run.with_node_inputs =
      options_.with_node_inputs && !options_.last.has_value();
  if (!options_.last.has_value()) return run;
  // Where runs have a process of their own, each tensor that is handed out is
  // copied between processes: those that are not kept stay there.
  std::unordered_set<std::string> nodes;
  for (const EntryId entry : options_.keeps) {
    nodes.insert(index_.KeyOf(index_.NodeOf(entry)));
  }
  run.select = [nodes = std::move(nodes)](const std::string& node) {
    return nodes.contains(node);
  };
  if (runner_.Can(Capability::kSteps)) {
    run.stop = StopRule{index_.KeyOf(*options_.last), name(), std::nullopt};
  }
  return run;
}

absl::Status ObservedRun::VisitWith(TensorSink* sink) {
  // Tensors of the visit before are let go first.
  kept_ = ByEntry<NDArray>(index_.graph());
  KeepingSink all(index_, options_, &kept_, sink);
  RunOptions run = OptionsOfRun();
  run.sink = &all;
  auto result = runner_.Run(inputs_, run);
  const absl::Status status = result.status();
  result_ = result.ok() ? *std::move(result) : RunResult();
  // A run that was cut short has hashes all the same, of what came before.
  if (all.hashes.has_value()) hashes_ = all.hashes->Finish(result_.outputs);
  const bool is_cut = options_.may_be_cut && FailureOf(status).has_value();
  return is_cut ? absl::OkStatus() : status;
}

}  // namespace nodewise
