#include <map>
#include <set>
#include <utility>

#include "contrib/repro/one_node.h"
#include "contrib/repro/repro_names.h"
#include "fmt/format.h"
#include "nodewise/repro/repro_case.h"
#include "nodewise/runner/node_graph.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

absl::StatusOr<ReproCase> CutOut(const ReproSource& source, NodeId id) {
  const Graph& graph = source.index.graph();
  ReproCase cut;
  cut.node = source.index.KeyOf(id);
  cut.layer = PlainName(cut.node);
  cut.library = source.library;
  cut.library_file = source.library_file;
  cut.may_run = source.may_run == nullptr || source.may_run(id);
  auto region = RegionOfNodeIn(graph, id, source.operators);
  if (region.ok()) {
    cut.region = *std::move(region);
  } else {
    cut.why_no_region = std::string(MessageOf(region.status()));
  }
  const GraphNode& node = graph.node(id);
  const NodeRoles roles =
      RolesOf(cut.region.has_value() ? &*cut.region : nullptr,
              node.inputs.size(), graph.OutputsOf(id));
  const std::set<std::string> params(source.params.begin(),
                                     source.params.end());
  std::vector<std::string> names;
  for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
    const GraphNode& maker = graph.nodes[node.inputs[slot].node];
    ReproInput input;
    input.role = roles.inputs[slot];
    input.name = fmt::format("input_{}_{}", input.role, cut.layer);
    input.is_param =
        maker.kind == GraphNode::Kind::kInput && params.count(maker.name) > 0;
    names.push_back(input.name);
    cut.inputs.push_back(std::move(input));
  }
  for (const std::string& role : roles.outputs) {
    cut.outputs.push_back({role, NDArray()});
  }
  NODEWISE_ASSIGN_OR_RETURN(cut.graph, GraphOfNode(graph, id, names));
  return cut;
}

// Cuts a node out when the run comes to it, and hands it on when it has run.
class CaseSink : public TensorSink {
 public:
  CaseSink(const ReproSource& source,
           absl::FunctionRef<absl::Status(ReproCase node_case)> visit)
      : source_(source), graph_(source.index.graph()), visit_(visit) {}

  void Expect(NodeId node) { nodes_[source_.index.KeyOf(node)] = node; }
  bool Expects(const std::string& key) const { return nodes_.count(key) > 0; }

  absl::Status Take(const TensorItem& item) override {
    const auto found = nodes_.find(item.key.node);
    if (found == nodes_.end()) return absl::OkStatus();
    std::vector<NDArray>& read = read_[item.key.node];
    read.resize(graph_.node(found->second).inputs.size());
    if (item.key.role == TensorRole::kInput) {
      if (item.key.slot >= read.size()) return absl::OkStatus();
      NODEWISE_ASSIGN_OR_RETURN(read[item.key.slot], item.Keep());
      return absl::OkStatus();
    }
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
    return absl::NotFoundError(
        fmt::format("{}: the run has not come to it",
                    source_.index.TitleOf(nodes_.begin()->second)));
  }

 private:
  absl::Status Finish(NodeId node, const std::vector<NDArray>& inputs) {
    NODEWISE_ASSIGN_OR_RETURN(ReproCase cut, CutOut(source_, node));
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined()) {
        return absl::NotFoundError(
            fmt::format("input {}: the run has not handed it out", i));
      }
      cut.inputs[i].tensor = inputs[i];
    }
    NODEWISE_RETURN_IF_ERROR(Judge(&cut));
    return visit_(std::move(cut));
  }

  // A case that the reference cannot compute is handed on all the same.
  static absl::Status Judge(ReproCase* cut) {
    const absl::Status judged = JudgeCase(cut);
    if (judged.ok() || !cut->region.has_value()) return judged;
    // Another time there is memory, and the folder would say less for ever.
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

absl::Status VisitCases(
    const ReproSource& source, absl::Span<const NodeId> nodes, Runner& runner,
    absl::Span<const NamedTensor> inputs,
    absl::FunctionRef<absl::Status(ReproCase node_case)> visit) {
  CaseSink sink(source, visit);
  for (const NodeId node : nodes) {
    if (!source.index.graph().IsFunction(node)) {
      return absl::InvalidArgumentError(
          fmt::format("{}: is an input, expected a node that computes",
                      source.index.TitleOf(node)));
    }
    sink.Expect(node);
  }
  RunOptions options;
  options.sink = &sink;
  options.with_node_inputs = true;
  options.select = [&](const std::string& node) { return sink.Expects(node); };
  NODEWISE_RETURN_IF_ERROR(runner.Run(inputs, options).status());
  return sink.CheckComplete();
}

}  // namespace nodewise
