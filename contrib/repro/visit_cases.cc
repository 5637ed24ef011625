#include <map>
#include <unordered_map>
#include <utility>

#include "contrib/repro/cut_graph.h"
#include "nodewise/repro/repro_case.h"
#include "nodewise/runner/node_graph.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Runs a network and hands a sink what these nodes, by key, read and made.
absl::Status RunWith(Runner& runner, absl::Span<const NamedTensor> inputs,
                     std::function<bool(const std::string& node)> wants,
                     TensorSink* sink) {
  return runner
      .Run(inputs,
           {.sink = sink, .select = std::move(wants), .with_node_inputs = true})
      .status();
}

struct ReadSink : public TensorSink {
  absl::Status Consume(const TensorItem& item) override {
    const auto found = nodes.find(item.key.node);
    if (found == nodes.end() || item.key.role != TensorRole::kInput) {
      return absl::OkStatus();
    }
    std::vector<NDArray>& read = reads[found->second];
    // The tensor is copied, unless it lasts: later nodes write over it.
    if (item.key.slot >= read.size()) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(read[item.key.slot], item.Keep());
    return absl::OkStatus();
  }

  std::unordered_map<std::string, NodeId> nodes;  // By key.
  std::map<NodeId, std::vector<NDArray>> reads;
};

absl::StatusOr<ReproCase> CutOut(const ReproSource& source, NodeId id) {
  const Graph& graph = source.index.graph();
  ReproCase cut = CaseOf(source, id);
  cut.may_run = source.may_run == nullptr || source.may_run(id);
  auto region = RegionOfNode(graph, id, source.operators);
  if (region.ok()) {
    cut.region = *std::move(region);
  } else {
    cut.why_no_region = std::string(MessageOf(region.status()));
  }
  const auto count = static_cast<uint32_t>(graph.node(id).inputs.size());
  const NodeRoles roles =
      RolesOf(cut.region ? &*cut.region : nullptr, count, graph.OutputsOf(id));
  InputNames describer(source);
  std::vector<std::string> names;
  for (uint32_t slot = 0; slot < count; ++slot) {
    cut.inputs.push_back(describer.Describe({id, slot}, roles));
    names.push_back(cut.inputs.back().name);
  }
  for (const std::string& role : roles.outputs) {
    cut.outputs.push_back({role, NDArray()});
  }
  NODEWISE_ASSIGN_OR_RETURN(cut.graph, GraphOfNode(graph, id, names));
  return cut;
}

// Cuts a node out when the run comes to it, and hands it on when it has run.
// One node's tensors are in memory at a time: they are let go when its case has
// been handed on.
class CaseSink : public TensorSink {
 public:
  CaseSink(const ReproSource& source,
           absl::FunctionRef<absl::Status(ReproCase node_case)> visit)
      : source_(source), graph_(source.index.graph()), visit_(visit) {}

  void Expect(NodeId node) { nodes_[source_.index.KeyOf(node)] = node; }
  bool Expects(const std::string& key) const { return nodes_.count(key) > 0; }

  absl::Status Consume(const TensorItem& item) override {
    const auto found = nodes_.find(item.key.node);
    if (found == nodes_.end()) return absl::OkStatus();
    std::vector<NDArray>& read = read_[item.key.node];
    read.resize(graph_.node(found->second).inputs.size());
    if (item.key.role == TensorRole::kInput) {
      if (item.key.slot >= read.size()) return absl::OkStatus();
      NODEWISE_ASSIGN_OR_RETURN(read[item.key.slot], item.Keep());
      return absl::OkStatus();
    }
    // The last output says that the node has run.
    if (item.key.slot + 1 != graph_.OutputsOf(found->second)) {
      return absl::OkStatus();
    }
    const NodeId node = found->second;
    const std::vector<NDArray> inputs = std::move(read);
    read_.erase(item.key.node);
    nodes_.erase(found);
    return At(source_.index.TitleOf(node), Finish(node, inputs));
  }

  absl::Status CheckComplete() const {
    if (nodes_.empty()) return absl::OkStatus();
    return NotFound("{}: the run has not come to it",
                    source_.index.TitleOf(nodes_.begin()->second));
  }

 private:
  absl::Status Finish(NodeId node, const std::vector<NDArray>& inputs) {
    NODEWISE_ASSIGN_OR_RETURN(ReproCase cut, CutOut(source_, node));
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined()) {
        return NotFound("input {}: the run has not handed it out", i);
      }
      cut.inputs[i].tensor = inputs[i];
    }
    NODEWISE_RETURN_IF_ERROR(Judge(&cut));
    return visit_(std::move(cut));
  }

  // A case that the reference cannot compute is handed on all the same.
  static absl::Status Judge(ReproCase* cut) {
    const absl::Status judged = JudgeCase(cut);
    if (judged.ok() || !cut->region) return judged;
    // Without memory now the case is not judged at all: another time there may
    // be memory, and the folder would say less for ever.
    if (absl::IsResourceExhausted(judged)) return judged;
    cut->region.reset();
    cut->why_no_region = std::string(MessageOf(judged));
    return JudgeCase(cut);
  }

  const ReproSource& source_;
  const Graph& graph_;
  const absl::FunctionRef<absl::Status(ReproCase node_case)> visit_;
  std::map<std::string, NodeId> nodes_;  // Still to come, by key.
  std::map<std::string, std::vector<NDArray>> read_;
};

}  // namespace

absl::StatusOr<std::map<NodeId, std::vector<NDArray>>> ReadsOf(
    const GraphIndex& index, absl::Span<const NodeId> nodes, Runner& runner,
    absl::Span<const NamedTensor> inputs) {
  ReadSink sink;
  for (const NodeId node : nodes) {
    sink.nodes.emplace(index.KeyOf(node), node);
    sink.reads[node].resize(index.graph().node(node).inputs.size());
  }
  const auto wants = [&](const std::string& key) {
    return sink.nodes.contains(key);
  };
  NODEWISE_RETURN_IF_ERROR(RunWith(runner, inputs, wants, &sink));
  for (const auto& [node, read] : sink.reads) {
    for (size_t slot = 0; slot < read.size(); ++slot) {
      if (read[slot].defined()) continue;
      return NotFound("{}: input {}: the run has not handed it out",
                      index.TitleOf(node), slot);
    }
  }
  return std::move(sink.reads);
}

absl::Status VisitCases(
    const ReproSource& source, absl::Span<const NodeId> nodes, Runner& runner,
    absl::Span<const NamedTensor> inputs,
    absl::FunctionRef<absl::Status(ReproCase node_case)> visit) {
  CaseSink sink(source, visit);
  for (const NodeId node : nodes) {
    if (!source.index.graph().IsFunction(node)) {
      return InvalidArgument("{}: is an input, expected a node that computes",
                             source.index.TitleOf(node));
    }
    sink.Expect(node);
  }
  const auto wants = [&](const std::string& key) { return sink.Expects(key); };
  NODEWISE_RETURN_IF_ERROR(RunWith(runner, inputs, wants, &sink));
  return sink.CheckComplete();
}

}  // namespace nodewise
