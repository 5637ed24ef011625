#include "nodewise/locate/outside_reference.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "contrib/locate/node_report.h"
#include "contrib/locate/observed_run.h"
#include "contrib/locate/output_error.h"
#include "contrib/locate/partial_graph.h"
#include "fmt/format.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/interp/network_bounds.h"
#include "nodewise/locate/layer_comparator.h"
#include "nodewise/lower/region.h"
#include "nodewise/runner/node_graph.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// In the order of RefereeSide.
constexpr std::string_view kSideNames[] = {
    "agrees with the reference", "agrees with the candidate",
    "agrees with both", "agrees with neither", "could not be asked"};

// The verdict on a node by the side that the definitions of its operators are
// on, where it is off from an outside reference. In the order of RefereeSide.
struct OutsideVerdict {
  NodeVerdict verdict;
  std::string_view why;
};
constexpr OutsideVerdict kOutsideVerdicts[] = {
    {NodeVerdict::kBroken, "so it is from the definition of its operators"},
    {NodeVerdict::kHealthy, "but as the definition of its operators has it"},
    {NodeVerdict::kInconclusive, "the definition of its operators allows both"},
    {NodeVerdict::kInconclusive,
     "and neither is as the definition of its operators has it"},
    {NodeVerdict::kInconclusive, "the referee could not compute it"}};
static_assert(std::size(kSideNames) == std::size(kOutsideVerdicts));

// Operators read whole vectors, so they need aligned copies.
absl::StatusOr<NDArray> AlignedCopyOf(const TensorItem& item) {
  return NDArray::Borrow(*item.tensor, nullptr).CopyToHost();
}

struct NodeTensors {
  std::vector<NDArray> read, made;
};

struct NodeTensorSink : public TensorSink {
  absl::Status Consume(const TensorItem& item) override {
    const auto node = nodes.find(item.key.node);
    if (node == nodes.end() || item.tensor == nullptr) return absl::OkStatus();
    std::vector<NDArray>& tensors = item.key.role == TensorRole::kInput
                                        ? node->second.read
                                        : node->second.made;
    if (item.key.slot >= tensors.size()) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(tensors[item.key.slot], AlignedCopyOf(item));
    return absl::OkStatus();
  }

  std::map<std::string, NodeTensors> nodes;  // By key.
};

// The runner is of the region alone, whose inputs it calls as the network does.
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
// with the candidate, within the tolerance of the type: nothing says how far
// the roundings of two kernels may be apart.
absl::Status CompareReferee(const std::vector<BoundedTensor>& reference,
                            const std::vector<NDArray>& made,
                            const std::vector<NamedTensor>& found,
                            RefereeOpinion* opinion) {
  constexpr CompareOptions kByType = {{Rule::Kind::kByType}};
  // Each output counts: a referee that agrees on some of them agrees with none.
  bool with_reference = true, with_candidate = true;
  for (size_t i = 0; i < found.size(); ++i) {
    const TensorKey key{found[i].name};
    const DLTensor& third = *found[i].tensor;
    const auto& [expected, bounds] = reference[i];
    NODEWISE_ASSIGN_OR_RETURN(
        const TensorComparison to_reference,
        CompareTensors({.key = key,
                        .tensor = expected.tensor(),
                        .proved_bounds = bounds.proved,
                        .expected_bounds = bounds.expected},
                       third));
    NODEWISE_ASSIGN_OR_RETURN(
        const TensorComparison to_candidate,
        CompareTensors({.key = key, .tensor = made[i].tensor()}, third,
                       kByType));
    with_reference &= !to_reference.is_wrong();
    with_candidate &= !to_candidate.is_wrong();
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

absl::Status JudgeAsReferee(const GraphNode& node, const NodeTensors& tensors,
                            const OpSet& ops, const RefereeMaker& referee,
                            RefereeOpinion* opinion) {
  const auto& [read, made] = tensors;
  if (!std::ranges::all_of(read, &NDArray::defined) ||
      !std::ranges::all_of(made, &NDArray::defined)) {
    return NotFound("the run has not handed out all of it");
  }
  NODEWISE_ASSIGN_OR_RETURN(const Region region,
                            RegionOfTensors(node, read, made, ops));
  NODEWISE_ASSIGN_OR_RETURN(const auto reference,
                            InterpretCarryingBounds(region.network, read));
  NODEWISE_ASSIGN_OR_RETURN(const auto found,
                            RunReferee(referee, region.network, read));
  if (found.size() != made.size()) {
    return Internal("it has made {} tensors, expected {}", found.size(),
                    made.size());
  }
  return CompareReferee(reference, made, found, opinion);
}

struct ValueKeeper : public TensorSink {
  absl::Status Consume(const TensorItem& item) override {
    if (item.tensor == nullptr) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(values[item.key.node], AlignedCopyOf(item));
    return absl::OkStatus();
  }

  std::map<std::string, NDArray> values;  // By name.
};

// The facts about a node that are known before anything runs.
struct NodeText {
  std::optional<Region> region;
  std::string why_not;  // If it does not say what it computes.
};

// Sees the candidate's run: keeps what the network is given, and compares what
// the nodes make.
struct CandidateSink : public TensorSink {
  CandidateSink(const GraphIndex& graph_index,
                const std::function<NDArray(EntryId)>& expected_of,
                Tolerance by)
      : index(graph_index), expected(expected_of), tolerance(by) {}

  absl::Status Consume(const TensorItem& item) override {
    const auto entry = nodes.MadeEntryOf(item);
    if (!entry.has_value() || item.tensor == nullptr) return absl::OkStatus();
    const NodeId node = index.NodeOf(*entry);
    if (!index.graph().IsFunction(node)) {
      NODEWISE_ASSIGN_OR_RETURN(given[*entry], AlignedCopyOf(item));
      return absl::OkStatus();
    }
    const NDArray right = expected(*entry);
    if (!right.defined()) return absl::OkStatus();
    auto one = CompareTensors({.key = item.key, .tensor = right.tensor()},
                              *item.tensor,
                              AccumulatedOptions(tolerance, right.dtype()));
    // A tensor of another shape lies in another order than the reference's.
    if (!one.ok()) return absl::OkStatus();
    error[*entry] = RelativeError(*one);
    compared[node].push_back(*std::move(one));
    return absl::OkStatus();
  }

  const GraphIndex& index;
  const std::function<NDArray(EntryId)>& expected;
  const Tolerance tolerance;
  const KeyedNodes nodes{index};
  ByEntry<NDArray> given{index.graph()};
  ByNode<std::vector<TensorComparison>> compared{index.graph()};
  ByEntry<double> error{index.graph()};
};

// A node whose outputs are off in the network is run alone on what the
// reference handed out for its inputs. If it is right there, it inherits; if
// not, the definition of its operators decides between the two. The reference
// has no bounds of its own, so without that step each of its roundings would
// accuse.
struct OutsideLocator {
  const OutsideReferenceRequest& request;
  const LocateOptions& options;
  const GraphIndex& index = request.index;
  const Graph& graph = index.graph();
  const Tolerance tolerance = AccumulatedTolerance(graph);
  ByNode<NodeText> texts{graph};
  std::map<std::string, NDArray> values = {};  // The reference's, by name.
  // The reference's, from a run without a sink.
  std::vector<NDArray> outputs = {};
  std::unique_ptr<Runner> candidate = nullptr, apart = nullptr;
  OutsideLocated located = {};

  absl::StatusOr<OutsideLocated> Run() {
    ReadTexts();
    NODEWISE_RETURN_IF_ERROR(RunReference());
    const std::function<NDArray(EntryId)> expected = [this](EntryId entry) {
      return ReferenceOf(entry);
    };
    CandidateSink seen(index, expected, tolerance);
    NODEWISE_ASSIGN_OR_RETURN(candidate, request.makers.candidate());
    NODEWISE_ASSIGN_OR_RETURN(
        const RunResult made,
        candidate->Run(
            request.inputs,
            {.sink = &seen, .node_limit_ms = options.node_limit_ms}));
    // One run hands out everything that is judged; only nodes that are off need
    // more.
    NODEWISE_RETURN_IF_ERROR(CompareOutputs(made.outputs));
    bool any = false;
    for (const NodeId node : FunctionNodesOf(graph)) {
      any |= !seen.compared[node].empty();
      NODEWISE_RETURN_IF_ERROR(Judge(node, seen));
      if (options.progress) {
        options.progress(Index(node) + 1, graph.nodes.size());
      }
    }
    if (!any) {
      return FailedPrecondition(
          "{}: hands out nothing that a node makes, expected a model with the "
          "values of the target's",
          request.reference_name);
    }
    NODEWISE_RETURN_IF_ERROR(ConfirmCulprits());
    FindGain(&located.result);
    return std::move(located);
  }

  void ReadTexts() {
    for (const NodeId node : FunctionNodesOf(graph)) {
      auto region = RegionOfNode(graph, node, request.operators);
      if (region.ok()) {
        texts[node].region = *std::move(region);
      } else {
        texts[node].why_not = std::string(MessageOf(region.status()));
      }
    }
  }

  // Undefined if the reference has not handed it out, or its name is not known.
  NDArray ReferenceOf(EntryId entry) const {
    const std::optional<Region>& region = texts[index.NodeOf(entry)].region;
    if (!region.has_value()) return NDArray();
    const Network& network = region->network;
    const ValueId output = network.outputs()[index.OutputOf(entry)];
    const auto found = values.find(network.value(output).name);
    return found == values.end() ? NDArray() : found->second;
  }

  // Programs may compute operations apart whose values they hand out, so that
  // the outputs count as they are with nothing handed out.
  absl::Status RunReference() {
    NODEWISE_ASSIGN_OR_RETURN(const auto unseen, request.reference());
    NODEWISE_ASSIGN_OR_RETURN(const RunResult plain,
                              unseen->Run(request.inputs));
    outputs = Unnamed(plain.outputs);
    NODEWISE_ASSIGN_OR_RETURN(const auto seen, request.reference());
    ValueKeeper keeper;
    NODEWISE_ASSIGN_OR_RETURN(const RunResult looked_at,
                              seen->Run(request.inputs, {.sink = &keeper}));
    values = std::move(keeper.values);
    NODEWISE_ASSIGN_OR_RETURN(
        const auto changed,
        CompareNetworkOutputs(outputs, looked_at.outputs, tolerance));
    if (AnyIsWrong(changed)) {
      located.result.notes.push_back(fmt::format(
          "{}: makes other outputs when it hands out its values, off by {:.2g} "
          "of their size, so what it makes inside may not be what it makes "
          "otherwise",
          request.reference_name, LargestError(changed)));
    }
    return absl::OkStatus();
  }

  absl::Status CompareOutputs(const std::vector<NamedTensor>& made) {
    if (made.size() != outputs.size()) {
      return InvalidArgument(
          "{}: has {} outputs, expected {}, as the target has",
          request.reference_name, outputs.size(), made.size());
    }
    NODEWISE_ASSIGN_OR_RETURN(located.result.outputs,
                              CompareNetworkOutputs(outputs, made, tolerance));
    return absl::OkStatus();
  }

  absl::Status Judge(NodeId node, const CandidateSink& seen) {
    // Isolated evidence is added where the node runs alone.
    NodeReport report = ReportUnchecked(index, node, "");
    const std::vector<TensorComparison>& compared = seen.compared[node];
    // All of this is against the reference's run, so that it is accumulated.
    report.passed_on = LargestError(compared);
    for (const EntryRef& ref : graph.node(node).inputs) {
      report.received =
          std::max(report.received, seen.error[graph.EntryOf(ref)]);
    }
    // A node with an output that could not be compared is not judged by the
    // others.
    if (compared.size() != graph.OutputsOf(node)) {
      report.verdict = NodeVerdict::kInconclusive;
      report.reason =
          texts[node].region.has_value()
              ? "not compared: the reference does not hand out what it makes"
              : "not compared: " + texts[node].why_not;
    } else if (!AnyIsWrong(compared)) {
      report.evidence.isolated = Verdict::kPass;
      report.verdict = NodeVerdict::kHealthy;
      report.reason = "within the tolerance of the reference";
    } else {
      report.evidence.accumulated = Verdict::kError;
      NODEWISE_RETURN_IF_ERROR(JudgeAlone(seen, &report));
    }
    located.result.nodes.push_back(std::move(report));
    return absl::OkStatus();
  }

  absl::Status JudgeAlone(const CandidateSink& seen, NodeReport* report) {
    std::vector<NDArray> read;
    const auto made = RunAlone(*report, seen, &read);
    if (!made.ok()) {
      report->verdict = NodeVerdict::kInconclusive;
      report->reason = fmt::format("off in the network, and not run alone: {}",
                                   MessageOf(made.status()));
      return absl::OkStatus();
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto compared,
                              CompareAlone(report->node, *made));
    report->made = LargestError(compared);
    // Equal inputs, and another result: either the node is wrong or the
    // reference.
    if (AnyIsWrong(compared)) {
      report->evidence.isolated = Verdict::kError;
      report->worst = *std::ranges::max_element(compared, {}, &RelativeError);
      ArbitrateNode(*made, read, report);
      return absl::OkStatus();
    }
    // Right on equal inputs: the error in the network came with what it read.
    // If nothing came with that, only the places of tensors are left to
    // suspect.
    report->evidence.isolated = Verdict::kPass;
    report->verdict = report->received > 0 ? NodeVerdict::kInherits
                                           : NodeVerdict::kInconclusive;
    report->reason =
        report->received > 0
            ? fmt::format(
                  "right on what the reference gave it to read; what "
                  "it read was off by {:.2g} of its size",
                  report->received)
            : "off in the network, and right alone: a plan fault, or chance";
    return absl::OkStatus();
  }

  // Returns what the node makes of what the reference hands out, and what it
  // read then.
  absl::StatusOr<std::vector<NamedTensor>> RunAlone(
      const NodeReport& report, const CandidateSink& seen,
      std::vector<NDArray>* read) {
    RunOptions run;
    run.node_limit_ms = options.node_limit_ms;
    run.stop = StopRule{report.key, "the node", std::nullopt};
    // An entry that the node reads twice is patched once.
    std::vector<EntryId> patched;
    for (const EntryRef& ref : graph.node(report.node).inputs) {
      const EntryId entry = graph.EntryOf(ref);
      if (!graph.IsFunction(NodeId{ref.node})) {
        read->push_back(seen.given[entry]);
        continue;
      }
      read->push_back(ReferenceOf(entry));
      if (!read->back().defined()) {
        return NotFound("the reference does not hand out {}",
                        index.KeyOf(entry));
      }
      if (std::ranges::find(patched, entry) != patched.end()) continue;
      patched.push_back(entry);
      run.patches.push_back({index.KeyOf(entry), read->back(),
                             request.reference_name, report.key});
    }
    // The candidate's storage plan must not be able to change what is read or
    // made.
    if (apart == nullptr) {
      NODEWISE_ASSIGN_OR_RETURN(apart, request.makers.with_private_storage());
    }
    NODEWISE_ASSIGN_OR_RETURN(RunResult result,
                              apart->Run(request.inputs, run));
    if (result.outputs.size() == graph.OutputsOf(report.node)) {
      return std::move(result.outputs);
    }
    return NotFound("the run has not handed out what it made");
  }

  // Neither side has bounds here, so the tolerance of the network judges.
  absl::StatusOr<std::vector<TensorComparison>> CompareAlone(
      NodeId node, const std::vector<NamedTensor>& made) const {
    std::vector<TensorComparison> compared;
    for (uint32_t slot = 0; slot < made.size(); ++slot) {
      const NDArray expected = ReferenceOf(graph.EntryOf(node, slot));
      NODEWISE_ASSIGN_OR_RETURN(
          TensorComparison one,
          CompareNodeOutput(index.KeyOf(node), slot, expected,
                            *made[slot].tensor,
                            AccumulatedOptions(tolerance, expected.dtype())));
      compared.push_back(std::move(one));
    }
    return compared;
  }

  // Has the definitions of the operators decide whose result is right.
  void ArbitrateNode(const std::vector<NamedTensor>& made,
                     const std::vector<NDArray>& read, NodeReport* report) {
    OutsideAccusation accusation;
    accusation.report = located.result.nodes.size();
    const absl::Status asked = Referee(report->node, made, read, &accusation);
    if (!asked.ok()) accusation.why_not = std::string(MessageOf(asked));
    const OutsideVerdict& judged =
        kOutsideVerdicts[static_cast<size_t>(accusation.side)];
    report->verdict = judged.verdict;
    report->reason =
        fmt::format("off by {:.2g} of its size from {} on the same inputs; {}",
                    report->made, request.reference_name, judged.why);
    located.accusations.push_back(std::move(accusation));
  }

  absl::Status Referee(NodeId node, const std::vector<NamedTensor>& made,
                       const std::vector<NDArray>& read,
                       OutsideAccusation* accusation) const {
    if (!std::ranges::all_of(read, &NDArray::defined)) {
      return NotFound("the run has not handed out what it read");
    }
    // Both results are compared with the definition's of what the node read, by
    // its bounds.
    NODEWISE_ASSIGN_OR_RETURN(
        const auto definition,
        RunWithLazyBounds(texts[node].region->network, read));
    std::vector<NDArray> handed_out;
    for (const EntryId entry : EntriesMadeBy(graph, node)) {
      handed_out.push_back(ReferenceOf(entry));
    }
    const std::string& key = index.KeyOf(node);
    NODEWISE_ASSIGN_OR_RETURN(
        const auto ours, CompareByBounds(key, definition.get(), Unnamed(made)));
    NODEWISE_ASSIGN_OR_RETURN(
        const auto theirs, CompareByBounds(key, definition.get(), handed_out));
    accusation->from_candidate = LargestError(ours);
    accusation->from_reference = LargestError(theirs);
    // Two against one needs a referee that is with one side alone.
    const bool with_candidate = IsWithin(ours);
    const bool with_reference = IsWithin(theirs);
    accusation->side = with_candidate && with_reference ? RefereeSide::kBoth
                       : with_candidate ? RefereeSide::kCandidate
                       : with_reference ? RefereeSide::kReference
                                        : RefereeSide::kNeither;
    return absl::OkStatus();
  }

  // Where bounds leave it open, the tolerance of the network decides.
  bool IsWithin(absl::Span<const TensorComparison> compared) const {
    const Verdict verdict = IsolatedVerdict(compared);
    if (verdict != Verdict::kInconclusive) return verdict == Verdict::kPass;
    return LargestError(compared) <= tolerance.relative;
  }

  // The outputs are measured against the reference, and so its tensors stand in
  // for a culprit's.
  absl::Status ConfirmCulprits() {
    const OutputError error = ErrorOf(located.result.outputs);
    for (size_t i = 0; i < located.result.nodes.size(); ++i) {
      const NodeReport& report = located.result.nodes[i];
      if (!IsCulpritVerdict(report.verdict)) continue;
      Culprit culprit{i, std::nullopt, {}};
      const bool can_be_confirmed =
          error.any() &&
          located.result.culprits.size() < options.most_confirmed;
      if (can_be_confirmed) {
        NODEWISE_ASSIGN_OR_RETURN(culprit.share, ShareOf(report.node, error));
      }
      located.result.culprits.push_back(std::move(culprit));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<double> ShareOf(NodeId node, const OutputError& error) {
    RunOptions run;
    run.node_limit_ms = options.node_limit_ms;
    for (const EntryId entry : EntriesMadeBy(graph, node)) {
      run.patches.push_back({index.KeyOf(entry), ReferenceOf(entry),
                             request.reference_name, index.KeyOf(node)});
    }
    NODEWISE_ASSIGN_OR_RETURN(const RunResult made,
                              candidate->Run(request.inputs, run));
    NODEWISE_ASSIGN_OR_RETURN(
        const auto left,
        CompareNetworkOutputs(outputs, made.outputs, tolerance));
    return ShareRemoved(error, ErrorOf(left));
  }
};

}  // namespace

std::string_view NameOf(RefereeSide side) {
  return kSideNames[static_cast<size_t>(side)];
}

absl::StatusOr<std::vector<RefereeOpinion>> AskReferee(
    const LocateRequest& request, const LocateResult& result,
    const RefereeMaker& referee) {
  // All culprits are asked about in one run, so that a program starts once.
  const Graph& graph = request.index.graph();
  NodeTensorSink sink;
  std::vector<RefereeOpinion> opinions;
  for (size_t i = 0; i < result.culprits.size(); ++i) {
    const NodeReport& report = result.nodes[result.culprits[i].report];
    if (report.verdict != NodeVerdict::kBroken) continue;
    NodeTensors& tensors = sink.nodes[report.key];
    tensors.read.resize(graph.node(report.node).inputs.size());
    tensors.made.resize(graph.OutputsOf(report.node));
    opinions.push_back({i, RefereeSide::kNotAsked, "", 0, 0});
  }
  // A run of the candidate would tell nothing.
  if (opinions.empty()) return opinions;
  NODEWISE_ASSIGN_OR_RETURN(const auto candidate, request.candidate());
  NODEWISE_RETURN_IF_ERROR(
      candidate->Run(request.inputs, {.sink = &sink, .with_node_inputs = true})
          .status());
  for (RefereeOpinion& opinion : opinions) {
    const NodeReport& report =
        result.nodes[result.culprits[opinion.culprit].report];
    const absl::Status judged =
        JudgeAsReferee(graph.node(report.node), sink.nodes[report.key],
                       request.operators, referee, &opinion);
    if (!judged.ok()) opinion.why_not = std::string(MessageOf(judged));
  }
  return opinions;
}

absl::StatusOr<OutsideLocated> LocateByOutsideReference(
    const OutsideReferenceRequest& request, const LocateOptions& options) {
  return OutsideLocator{request, options}.Run();
}

}  // namespace nodewise
