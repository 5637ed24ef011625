// The candidate of a comparison as a program that compiles models by itself.
// Its tensors have the names of the network's values, by which layers know
// theirs.

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "contrib/locate/layer_sides.h"
#include "fmt/format.h"
#include "nodewise/ir/subnetwork.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// What a node's outputs are called in the network that it was made of.
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
class NodeOutputSink : public TensorSink {
 public:
  explicit NodeOutputSink(TensorSink* inner) : inner_(*inner) {}

  void Add(const std::string& value, TensorKey key) {
    keys_.emplace(value, std::move(key));
  }

  absl::Status Take(const TensorItem& item) override {
    const auto found = keys_.find(item.key.node);
    if (found == keys_.end() || item.is_network_input) return absl::OkStatus();
    TensorItem made{found->second};
    made.tensor = item.tensor;
    made.lasting = item.lasting;
    made.why_absent = item.why_absent;
    return inner_.Take(made);
  }

 private:
  TensorSink& inner_;
  std::unordered_map<std::string, TensorKey> keys_;  // By value.
};

}  // namespace

absl::StatusOr<RunResult> LayerSides::RunProgram(
    const LayerPart& part, const RunOptions& options) const {
  if (mod_.network == nullptr) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: has no network, expected one for a backend that is a program",
        mod_.name));
  }
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
  for (uint32_t n = 0; n < graph().nodes.size(); ++n) {
    const NodeId node{n};
    if (!IsLayer(graph(), node)) continue;
    NODEWISE_ASSIGN_OR_RETURN(const auto names, ValuesOf(graph(), node));
    for (uint32_t slot = 0; slot < names.size(); ++slot) {
      sink.Add(names[slot], {index_.KeyOf(node), slot});
      if (observable.contains(names[slot])) observed.push_back(names[slot]);
    }
  }
  NODEWISE_ASSIGN_OR_RETURN(const auto runner,
                            RunnerOf(*mod_.network, std::move(observed)));
  RunOptions own;
  own.sink = &sink;
  return runner->Run(inputs_, own);
}

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
    for (const NamedTensor& input : inputs_) {
      if (input.name == name) inputs.push_back(input);
    }
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
