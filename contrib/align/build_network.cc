// A compiled graph in the place of a model. Each node becomes an operation of
// an operator of its own, whose attribute is the node, so that all that
// examines networks can run it on other numbers than the graph would give it.
// Nothing is known of what it computes: operators of such a network have no
// attributes to change and no others of their form.

#include "nodewise/align/build_network.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contrib/align/network_walk.h"
#include "fmt/format.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/op_row.h"
#include "nodewise/runner/node_graph.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

constexpr std::string_view kDomain = "nodewise.compiled";

constexpr std::string_view kPlain = "plain";

// In builds with USE_PROFILER the first run has a process of its own, so that a
// node that crashes or hangs is an error like any other. A process for each run
// would take twenty times as long.
std::string_view KindOfFirstRun() {
  constexpr std::string_view kGuarded = "guarded";
  const bool has_it =
      std::ranges::count(RunnerKinds(), kGuarded, &RunnerKind::name) > 0;
  return has_it ? kGuarded : kPlain;
}

// Runs a node of a graph alone. Any thread may call.
class LoneNode {
 public:
  LoneNode(std::shared_ptr<const GraphTarget> target, NodeId node)
      : target_(std::move(target)), node_(node) {
    const size_t count = graph().node(node).inputs.size();
    for (size_t i = 0; i < count; ++i) {
      names_.push_back(fmt::format("input{}", i));
    }
  }

  const Graph& graph() const { return target_->graph(); }
  NodeId node() const { return node_; }

  absl::StatusOr<std::vector<NamedTensor>> Run(const EvalArgs& args) {
    const std::lock_guard lock(mutex_);
    const std::string_view kind = runs_ == 0 ? KindOfFirstRun() : kPlain;
    // The first run has a runner that guards it, and the second one makes the
    // plain one that stays.
    if (runs_ < 2) NODEWISE_RETURN_IF_ERROR(MakeRunner(kind));
    std::vector<NamedTensor> inputs;
    for (size_t i = 0; i < names_.size(); ++i) {
      inputs.push_back({names_[i], args.in(i)});
    }
    auto result = runner_->Run(inputs);
    if (!result.ok()) return At(target_->name(), result.status());
    ++runs_;
    return std::move(result->outputs);
  }

 private:
  absl::Status MakeRunner(std::string_view kind) {
    NODEWISE_ASSIGN_OR_RETURN(Graph alone, GraphOfNode(graph(), node_, names_));
    NODEWISE_ASSIGN_OR_RETURN(
        auto target,
        GraphTarget::FromArtefact(
            target_->name(),
            {std::move(alone), target_->artefact().library, Params()},
            target_->devices()));
    NODEWISE_ASSIGN_OR_RETURN(
        const auto maker, MakerOf(kind, {target->name(), std::move(target)}));
    NODEWISE_ASSIGN_OR_RETURN(runner_, maker());
    return absl::OkStatus();
  }

  const std::shared_ptr<const GraphTarget> target_;
  const NodeId node_;
  std::vector<std::string> names_;  // The inputs of the lone node.
  std::mutex mutex_;
  uint64_t runs_ = 0;
  std::unique_ptr<Runner> runner_;
};

// The operator of such a network: each node is one of its own.
struct CompiledNode {
  std::shared_ptr<LoneNode> lone;

  absl::StatusOr<OutputInfos> Infer(const Inputs&, size_t num_outputs) const {
    OutputInfos infos;
    for (uint32_t i = 0; i < num_outputs; ++i) {
      const Graph& graph = lone->graph();
      const GraphEntry& entry = graph.entry(graph.EntryOf(lone->node(), i));
      infos.emplace_back(TypeOf(entry));
    }
    return infos;
  }

  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(std::vector<NamedTensor> made, lone->Run(args));
    for (size_t i = 0; i < args.num_outputs() && i < made.size(); ++i) {
      args.SetOutput(i, std::move(made[i].tensor));
    }
    return absl::OkStatus();
  }
};

const OperatorDef& CompiledNodeRow() {
  static const OperatorDef row = [] {
    OperatorDef made =
        Row<CompiledNode>({.name = "CompiledNode",
                           .domain = kDomain,
                           .inputs = {Variadic("inputs")},
                           .outputs = {Param("first"), Variadic("others")}});
    // The work of a node cannot be compared, so that a node is equal to
    // itself alone. Otherwise all nodes that read the same would be taken for
    // alike.
    made.equal = [](const void* a, const void* b) {
      return static_cast<const CompiledNode*>(a)->lone ==
             static_cast<const CompiledNode*>(b)->lone;
    };
    return made;
  }();
  return row;
}

struct BuildReader {
  const std::shared_ptr<const GraphTarget>& target;
  const GraphIndex& index = target->index();
  const Graph& graph = target->graph();
  Network network = Network(target->name());
  std::vector<ValueId> values =  // By entry.
      std::vector<ValueId>(graph.entries.size(), kNoValue);

  // Entries are there before nodes read them: the graph has its nodes in the
  // order in which they run.
  absl::StatusOr<Network> Read() {
    NODEWISE_RETURN_IF_ERROR(
        network.SetOpset(kDomain, CompiledNodeRow().since));
    NODEWISE_RETURN_IF_ERROR(AddInputs());
    for (const NodeId node : FunctionNodesOf(graph)) {
      NODEWISE_RETURN_IF_ERROR(AddNode(node));
    }
    std::vector<ValueId> outputs;
    for (const EntryRef& head : graph.heads) {
      outputs.push_back(values[Index(graph.EntryOf(head))]);
    }
    NODEWISE_RETURN_IF_ERROR(network.SetOutputs(std::move(outputs)));
    return std::move(network);
  }

  // Parameters may be in the library, too: an executor has them all.
  absl::Status AddInputs() {
    NODEWISE_ASSIGN_OR_RETURN(const auto executor, target->MakeExecutor());
    const InputList& inputs = target->inputs();
    for (size_t i = 0; i < graph.arg_nodes.size(); ++i) {
      const EntryId entry = graph.EntryOf(NodeId{graph.arg_nodes[i]}, 0);
      ValueId& value = values[Index(entry)];
      const std::string key = index.KeyOf(NodeId{graph.arg_nodes[i]});
      if (inputs.IsNeeded(i)) {
        const GraphEntry& type = graph.entry(entry);
        NODEWISE_ASSIGN_OR_RETURN(value, network.AddInput(key, TypeOf(type)));
        continue;
      }
      NODEWISE_ASSIGN_OR_RETURN(const NDArray lent, executor->GetInput(i));
      NODEWISE_ASSIGN_OR_RETURN(NDArray data, lent.CopyToHost());
      NODEWISE_ASSIGN_OR_RETURN(value,
                                network.AddConstant(key, std::move(data)));
    }
    return absl::OkStatus();
  }

  absl::Status AddNode(NodeId node) {
    NewOperation operation;
    operation.attrs =
        OpAttrs::From(&CompiledNodeRow(),
                      CompiledNode{std::make_shared<LoneNode>(target, node)});
    operation.name = index.KeyOf(node);
    for (const EntryId read : ReadsOf(graph, node)) {
      operation.inputs.push_back(values[Index(read)]);
    }
    for (const EntryId made : EntriesMadeBy(graph, node)) {
      operation.outputs.push_back(index.KeyOf(made));
    }
    NODEWISE_ASSIGN_OR_RETURN(const OperationId id,
                              network.AddOperation(std::move(operation)));
    for (const EntryId made : EntriesMadeBy(graph, node)) {
      values[Index(made)] = network.operation(id).outputs[index.OutputOf(made)];
    }
    return absl::OkStatus();
  }
};

}  // namespace

absl::StatusOr<Network> NetworkOfBuild(
    const std::shared_ptr<const GraphTarget>& target) {
  const std::vector<DLDevice>& devices = target->devices();
  const bool is_on_host = std::ranges::all_of(
      devices,
      [](const DLDevice& device) { return device.device_type == kDLCPU; });
  if (!is_on_host) {
    return Unimplemented(
        "{}: runs on another device, expected a build for the CPU to compare "
        "with",
        target->name());
  }
  return BuildReader{target}.Read();
}

}  // namespace nodewise
