#include "contrib/locate/layer_sides.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "contrib/locate/node_report.h"
#include "contrib/locate/output_error.h"
#include "contrib/locate/partial_graph.h"
#include "nodewise/ir/network.h"
#include "nodewise/locate/locate_target.h"
#include "nodewise/ops/ops.h"
#include "nodewise/runner/mixed_target.h"
#include "nodewise/runner/node_graph.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Parameters of a mapped file come into memory as they are read. They are there
// from the beginning, so that they do not count as what a comparison takes.
const LayerModule& WithResidentParams(const LayerModule& mod) {
  // The least size of a page: where pages are larger, some are read twice.
  constexpr size_t kPage = 4096;
  for (const NamedTensor& param : mod.params.tensors) {
    const NDArray& tensor = param.tensor;
    if (!tensor.defined() || !(tensor.device() == kCpu) ||
        !IsCompact(*tensor)) {
      continue;
    }
    const volatile auto* const bytes = tensor.As<uint8_t>();
    for (size_t i = 0; i < tensor.bytes(); i += kPage) (void)bytes[i];
  }
  return mod;
}

std::vector<NamedTensor> InputsOfGraph(const Graph& graph,
                                       const std::vector<NamedTensor>& all) {
  std::set<std::string> names;
  for (const uint32_t node : graph.arg_nodes) {
    names.insert(graph.nodes[node].name);
  }
  std::vector<NamedTensor> given;
  for (const NamedTensor& each : all) {
    if (names.contains(each.name)) given.push_back(each);
  }
  return given;
}

// Returns what a node's outputs are called in the network that it was made of.
absl::StatusOr<std::vector<std::string>> ValuesOf(const Graph& graph,
                                                  NodeId node) {
  NODEWISE_ASSIGN_OR_RETURN(const Region region,
                            RegionOfNode(graph, node, AllOperators()));
  std::vector<std::string> names;
  for (const ValueId output : region.network.outputs()) {
    names.push_back(region.network.value(output).name);
  }
  return names;
}

// Hands on what a program calls by values as outputs of nodes.
struct NodeOutputSink : public TensorSink {
  explicit NodeOutputSink(TensorSink* next) : inner(*next) {}

  absl::Status Consume(const TensorItem& item) override {
    const auto found = keys.find(item.key.node);
    if (found == keys.end() || item.is_network_input) return absl::OkStatus();
    return inner.Consume({.key = found->second,
                          .tensor = item.tensor,
                          .lasting = item.lasting,
                          .why_absent = item.why_absent});
  }

  TensorSink& inner;
  std::unordered_map<std::string, TensorKey> keys;  // By value.
};

}  // namespace

LayerSides::LayerSides(const LayerModule& mod,
                       const std::vector<NamedTensor>& inputs, Side reference,
                       Side candidate, Rule rule)
    : mod_(WithResidentParams(mod)),
      inputs_(inputs),
      index_(mod.graph),
      reference_(std::move(reference)),
      candidate_(std::move(candidate)),
      rule_(rule),
      tolerance_(AccumulatedTolerance(mod.graph)) {}

absl::StatusOr<std::shared_ptr<const GraphTarget>> LayerSides::TargetOf(
    const Side& side, Graph part, Params given) const {
  if (given.tensors.empty())
    given.tensors = InputsOfGraph(part, mod_.params.tensors);
  const std::string name = mod_.name + " on " + side.backend.name();
  return GraphTarget::FromArtefact(
      name, {std::move(part), side.functions, std::move(given)}, {kCpu},
      ParamUse::kInPlace);
}

absl::StatusOr<RunResult> LayerSides::RunReference(
    Graph part, const std::vector<NamedTensor>& inputs,
    const RunOptions& options) const {
  // The reference is taken for right, and so for one that comes to its end in
  // this process.
  NODEWISE_ASSIGN_OR_RETURN(auto target, TargetOf(reference_, std::move(part)));
  NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker maker,
                            MakerOf("debug", {target->name(), target}));
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, maker());
  return runner->Run(inputs, options);
}

absl::StatusOr<RunResult> LayerSides::RunCandidate(
    const LayerPart& part, const std::vector<NamedTensor>& inputs,
    RunOptions options, const std::function<void()>& begins_again) {
  options.node_limit_ms = node_limit_ms_;
  if (candidate_.backend.program() != nullptr) return RunProgram(part, options);
  // Each turn notes one more layer that ends runs, or fails, so it comes to an
  // end.
  for (;;) {
    auto result = TryCandidate(part, inputs, options);
    if (result.ok()) return result;
    NODEWISE_RETURN_IF_ERROR(NoteFailure(part, result.status()));
    if (begins_again) begins_again();
  }
}

absl::StatusOr<RunResult> LayerSides::TryCandidate(
    const LayerPart& part, const std::vector<NamedTensor>& inputs,
    const RunOptions& options) {
  NODEWISE_ASSIGN_OR_RETURN(auto target,
                            TargetOf(candidate_, part.graph, part.given));
  // Nodes that are known to end runs are replaced from the beginning.
  std::set<std::string> failed;
  for (uint32_t n = 0; n < part.nodes.size(); ++n) {
    if (FailureOf(part.nodes[n]) == nullptr) continue;
    failed.insert(target->index().KeyOf(NodeId{n}));
  }
  if (!failed.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(
        target,
        WithStandIns(*target, AllOperators(), [failed](const std::string& key) {
          return failed.contains(key);
        }));
  }
  // The parameters lie where the module has them; a process of its own sees
  // them without a copy.
  NODEWISE_ASSIGN_OR_RETURN(const CandidateMakers makers, MakersOf(target));
  // Memory that was resident before the run must not count together with what
  // the child takes.
  memory_.Note();
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, makers.candidate());
  auto result = runner->Run(inputs, options);
  memory_.Note(result.ok() ? result->bytes_beside : 0);
  return result;
}

absl::Status LayerSides::NoteFailure(const LayerPart& part,
                                     const absl::Status& status) {
  // The failure names a node of the part; all else here is by nodes of the
  // whole network.
  auto failure = nodewise::FailureOf(status);
  if (!failure.has_value()) return status;
  const GraphIndex index(part.graph);
  const auto node = index.FindNode(failure->node);
  if (!node.ok()) return status;
  const NodeId failed = part.nodes[Index(*node)];
  if (FailureOf(failed) != nullptr) return WithFailureHint(status, *failure);
  failure->node = index_.KeyOf(failed);
  failures_.emplace(failed, *std::move(failure));
  return absl::OkStatus();
}

const NodeFailure* LayerSides::FailureOf(NodeId node) const {
  const auto failed = failures_.find(node);
  return failed == failures_.end() ? nullptr : &failed->second;
}

std::vector<NamedTensor> LayerSides::InputsOf(const Graph& part) const {
  return InputsOfGraph(part, inputs_);
}

NDArray LayerSides::GivenFor(EntryId entry) const {
  const std::string& name = graph().node(index_.NodeOf(entry)).name;
  const NDArray* given = FindTensor(inputs_, name);
  if (given == nullptr) given = mod_.params.Find(name);
  return given == nullptr ? NDArray() : *given;
}

absl::StatusOr<TensorComparison> LayerSides::CompareInNetwork(
    NodeId node, uint32_t slot, const NDArray& expected,
    const DLTensor& found) const {
  // Bounds hold for a layer on equal inputs. In the network its inputs are off
  // already, so that a tolerance must judge.
  const CompareOptions options =
      HasBounds() ? AccumulatedOptions(tolerance_, expected.dtype())
                  : CompareOptions{rule_};
  return CompareNodeOutput(index_.KeyOf(node), slot, expected, found, options);
}

// The candidate of a comparison as a program that compiles models by itself.
// Its tensors have the names of the network's values, by which layers know
// theirs.

absl::StatusOr<RunResult> LayerSides::RunProgram(
    const LayerPart& part, const RunOptions& options) const {
  if (mod_.network == nullptr) {
    return FailedPrecondition(
        "{}: has no network, expected one for a backend that is a program",
        mod_.name);
  }
  // The request is told apart by what it needs: tensors that stand for all
  // inputs are a layer alone, and a sink wants to see the inside.
  if (!part.given.tensors.empty()) return RunAlone(part);
  if (options.sink != nullptr) return RunWhole(options);
  return RunUpTo(part.nodes.back());
}

absl::StatusOr<std::unique_ptr<Runner>> LayerSides::RunnerOf(
    Network network, std::optional<std::vector<std::string>> observed) const {
  ForeignTarget target;
  target.name = mod_.name + " on " + candidate_.backend.name();
  target.command = *candidate_.backend.program();
  target.network = std::make_shared<const Network>(std::move(network));
  target.observed = std::move(observed);
  return MakeForeignRunner(std::move(target));
}

absl::StatusOr<RunResult> LayerSides::RunWhole(
    const RunOptions& options) const {
  const std::vector<std::string> all = ObservableValues(*mod_.network);
  const std::set<std::string> observable(all.begin(), all.end());
  NodeOutputSink sink(options.sink);
  std::vector<std::string> observed;
  for (const NodeId node : FunctionNodesOf(graph())) {
    if (!IsLayer(graph(), node)) continue;
    NODEWISE_ASSIGN_OR_RETURN(const auto names, ValuesOf(graph(), node));
    for (uint32_t slot = 0; slot < names.size(); ++slot) {
      sink.keys.emplace(names[slot], TensorKey{index_.KeyOf(node), slot});
      if (observable.contains(names[slot])) observed.push_back(names[slot]);
    }
  }
  NODEWISE_ASSIGN_OR_RETURN(const auto runner,
                            RunnerOf(*mod_.network, std::move(observed)));
  return runner->Run(inputs_, {.sink = &sink});
}

// A shorter model that ends at the layer has its outputs as outputs, also where
// the program hands out nothing that is inside.
absl::StatusOr<RunResult> LayerSides::RunUpTo(NodeId node) const {
  NODEWISE_ASSIGN_OR_RETURN(const auto names, ValuesOf(graph(), node));
  std::vector<ValueId> ends;
  for (const std::string& name : names) {
    NODEWISE_ASSIGN_OR_RETURN(const ValueId end, mod_.network->FindValue(name));
    ends.push_back(end);
  }
  NODEWISE_ASSIGN_OR_RETURN(Network part,
                            ExtractNetwork(*mod_.network, {}, ends));
  std::vector<NamedTensor> inputs;
  for (const ValueId id : part.inputs()) {
    const std::string& name = part.value(id).name;
    const NDArray* const input = FindTensor(inputs_, name);
    if (input != nullptr) inputs.push_back({name, *input});
  }
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, RunnerOf(std::move(part)));
  return runner->Run(inputs);
}

// The layer alone has the network's constants as constants, too, so that it is
// compiled as it would be there.
absl::StatusOr<RunResult> LayerSides::RunAlone(const LayerPart& part) const {
  const NodeId last{static_cast<uint32_t>(part.graph.nodes.size() - 1)};
  NODEWISE_ASSIGN_OR_RETURN(Region region,
                            RegionOfNode(part.graph, last, AllOperators()));
  Network network = std::move(region.network);
  const std::vector<ValueId> slots(network.inputs().begin(),
                                   network.inputs().end());
  std::vector<NamedTensor> inputs;
  const std::vector<EntryRef>& refs = part.graph.node(last).inputs;
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    const NDArray* const given =
        part.given.Find(part.graph.nodes[refs[slot].node].name);
    if (given == nullptr) continue;  // The run says what is missing.
    if (slot < region.is_constant.size() && region.is_constant[slot]) {
      NODEWISE_RETURN_IF_ERROR(network.Freeze(slots[slot], *given));
    } else {
      inputs.push_back({network.value(slots[slot]).name, *given});
    }
  }
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, RunnerOf(std::move(network)));
  return runner->Run(inputs);
}

}  // namespace nodewise
