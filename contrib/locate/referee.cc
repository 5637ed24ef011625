#include "nodewise/locate/referee.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "nodewise/interp/carried_bounds.h"
#include "nodewise/lower/region.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// What a node read and made in a run.
struct NodeTensors {
  std::vector<NDArray> read, made;
};

// Keeps the tensors of some nodes.
class NodeTensorSink : public TensorSink {
 public:
  explicit NodeTensorSink(std::map<std::string, NodeTensors>* nodes)
      : nodes_(*nodes) {}

  absl::Status Take(const TensorItem& item) override {
    const auto node = nodes_.find(item.key.node);
    if (node == nodes_.end() || item.tensor == nullptr) {
      return absl::OkStatus();
    }
    std::vector<NDArray>& tensors = item.key.role == TensorRole::kInput
                                        ? node->second.read
                                        : node->second.made;
    if (item.key.slot >= tensors.size()) return absl::OkStatus();
    // Operators read whole vectors, so they need aligned copies.
    NODEWISE_ASSIGN_OR_RETURN(
        tensors[item.key.slot],
        NDArray::Borrow(*item.tensor, nullptr).CopyToHost());
    return absl::OkStatus();
  }

 private:
  std::map<std::string, NodeTensors>& nodes_;  // By key.
};

absl::Status CheckAllThere(const NodeTensors& tensors) {
  for (const auto* list : {&tensors.read, &tensors.made}) {
    for (const NDArray& tensor : *list) {
      if (!tensor.defined()) {
        return absl::NotFoundError("the run has not handed out all of it");
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Region> RegionOfCulprit(const GraphNode& node,
                                       const NodeTensors& tensors,
                                       const OpSet& ops) {
  NODEWISE_RETURN_IF_ERROR(CheckAllThere(tensors));
  std::vector<const DLTensor*> arguments;
  for (const NDArray& tensor : tensors.read) {
    arguments.push_back(tensor.tensor());
  }
  for (const NDArray& tensor : tensors.made) {
    arguments.push_back(tensor.tensor());
  }
  return RegionOf({node.function, node.attrs, arguments, tensors.made.size()},
                  ops);
}

absl::StatusOr<std::vector<NamedTensor>> RunReferee(
    const RefereeMaker& referee, const Network& network,
    const std::vector<NDArray>& read) {
  NODEWISE_ASSIGN_OR_RETURN(const auto runner,
                            referee(std::make_shared<const Network>(network)));
  std::vector<NamedTensor> inputs;
  for (size_t i = 0; i < read.size(); ++i) {
    inputs.push_back({network.value(network.inputs()[i]).name, read[i]});
  }
  NODEWISE_ASSIGN_OR_RETURN(RunResult result, runner->Run(inputs));
  return std::move(result.outputs);
}

// Compares what the referee made with the reference, within its bounds, and
// with the candidate, within the tolerance of the type.
absl::Status CompareReferee(const std::vector<BoundedTensor>& reference,
                            const std::vector<NDArray>& made,
                            const std::vector<NamedTensor>& found,
                            RefereeOpinion* opinion) {
  bool with_reference = true, with_candidate = true;
  for (size_t i = 0; i < found.size(); ++i) {
    const TensorKey key{found[i].name};
    TensorItem expected{key};
    expected.tensor = reference[i].tensor.tensor();
    expected.proved_bounds = reference[i].bounds.proved;
    expected.expected_bounds = reference[i].bounds.expected;
    NODEWISE_ASSIGN_OR_RETURN(const TensorComparison to_reference,
                              CompareTensors(expected, *found[i].tensor));
    TensorItem candidate{key};
    candidate.tensor = made[i].tensor();
    CompareOptions by_type;
    by_type.rule = {Rule::Kind::kByType};
    NODEWISE_ASSIGN_OR_RETURN(
        const TensorComparison to_candidate,
        CompareTensors(candidate, *found[i].tensor, by_type));
    with_reference = with_reference && !to_reference.is_wrong();
    with_candidate = with_candidate && !to_candidate.is_wrong();
    opinion->from_reference =
        std::max(opinion->from_reference, RelativeError(to_reference));
    opinion->from_candidate =
        std::max(opinion->from_candidate, RelativeError(to_candidate));
  }
  opinion->side = with_reference   ? RefereeSide::kReference
                  : with_candidate ? RefereeSide::kCandidate
                                   : RefereeSide::kNeither;
  return absl::OkStatus();
}

absl::Status Judge(const GraphNode& node, const NodeTensors& tensors,
                   const OpSet& ops, const RefereeMaker& referee,
                   RefereeOpinion* opinion) {
  NODEWISE_ASSIGN_OR_RETURN(const Region region,
                            RegionOfCulprit(node, tensors, ops));
  NODEWISE_ASSIGN_OR_RETURN(
      const auto reference,
      InterpretCarryingBounds(region.network, tensors.read));
  NODEWISE_ASSIGN_OR_RETURN(const auto found,
                            RunReferee(referee, region.network, tensors.read));
  if (found.size() != tensors.made.size()) {
    return absl::InternalError(
        fmt::format("it has made {} tensors, expected {}", found.size(),
                    tensors.made.size()));
  }
  return CompareReferee(reference, tensors.made, found, opinion);
}

}  // namespace

std::string_view NameOf(RefereeSide side) {
  switch (side) {
    case RefereeSide::kReference:
      return "agrees with the reference";
    case RefereeSide::kCandidate:
      return "agrees with the candidate";
    case RefereeSide::kBoth:
      return "agrees with both";
    case RefereeSide::kNeither:
      return "agrees with neither";
    case RefereeSide::kNotAsked:
      return "could not be asked";
  }
  return "";
}

absl::StatusOr<std::vector<RefereeOpinion>> AskReferee(
    const LocateRequest& request, const LocateResult& result,
    const RefereeMaker& referee) {
  const Graph& graph = request.index.graph();
  std::map<std::string, NodeTensors> nodes;
  std::vector<RefereeOpinion> opinions;
  for (size_t i = 0; i < result.culprits.size(); ++i) {
    const NodeReport& report = result.nodes[result.culprits[i].report];
    if (report.verdict != NodeVerdict::kBroken) continue;
    NodeTensors& tensors = nodes[report.key];
    tensors.read.resize(graph.node(report.node).inputs.size());
    tensors.made.resize(graph.OutputsOf(report.node));
    opinions.push_back({i, RefereeSide::kNotAsked, "", 0, 0});
  }
  if (opinions.empty()) return opinions;
  NODEWISE_ASSIGN_OR_RETURN(const auto candidate, request.candidate());
  NodeTensorSink sink(&nodes);
  RunOptions options;
  options.sink = &sink;
  options.with_node_inputs = true;
  NODEWISE_RETURN_IF_ERROR(candidate->Run(request.inputs, options).status());
  for (RefereeOpinion& opinion : opinions) {
    const NodeReport& report =
        result.nodes[result.culprits[opinion.culprit].report];
    const absl::Status judged =
        Judge(graph.node(report.node), nodes[report.key], request.operators,
              referee, &opinion);
    if (!judged.ok()) opinion.why_not = std::string(MessageOf(judged));
  }
  return opinions;
}

}  // namespace nodewise
