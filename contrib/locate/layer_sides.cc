#include "contrib/locate/layer_sides.h"

#include <algorithm>
#include <set>
#include <utility>

#include "contrib/locate/accumulated_rule.h"
#include "contrib/locate/node_report.h"
#include "fmt/format.h"
#include "nodewise/locate/locate_target.h"
#include "nodewise/ops/ops.h"
#include "nodewise/runner/stand_in.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Parameters of a mapped file come into memory as they are read. They are there
// from the beginning, so that they do not count as what a comparison takes.
const LayerModule& WithResidentParams(const LayerModule& mod) {
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
    : mod_(WithResidentParams(mod)),
      inputs_(inputs),
      index_(mod.graph),
      reference_(std::move(reference)),
      candidate_(std::move(candidate)),
      rule_(rule),
      tolerance_(AccumulatedTolerance(mod.graph)) {}

absl::StatusOr<std::shared_ptr<const GraphTarget>> LayerSides::TargetOf(
    const Side& side, Graph part, Params given) const {
  if (given.tensors.empty()) {
    const std::set<std::string> names = InputNamesOf(part);
    for (const NamedTensor& param : mod_.params.tensors) {
      if (names.contains(param.name)) given.tensors.push_back(param);
    }
  }
  const std::string name = mod_.name + " on " + side.backend.name();
  return GraphTarget::FromArtefact(
      name, {std::move(part), side.functions, std::move(given)}, {kCpu},
      ParamUse::kInPlace);
}

absl::StatusOr<RunResult> LayerSides::RunReference(
    Graph part, const std::vector<NamedTensor>& inputs,
    const RunOptions& options) const {
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
  if (candidate_.backend.program() != nullptr) {
    return RunProgram(part, options);
  }
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
  NODEWISE_ASSIGN_OR_RETURN(const CandidateMakers makers, MakersOf(target));
  memory_.Note();
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, makers.candidate());
  auto result = runner->Run(inputs, options);
  memory_.Note(result.ok() ? result->bytes_beside : 0);
  return result;
}

absl::Status LayerSides::NoteFailure(const LayerPart& part,
                                     const absl::Status& status) {
  auto failure = nodewise::FailureOf(status);
  if (!failure.has_value()) return status;
  const GraphIndex index(part.graph);
  const auto node = index.FindNode(failure->node);
  if (!node.ok()) return status;
  const NodeId failed = part.nodes[Index(*node)];
  if (FailureOf(failed) != nullptr) return WithWhatItMeans(status, *failure);
  failure->node = index_.KeyOf(failed);
  failures_.emplace(failed, *std::move(failure));
  return absl::OkStatus();
}

const NodeFailure* LayerSides::FailureOf(NodeId node) const {
  const auto failed = failures_.find(node);
  return failed == failures_.end() ? nullptr : &failed->second;
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
