#include "nodewise/repro/case_of_nodes.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "contrib/repro/cut_graph.h"
#include "contrib/repro/node_trial.h"
#include "fmt/format.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/runner/mixed_target.h"
#include "nodewise/runner/node_graph.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// The plain runner keeps the storage plan of the graph as it is, which is what
// these runs are about.
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

absl::StatusOr<Graph> WithoutOverlaps(Graph graph) {
  int32_t next = FirstFreeStorageId(graph);
  for (GraphEntry& entry : graph.entries) entry.storage_id = next++;
  return ReadBack(graph);
}

// Three nodes are enough to show a plan fault: the one that makes the victim,
// the one that writes over it, and the one that reads it afterwards. They get a
// graph in which only the tensors that collide share memory, so that nothing
// else can go wrong.
struct PlanFaultCutter {
  const ReproSource& source;
  const GraphIndex index;  // With the plan.
  const PlanFault& fault;
  Runner& runner;
  const absl::Span<const NamedTensor> inputs;
  const Graph& graph = source.index.graph();
  GraphCut cut = {};

  absl::StatusOr<ReproCase> Cut() {
    NODEWISE_RETURN_IF_ERROR(ChooseNodes());
    NODEWISE_ASSIGN_OR_RETURN(const auto reads,
                              ReadsOf(source.index, cut.nodes, runner, inputs));
    ReproCase made = CaseOf(source, fault.writer);
    made.why_no_region =
        "it is about several nodes and where their tensors lie";
    made.plan_fault = {index.KeyOf(fault.victim), ReaderName()};
    NODEWISE_ASSIGN_OR_RETURN(made.graph, GraphOf(reads, &made.inputs));
    NODEWISE_RETURN_IF_ERROR(JudgePlanFault(source.operators, &made));
    return made;
  }

  bool IsCaller() const { return Index(fault.reader) >= graph.nodes.size(); }
  std::string ReaderName() const {
    return IsCaller() ? "the caller" : source.index.KeyOf(fault.reader);
  }

  absl::Status ChooseNodes() {
    std::set<NodeId> nodes = {fault.writer};
    // The victim may be another name of a tensor that another node has made.
    EntryId entry = fault.victim;
    // So the search goes back over such names to the node that made the bytes,
    // and all of these nodes are taken along.
    for (;;) {
      cut.linked.push_back(entry);
      cut.shared.push_back(entry);
      const NodeId maker = graph.NodeOf(entry);
      if (!graph.IsFunction(maker)) break;
      nodes.insert(maker);
      if (index.IsBase(entry)) break;
      entry = graph.EntryOf(graph.node(maker).inputs[0]);
    }
    // An output of the writer that has the victim's storage id is what lies
    // over it.
    const int32_t id = graph.entry(entry).storage_id;
    bool shows = false;
    for (const EntryId written : EntriesMadeBy(graph, fault.writer)) {
      if (graph.entry(written).storage_id != id) continue;
      cut.shared.push_back(written);
      shows = true;
    }
    if (!shows) {
      return Unimplemented(
          "the storage ids of the graph do not say that both lie in one place, "
          "so that a smaller graph does not show it");
    }
    if (IsCaller()) {
      cut.heads.push_back(fault.victim);
    } else {
      nodes.insert(fault.reader);
      const IdRange<EntryId> made = EntriesMadeBy(graph, fault.reader);
      cut.heads.assign(made.begin(), made.end());
    }
    cut.nodes.assign(nodes.begin(), nodes.end());
    return absl::OkStatus();
  }

  absl::StatusOr<Graph> GraphOf(
      const std::map<NodeId, std::vector<NDArray>>& reads,
      std::vector<ReproInput>* described_inputs) const {
    InputNames names(source);
    const auto name_of = [&](const CutInput& input) {
      ReproInput described = names.Describe(input);
      described.tensor = reads.at(input.node)[input.slot];
      described_inputs->push_back(std::move(described));
      return described_inputs->back().name;
    };
    return CutNodes(graph, cut, name_of);
  }
};

// Finds the nodes that a failure needs: twice as many nodes before the case's
// own are added until it is back, and then as many as possible are left out
// again.
struct EarlierSearch {
  using Nodes = std::vector<NodeId>;  // In the order of the graph.

  const ReproSource& source;
  const NodeId node;
  Runner& runner;
  const absl::Span<const NamedTensor> inputs;
  const EarlierOptions& options;
  const ReproCase& node_case;
  const Graph& graph = source.index.graph();
  std::map<NodeId, std::vector<NDArray>> reads = {};
  uint64_t bytes = 0;  // Taken by all tensors in `reads`.
  uint64_t runs = 0;
  uint64_t failing = 0;  // How many of these runs failed.
  uint64_t most_failing = MostFailing();
  std::optional<ReproCase> found = {};

  // Each run that hangs takes all the time that a node has.
  uint64_t MostFailing() const {
    if (!Hangs(node_case)) return UINT64_MAX;
    return static_cast<uint64_t>(std::max<int64_t>(
        options.most_hanging_ms / node_case.node_limit_ms, 1));
  }

  // Returns the case with earlier nodes; none if it fails with none.
  absl::StatusOr<std::optional<ReproCase>> Search() {
    const Nodes before = NodesBefore();
    for (size_t count = 1; !before.empty(); count *= 2) {
      count = std::min(count, before.size());
      const Nodes tried(before.end() - static_cast<ptrdiff_t>(count),
                        before.end());
      NODEWISE_ASSIGN_OR_RETURN(const bool fits, Record(tried));
      if (!fits) break;
      NODEWISE_ASSIGN_OR_RETURN(const bool fails, Try(tried));
      if (fails) {
        NODEWISE_RETURN_IF_ERROR(LeaveOut(tried));
        break;
      }
      if (count == before.size() || runs >= options.most_runs) break;
    }
    return std::move(found);
  }

  Nodes NodesBefore() const {
    Nodes before;
    for (const NodeId id : IdRange<NodeId>{0, Index(node)}) {
      // Nodes that run nowhere in this process stay out of it here, too.
      const bool may_run = source.may_run == nullptr || source.may_run(id);
      if (CallsLibrary(graph.node(id)) && may_run) before.push_back(id);
    }
    return before;
  }

  // Returns whether there is room for what these nodes read. The network runs
  // once for all nodes that are new, and what they read is kept for the tries
  // that follow.
  absl::StatusOr<bool> Record(const Nodes& nodes) {
    Nodes unknown;
    for (const NodeId id : nodes) {
      if (reads.contains(id)) continue;
      unknown.push_back(id);
      for (const EntryRef& ref : graph.node(id).inputs) {
        bytes += source.index.BytesOf(graph.EntryOf(ref));
      }
    }
    if (bytes > options.most_bytes) return false;
    NODEWISE_ASSIGN_OR_RETURN(auto more,
                              ReadsOf(source.index, unknown, runner, inputs));
    reads.merge(more);
    return true;
  }

  absl::StatusOr<ReproCase> CaseWithEarlier(const Nodes& earlier) const {
    ReproCase with = node_case;
    GraphCut cut{earlier};
    cut.nodes.push_back(node);
    const IdRange<EntryId> made = EntriesMadeBy(graph, node);
    cut.heads.assign(made.begin(), made.end());
    InputNames names(source);
    // The inputs of the case's own node keep their names and their tensors,
    // while those of earlier nodes are added behind them.
    const auto name_of = [&](const CutInput& input) {
      ReproInput described = names.Describe(input);
      std::string name = described.name;
      if (input.node == node) return with.inputs[input.slot].name;
      described.tensor = reads.at(input.node)[input.slot];
      with.earlier_inputs.push_back(std::move(described));
      return name;
    };
    NODEWISE_ASSIGN_OR_RETURN(with.graph, CutNodes(graph, cut, name_of));
    for (const NodeId id : earlier) {
      with.earlier_nodes.push_back(source.index.KeyOf(id));
    }
    return with;
  }

  // A set that fails is the best one so far. Those that were found later have
  // fewer nodes.
  absl::StatusOr<bool> Try(const Nodes& earlier) {
    ++runs;
    NODEWISE_ASSIGN_OR_RETURN(ReproCase with, CaseWithEarlier(earlier));
    bool fails = false;
    if (with.failure) {
      NODEWISE_ASSIGN_OR_RETURN(fails,
                                FailsAsBefore(with, TensorsOf(with.inputs)));
    } else {
      NODEWISE_RETURN_IF_ERROR(JudgeCase(&with));
      fails = with.FindWrong() != nullptr;
    }
    if (!fails) return false;
    ++failing;
    if (with.failure) with.fails_alone = true;
    found = std::move(with);
    return true;
  }

  // Halves, quarters and so on are left out as long as the rest still fails.
  absl::Status LeaveOut(Nodes nodes) {
    for (size_t part = (nodes.size() + 1) / 2; part > 0;
         part = part == 1 ? 0 : (part + 1) / 2) {
      for (size_t at = 0; at < nodes.size();) {
        if (runs >= options.most_runs || failing >= most_failing) {
          return absl::OkStatus();
        }
        const size_t end = std::min(at + part, nodes.size());
        Nodes rest(nodes.begin(), nodes.begin() + static_cast<ptrdiff_t>(at));
        rest.insert(rest.end(), nodes.begin() + static_cast<ptrdiff_t>(end),
                    nodes.end());
        bool fails = false;
        if (!rest.empty()) {
          NODEWISE_ASSIGN_OR_RETURN(fails, Try(rest));
        }
        if (fails) {
          nodes = std::move(rest);
        } else {
          at = end;
        }
      }
    }
    return absl::OkStatus();
  }
};

}  // namespace

// The candidate runs with the plan of the network. The reference runs the same
// nodes by the reference evaluation, each tensor in memory of its own.
absl::Status JudgePlanFault(const OpSet& operators, ReproCase* node_case) {
  const auto target_of = [node_case](Graph graph) {
    return GraphTarget::FromArtefact(
        node_case->node, {std::move(graph), node_case->library, {}}, {kCpu});
  };
  NODEWISE_ASSIGN_OR_RETURN(const auto overlapping,
                            target_of(node_case->graph));
  NODEWISE_ASSIGN_OR_RETURN(const auto candidate,
                            RunAll(overlapping, node_case->inputs));
  NODEWISE_ASSIGN_OR_RETURN(Graph apart, WithoutOverlaps(node_case->graph));
  NODEWISE_ASSIGN_OR_RETURN(const auto target, target_of(std::move(apart)));
  NODEWISE_ASSIGN_OR_RETURN(
      const auto replaced,
      WithStandIns(*target, operators,
                   [](const std::string&) { return true; }));
  NODEWISE_ASSIGN_OR_RETURN(const auto reference,
                            RunAll(replaced, node_case->inputs));
  node_case->outputs.clear();
  for (uint32_t slot = 0; slot < reference.size(); ++slot) {
    NODEWISE_ASSIGN_OR_RETURN(
        ReproOutput output,
        ComparedOutput(node_case->plan_fault->reader, slot,
                       reference.size() == 1 ? "Y" : fmt::format("Y_{}", slot),
                       {reference[slot].tensor, {}}, candidate[slot].tensor));
    node_case->outputs.push_back(std::move(output));
  }
  return absl::OkStatus();
}

absl::StatusOr<ReproCase> CutPlanFault(const ReproSource& source,
                                       const PlanFault& fault, Runner& runner,
                                       absl::Span<const NamedTensor> inputs) {
  NODEWISE_ASSIGN_OR_RETURN(const StoragePlan plan,
                            PlanStorage(source.index.graph(), kDLCPU));
  PlanFaultCutter cutter{source, GraphIndex(source.index.graph(), plan), fault,
                         runner, inputs};
  return cutter.Cut();
}

absl::Status AddEarlierNodes(const ReproSource& source, NodeId node,
                             Runner& runner,
                             absl::Span<const NamedTensor> inputs,
                             const EarlierOptions& options,
                             ReproCase* node_case) {
  EarlierSearch search{source, node, runner, inputs, options, *node_case};
  NODEWISE_ASSIGN_OR_RETURN(auto found, search.Search());
  if (found) *node_case = *std::move(found);
  return absl::OkStatus();
}

}  // namespace nodewise
