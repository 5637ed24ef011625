#include "contrib/locate/layer_sides.h"

#include <algorithm>
#include <set>
#include <utility>

#include "contrib/locate/accumulated_rule.h"
#include "nodewise/runner/runner_list.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

std::set<std::string> InputNamesOf(const Graph& graph) {
  std::set<std::string> names;
  for (const uint32_t node : graph.arg_nodes) {
    names.insert(graph.nodes[node].name);
  }
  return names;
}

}  // namespace

LayerSides::LayerSides(const LayerModule& mod,
                       const std::vector<NamedTensor>& inputs, Side reference,
                       Side candidate, Rule rule)
    : mod_(mod),
      inputs_(inputs),
      index_(mod.graph),
      reference_(std::move(reference)),
      candidate_(std::move(candidate)),
      rule_(rule),
      tolerance_(AccumulatedTolerance(mod.graph)) {}

absl::StatusOr<std::unique_ptr<Runner>> LayerSides::MakeRunner(
    const Side& side, Graph part) const {
  const std::set<std::string> names = InputNamesOf(part);
  Params params;
  for (const NamedTensor& param : mod_.params.tensors) {
    if (names.contains(param.name)) params.tensors.push_back(param);
  }
  const std::string name = mod_.name + " on " + side.backend.name();
  NODEWISE_ASSIGN_OR_RETURN(
      auto target,
      GraphTarget::FromArtefact(
          name, {std::move(part), side.functions, std::move(params)}, {kCpu}));
  NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker maker,
                            MakerOf("debug", {name, std::move(target)}));
  return maker();
}

std::vector<NamedTensor> LayerSides::InputsOf(const Graph& part) const {
  const std::set<std::string> names = InputNamesOf(part);
  std::vector<NamedTensor> inputs;
  for (const NamedTensor& input : inputs_) {
    if (names.contains(input.name)) inputs.push_back(input);
  }
  return inputs;
}

NDArray LayerSides::GivenFor(EntryId entry) const {
  const std::string& name = graph().node(index_.NodeOf(entry)).name;
  for (const NamedTensor& input : inputs_) {
    if (input.name == name) return input.tensor;
  }
  const NDArray* const param = mod_.params.Find(name);
  return param == nullptr ? NDArray() : *param;
}

absl::StatusOr<TensorComparison> LayerSides::CompareInNetwork(
    NodeId node, uint32_t slot, const NDArray& expected,
    const DLTensor& found) const {
  CompareOptions options;
  options.rule = rule_;
  if (HasBounds()) options = AccumulatedOptions(tolerance_, expected.dtype());
  return CompareLayerOutput(index_.KeyOf(node), slot, expected, found, options);
}

absl::StatusOr<TensorComparison> CompareLayerOutput(
    const std::string& node, uint32_t slot, const NDArray& expected,
    const DLTensor& found, const CompareOptions& options) {
  const TensorKey key{node, slot, TensorRole::kOutput, "reference"};
  TensorItem item{key};
  item.tensor = expected.tensor();
  return CompareTensors(item, found, options);
}

}  // namespace nodewise
