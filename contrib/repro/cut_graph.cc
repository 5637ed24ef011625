#include "contrib/repro/cut_graph.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "contrib/repro/one_node.h"
#include "contrib/repro/repro_names.h"
#include "fmt/format.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/runner/node_graph.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

bool Has(const std::vector<EntryId>& entries, EntryId entry) {
  return std::find(entries.begin(), entries.end(), entry) != entries.end();
}

class Cutter {
 public:
  Cutter(const Graph& graph, const GraphCut& cut,
         absl::FunctionRef<std::string(const CutInput& input)> name_of)
      : graph_(graph), cut_(cut), name_of_(name_of) {
    // A library may have data for the ids that the graph uses (TVM 0.8).
    for (const GraphEntry& entry : graph.entries) {
      next_storage_id_ = std::max(next_storage_id_, entry.storage_id + 1);
    }
  }

  absl::StatusOr<GraphOfCut> Cut() {
    AddInputsOf(cut_.nodes.back());
    for (const NodeId node : cut_.nodes) {
      if (node != cut_.nodes.back()) AddInputsOf(node);
    }
    for (const NodeId node : cut_.nodes) AddNode(node);
    Graph& made = result_.graph;
    made.node_row_ptr.push_back(static_cast<uint32_t>(made.entries.size()));
    for (const EntryId head : cut_.heads) made.heads.push_back(made_.at(head));
    made.has_device_index = graph_.has_device_index;
    if (HasBuiltInFunctions(graph_)) SetBuiltInFunctions(&made);
    NODEWISE_ASSIGN_OR_RETURN(made, ReadBack(made));
    return std::move(result_);
  }

 private:
  void AddEntry(EntryId entry, bool may_share) {
    Graph& made = result_.graph;
    made.entries.push_back(graph_.entry(entry));
    int32_t& id = made.entries.back().storage_id;
    if (!may_share || !Has(cut_.shared, entry)) {
      id = next_storage_id_++;
      return;
    }
    const auto [found, is_new] = shared_ids_.emplace(id, next_storage_id_);
    if (is_new) ++next_storage_id_;
    id = found->second;
  }

  void AddInputsOf(NodeId node) {
    const std::vector<EntryRef>& refs = graph_.node(node).inputs;
    for (uint32_t slot = 0; slot < refs.size(); ++slot) {
      const EntryId entry = graph_.EntryOf(refs[slot]);
      const bool is_linked = Has(cut_.linked, entry);
      const bool is_made =
          is_linked && graph_.IsFunction(NodeId{refs[slot].node});
      if (is_made || (is_linked && made_.contains(entry))) continue;
      // A tensor that is handed in from outside lies nowhere in the network.
      const EntryRef input = AddInput({node, slot}, entry, is_linked);
      if (is_linked) made_[entry] = input;
      given_[{node, slot}] = input;
    }
  }

  EntryRef AddInput(const CutInput& input, EntryId entry, bool may_share) {
    Graph& made = result_.graph;
    const auto number = static_cast<uint32_t>(made.nodes.size());
    GraphNode node;
    node.name = name_of_(input);
    made.nodes.push_back(std::move(node));
    made.arg_nodes.push_back(number);
    made.node_row_ptr.push_back(static_cast<uint32_t>(made.entries.size()));
    AddEntry(entry, may_share);
    result_.inputs.push_back(input);
    return {number, 0, 0};
  }

  void AddNode(NodeId id) {
    Graph& made = result_.graph;
    const auto number = static_cast<uint32_t>(made.nodes.size());
    GraphNode node = graph_.node(id);
    node.control_deps.clear();
    for (uint32_t slot = 0; slot < node.inputs.size(); ++slot) {
      const auto given = given_.find({id, slot});
      node.inputs[slot] = given != given_.end()
                              ? given->second
                              : made_.at(graph_.EntryOf(node.inputs[slot]));
    }
    made.nodes.push_back(std::move(node));
    made.node_row_ptr.push_back(static_cast<uint32_t>(made.entries.size()));
    for (uint32_t slot = 0; slot < graph_.OutputsOf(id); ++slot) {
      const EntryId entry = graph_.EntryOf(id, slot);
      AddEntry(entry, true);
      made_[entry] = {number, slot, 0};
    }
  }

  const Graph& graph_;
  const GraphCut& cut_;
  const absl::FunctionRef<std::string(const CutInput& input)> name_of_;
  int32_t next_storage_id_ = 0;
  std::map<int32_t, int32_t> shared_ids_;
  std::map<EntryId, EntryRef> made_;
  std::map<std::pair<NodeId, uint32_t>, EntryRef> given_;
  GraphOfCut result_;
};

// Keeps what nodes read.
class ReadSink : public TensorSink {
 public:
  ReadSink(const GraphIndex& index, absl::Span<const NodeId> nodes) {
    for (const NodeId node : nodes) {
      nodes_.emplace(index.KeyOf(node), node);
      reads_[node].resize(index.graph().node(node).inputs.size());
    }
  }

  bool Wants(const std::string& key) const { return nodes_.contains(key); }

  absl::Status Take(const TensorItem& item) override {
    const auto found = nodes_.find(item.key.node);
    if (found == nodes_.end() || item.key.role != TensorRole::kInput) {
      return absl::OkStatus();
    }
    std::vector<NDArray>& read = reads_[found->second];
    if (item.key.slot >= read.size()) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(read[item.key.slot], item.Keep());
    return absl::OkStatus();
  }

  std::map<NodeId, std::vector<NDArray>>& reads() { return reads_; }

 private:
  std::unordered_map<std::string, NodeId> nodes_;  // By key.
  std::map<NodeId, std::vector<NDArray>> reads_;
};

}  // namespace

absl::StatusOr<GraphOfCut> CutNodes(
    const Graph& graph, const GraphCut& cut,
    absl::FunctionRef<std::string(const CutInput& input)> name_of) {
  return Cutter(graph, cut, name_of).Cut();
}

absl::StatusOr<std::map<NodeId, std::vector<NDArray>>> ReadsOf(
    const GraphIndex& index, absl::Span<const NodeId> nodes, Runner& runner,
    absl::Span<const NamedTensor> inputs) {
  ReadSink sink(index, nodes);
  RunOptions options;
  options.sink = &sink;
  options.with_node_inputs = true;
  options.select = [&](const std::string& node) { return sink.Wants(node); };
  NODEWISE_RETURN_IF_ERROR(runner.Run(inputs, options).status());
  for (const auto& [node, read] : sink.reads()) {
    for (size_t slot = 0; slot < read.size(); ++slot) {
      if (read[slot].defined()) continue;
      return absl::NotFoundError(
          fmt::format("{}: input {}: the run has not handed it out",
                      index.TitleOf(node), slot));
    }
  }
  return std::move(sink.reads());
}

ReproInput InputNames::Describe(const CutInput& input) {
  const Graph& graph = source_.index.graph();
  const GraphNode& node = graph.node(input.node);
  const auto region = RegionOfNodeIn(graph, input.node, source_.operators);
  const NodeRoles roles =
      RolesOf(region.ok() ? &*region : nullptr, node.inputs.size(),
              graph.OutputsOf(input.node));
  const GraphNode& maker = graph.nodes[node.inputs[input.slot].node];
  ReproInput described;
  described.role = roles.inputs[input.slot];
  described.name = fmt::format("input_{}_{}", described.role,
                               PlainName(source_.index.KeyOf(input.node)));
  // Two nodes may have one plain name.
  const int uses = ++uses_[described.name];
  if (uses > 1) described.name += fmt::format("__{}", uses);
  described.is_param = maker.kind == GraphNode::Kind::kInput &&
                       std::find(source_.params.begin(), source_.params.end(),
                                 maker.name) != source_.params.end();
  return described;
}

}  // namespace nodewise
