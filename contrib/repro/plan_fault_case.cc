#include "contrib/repro/plan_fault_case.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "contrib/repro/cut_graph.h"
#include "contrib/repro/node_trial.h"
#include "contrib/repro/repro_names.h"
#include "fmt/format.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/repro/case_of_nodes.h"
#include "nodewise/runner/node_graph.h"
#include "nodewise/runner/stand_in.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

absl::StatusOr<std::vector<NamedTensor>> RunAll(
    const std::shared_ptr<const GraphTarget>& target,
    const std::vector<ReproInput>& inputs) {
  NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker maker,
                            MakerOf("plain", {target->name(), target}));
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, maker());
  std::vector<NamedTensor> named;
  for (const ReproInput& input : inputs) {
    named.push_back({input.name, input.tensor});
  }
  NODEWISE_ASSIGN_OR_RETURN(RunResult result, runner->Run(named));
  return std::move(result.outputs);
}

// Gives each tensor memory of its own. A library may have data for the ids that
// the graph uses (TVM 0.8).
absl::StatusOr<Graph> WithoutOverlaps(Graph graph) {
  int32_t next = 0;
  for (const GraphEntry& entry : graph.entries) {
    next = std::max(next, entry.storage_id + 1);
  }
  for (GraphEntry& entry : graph.entries) entry.storage_id = next++;
  return ReadBack(graph);
}

class PlanFaultCutter {
 public:
  PlanFaultCutter(const ReproSource& source, const StoragePlan& plan,
                  const PlanFault& fault, Runner& runner,
                  absl::Span<const NamedTensor> inputs)
      : source_(source),
        graph_(source.index.graph()),
        index_(graph_, plan),
        fault_(fault),
        runner_(runner),
        inputs_(inputs) {}

  absl::StatusOr<ReproCase> Cut() {
    NODEWISE_RETURN_IF_ERROR(ChooseNodes());
    NODEWISE_ASSIGN_OR_RETURN(
        const auto reads, ReadsOf(source_.index, cut_.nodes, runner_, inputs_));
    ReproCase made;
    made.node = source_.index.KeyOf(fault_.writer);
    made.layer = PlainName(made.node);
    made.library = source_.library;
    made.library_file = source_.library_file;
    made.why_no_region =
        "it is about several nodes and where their tensors lie";
    made.plan_fault = {index_.KeyOf(fault_.victim), ReaderName()};
    NODEWISE_ASSIGN_OR_RETURN(made.graph, GraphOf(reads, &made.inputs));
    NODEWISE_RETURN_IF_ERROR(JudgePlanFault(source_.operators, &made));
    return made;
  }

 private:
  bool IsCaller() const { return Index(fault_.reader) >= graph_.nodes.size(); }
  std::string ReaderName() const {
    return IsCaller() ? "the caller" : source_.index.KeyOf(fault_.reader);
  }

  absl::Status ChooseNodes() {
    std::set<NodeId> nodes = {fault_.writer};
    // The victim may be another name of a tensor that another node has made.
    EntryId entry = fault_.victim;
    for (;;) {
      cut_.linked.push_back(entry);
      cut_.shared.push_back(entry);
      const NodeId maker = graph_.NodeOf(entry);
      if (!graph_.IsFunction(maker)) break;
      nodes.insert(maker);
      if (index_.IsBase(entry)) break;
      entry = graph_.EntryOf(graph_.node(maker).inputs[0]);
    }
    const int32_t id = graph_.entry(entry).storage_id;
    bool shows = false;
    for (uint32_t slot = 0; slot < graph_.OutputsOf(fault_.writer); ++slot) {
      const EntryId written = graph_.EntryOf(fault_.writer, slot);
      if (graph_.entry(written).storage_id != id) continue;
      cut_.shared.push_back(written);
      shows = true;
    }
    if (!shows) {
      return absl::UnimplementedError(
          "the storage ids of the graph do not say that both lie in one place, "
          "so that a smaller graph does not show it");
    }
    if (IsCaller()) {
      cut_.heads.push_back(fault_.victim);
    } else {
      nodes.insert(fault_.reader);
      for (uint32_t slot = 0; slot < graph_.OutputsOf(fault_.reader); ++slot) {
        cut_.heads.push_back(graph_.EntryOf(fault_.reader, slot));
      }
    }
    cut_.nodes.assign(nodes.begin(), nodes.end());
    return absl::OkStatus();
  }

  absl::StatusOr<Graph> GraphOf(
      const std::map<NodeId, std::vector<NDArray>>& reads,
      std::vector<ReproInput>* inputs) const {
    InputNames names(source_);
    const auto name_of = [&](const CutInput& input) {
      ReproInput described = names.Describe(input);
      described.tensor = reads.at(input.node)[input.slot];
      inputs->push_back(std::move(described));
      return inputs->back().name;
    };
    NODEWISE_ASSIGN_OR_RETURN(GraphOfCut made, CutNodes(graph_, cut_, name_of));
    return std::move(made.graph);
  }

  const ReproSource& source_;
  const Graph& graph_;
  const GraphIndex index_;  // With the plan.
  const PlanFault& fault_;
  Runner& runner_;
  const absl::Span<const NamedTensor> inputs_;
  GraphCut cut_;
};

}  // namespace

absl::Status JudgePlanFault(const OpSet& operators, ReproCase* node_case) {
  const std::string& name = node_case->node;
  NODEWISE_ASSIGN_OR_RETURN(
      const auto overlapping,
      GraphTarget::FromArtefact(
          name, {node_case->graph, node_case->library, {}}, {kCpu}));
  NODEWISE_ASSIGN_OR_RETURN(const auto candidate,
                            RunAll(overlapping, node_case->inputs));
  NODEWISE_ASSIGN_OR_RETURN(Graph apart, WithoutOverlaps(node_case->graph));
  NODEWISE_ASSIGN_OR_RETURN(
      const auto target,
      GraphTarget::FromArtefact(
          name, {std::move(apart), node_case->library, {}}, {kCpu}));
  NODEWISE_ASSIGN_OR_RETURN(
      const auto replaced,
      WithStandIns(*target, operators,
                   [](const std::string&) { return true; }));
  NODEWISE_ASSIGN_OR_RETURN(const auto reference,
                            RunAll(replaced, node_case->inputs));
  node_case->outputs.clear();
  for (uint32_t slot = 0; slot < reference.size(); ++slot) {
    ReproOutput output;
    output.role = reference.size() == 1 ? "Y" : fmt::format("Y_{}", slot);
    output.candidate = candidate[slot].tensor;
    output.reference = reference[slot].tensor;
    NODEWISE_ASSIGN_OR_RETURN(
        output.comparison, CompareByType(node_case->plan_fault->reader, slot,
                                         output.reference, output.candidate));
    output.limits = LimitsByType(output.reference);
    node_case->outputs.push_back(std::move(output));
  }
  return absl::OkStatus();
}

absl::StatusOr<ReproCase> CutPlanFault(const ReproSource& source,
                                       const PlanFault& fault, Runner& runner,
                                       absl::Span<const NamedTensor> inputs) {
  NODEWISE_ASSIGN_OR_RETURN(const StoragePlan plan,
                            PlanStorage(source.index.graph(), kDLCPU));
  return PlanFaultCutter(source, plan, fault, runner, inputs).Cut();
}

}  // namespace nodewise
