#include "nodewise/locate/outside_reference.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "contrib/locate/accumulated_rule.h"
#include "contrib/locate/node_report.h"
#include "contrib/locate/output_error.h"
#include "fmt/format.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/interp/bounded_run.h"
#include "nodewise/locate/layer.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

using Values = std::map<std::string, NDArray>;  // By the values' names.

class ValueKeeper : public TensorSink {
 public:
  absl::Status Take(const TensorItem& item) override {
    if (item.tensor == nullptr) return absl::OkStatus();
    // Operators read whole vectors, so they need aligned copies.
    NODEWISE_ASSIGN_OR_RETURN(
        values_[item.key.node],
        NDArray::Borrow(*item.tensor, nullptr).CopyToHost());
    return absl::OkStatus();
  }
  Values& values() { return values_; }

 private:
  Values values_;
};

// The facts about a node that are known before anything runs.
struct NodeText {
  std::optional<Region> region;
  std::string why_not;  // If it does not say what it computes.
};

// Sees the candidate's run: keeps what the network is given, and compares what
// the nodes make.
class CandidateSink : public TensorSink {
 public:
  CandidateSink(const GraphIndex& index,
                const std::function<NDArray(EntryId)>& expected,
                Tolerance tolerance)
      : graph_(index.graph()),
        expected_(expected),
        tolerance_(tolerance),
        given_(graph_),
        compared_(graph_),
        error_(graph_) {
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      nodes_.emplace(index.KeyOf(NodeId{n}), NodeId{n});
    }
  }

  absl::Status Take(const TensorItem& item) override {
    const auto found = nodes_.find(item.key.node);
    const bool counts = found != nodes_.end() && item.tensor != nullptr &&
                        item.key.role == TensorRole::kOutput &&
                        item.key.slot < graph_.OutputsOf(found->second);
    if (!counts) return absl::OkStatus();
    const EntryId entry = graph_.EntryOf(found->second, item.key.slot);
    if (!graph_.IsFunction(found->second)) {
      NODEWISE_ASSIGN_OR_RETURN(
          given_[entry], NDArray::Borrow(*item.tensor, nullptr).CopyToHost());
      return absl::OkStatus();
    }
    const NDArray expected = expected_(entry);
    if (!expected.defined()) return absl::OkStatus();
    TensorItem right{item.key};
    right.tensor = expected.tensor();
    auto compared = CompareTensors(
        right, *item.tensor, AccumulatedOptions(tolerance_, expected.dtype()));
    // A tensor of another shape lies in another order than the reference's.
    if (!compared.ok()) return absl::OkStatus();
    error_[entry] = RelativeError(*compared);
    compared_[found->second].push_back(*std::move(compared));
    return absl::OkStatus();
  }

  const NDArray& Given(EntryId entry) const { return given_[entry]; }
  const std::vector<TensorComparison>& Compared(NodeId node) const {
    return compared_[node];
  }
  double ErrorOf(EntryId entry) const { return error_[entry]; }

 private:
  const Graph& graph_;
  const std::function<NDArray(EntryId)>& expected_;
  const Tolerance tolerance_;
  std::unordered_map<std::string, NodeId> nodes_;  // By key.
  ByEntry<NDArray> given_;
  ByNode<std::vector<TensorComparison>> compared_;
  ByEntry<double> error_;
};

double LargestError(absl::Span<const TensorComparison> outputs) {
  double largest = 0;
  for (const TensorComparison& output : outputs) {
    largest = std::max(largest, RelativeError(output));
  }
  return largest;
}

bool AnyWrong(absl::Span<const TensorComparison> outputs) {
  return std::any_of(
      outputs.begin(), outputs.end(),
      [](const TensorComparison& output) { return output.is_wrong(); });
}

class OutsideLocator {
 public:
  OutsideLocator(const OutsideReferenceRequest& request,
                 const LocateOptions& options)
      : request_(request),
        options_(options),
        index_(request.index),
        graph_(index_.graph()),
        tolerance_(AccumulatedTolerance(graph_)),
        texts_(graph_) {}

  absl::StatusOr<OutsideLocated> Run() {
    ReadTexts();
    NODEWISE_RETURN_IF_ERROR(Refer());
    const std::function<NDArray(EntryId)> expected = [this](EntryId entry) {
      return ReferenceOf(entry);
    };
    CandidateSink seen(index_, expected, tolerance_);
    NODEWISE_ASSIGN_OR_RETURN(candidate_, request_.makers.candidate());
    RunOptions run;
    run.sink = &seen;
    run.node_limit_ms = options_.node_limit_ms;
    NODEWISE_ASSIGN_OR_RETURN(const RunResult made,
                              candidate_->Run(request_.inputs, run));
    NODEWISE_RETURN_IF_ERROR(CompareOutputs(made.outputs));
    bool any = false;
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!graph_.IsFunction(NodeId{n})) continue;
      any = any || !seen.Compared(NodeId{n}).empty();
      NODEWISE_RETURN_IF_ERROR(Judge(NodeId{n}, seen));
      if (options_.progress) options_.progress(n + 1, graph_.nodes.size());
    }
    if (!any) {
      return absl::FailedPreconditionError(fmt::format(
          "{}: hands out nothing that a node makes, expected a model with the "
          "values of the target's",
          request_.reference_name));
    }
    NODEWISE_RETURN_IF_ERROR(ConfirmCulprits());
    FindGain(&located_.result);
    return std::move(located_);
  }

 private:
  void ReadTexts() {
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      const NodeId node{n};
      if (!graph_.IsFunction(node)) continue;
      auto region = RegionOfNode(graph_, node, request_.operators);
      if (region.ok()) {
        texts_[node].region = *std::move(region);
      } else {
        texts_[node].why_not = std::string(MessageOf(region.status()));
      }
    }
  }

  // The reference's name for an output of the node; empty if it is not known.
  std::string NameOfOutput(NodeId node, uint32_t slot) const {
    const std::optional<Region>& region = texts_[node].region;
    if (!region.has_value()) return "";
    const Network& network = region->network;
    return network.value(network.outputs()[slot]).name;
  }

  // Undefined if the reference has not handed it out.
  NDArray ReferenceOf(EntryId entry) const {
    const NodeId node = graph_.NodeOf(entry);
    const uint32_t slot = Index(entry) - Index(graph_.EntryOf(node, 0));
    const auto found = values_.find(NameOfOutput(node, slot));
    return found == values_.end() ? NDArray() : found->second;
  }

  absl::Status Refer() {
    NODEWISE_ASSIGN_OR_RETURN(const auto unseen, request_.reference());
    NODEWISE_ASSIGN_OR_RETURN(const RunResult plain,
                              unseen->Run(request_.inputs));
    for (const NamedTensor& output : plain.outputs) {
      outputs_.push_back(output.tensor);
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto seen, request_.reference());
    ValueKeeper keeper;
    RunOptions run;
    run.sink = &keeper;
    NODEWISE_ASSIGN_OR_RETURN(const RunResult looked_at,
                              seen->Run(request_.inputs, run));
    values_ = std::move(keeper.values());
    NODEWISE_ASSIGN_OR_RETURN(
        const auto changed,
        CompareNetworkOutputs(outputs_, looked_at.outputs, tolerance_));
    if (AnyWrong(changed)) {
      located_.result.notes.push_back(fmt::format(
          "{}: makes other outputs when it hands out its values, off by {:.2g} "
          "of their size, so what it makes inside may not be what it makes "
          "otherwise",
          request_.reference_name, LargestError(changed)));
    }
    return absl::OkStatus();
  }

  absl::Status CompareOutputs(const std::vector<NamedTensor>& made) {
    if (made.size() != outputs_.size()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: has {} outputs, expected {}, as the target has",
                      request_.reference_name, outputs_.size(), made.size()));
    }
    NODEWISE_ASSIGN_OR_RETURN(
        located_.result.outputs,
        CompareNetworkOutputs(outputs_, made, tolerance_));
    return absl::OkStatus();
  }

  absl::Status Judge(NodeId node, const CandidateSink& seen) {
    NodeReport report =
        ReportOf(index_, SkippedNode{node, index_.KeyOf(node), ""});
    const std::vector<TensorComparison>& compared = seen.Compared(node);
    report.passed_on = LargestError(compared);
    for (const EntryRef& ref : graph_.node(node).inputs) {
      report.received =
          std::max(report.received, seen.ErrorOf(graph_.EntryOf(ref)));
    }
    if (compared.size() != graph_.OutputsOf(node)) {
      report.verdict = NodeVerdict::kInconclusive;
      report.reason =
          texts_[node].region.has_value()
              ? "not compared: the reference does not hand out what it makes"
              : "not compared: " + texts_[node].why_not;
    } else if (!AnyWrong(compared)) {
      report.evidence.isolated = Verdict::kPass;
      report.verdict = NodeVerdict::kHealthy;
      report.reason = "within the tolerance of the reference";
    } else {
      report.evidence.accumulated = Verdict::kError;
      NODEWISE_RETURN_IF_ERROR(JudgeAlone(seen, &report));
    }
    located_.result.nodes.push_back(std::move(report));
    return absl::OkStatus();
  }

  // The node, which is off in the network, on what the reference gave to read.
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
    if (AnyWrong(compared)) {
      report->evidence.isolated = Verdict::kError;
      report->worst = *std::max_element(
          compared.begin(), compared.end(),
          [](const TensorComparison& a, const TensorComparison& b) {
            return RelativeError(a) < RelativeError(b);
          });
      Accuse(*made, read, report);
      return absl::OkStatus();
    }
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
    run.node_limit_ms = options_.node_limit_ms;
    run.stop = StopRule{report.key, "the node", std::nullopt};
    std::vector<EntryId> patched;
    for (const EntryRef& ref : graph_.node(report.node).inputs) {
      const EntryId entry = graph_.EntryOf(ref);
      if (!graph_.IsFunction(NodeId{ref.node})) {
        read->push_back(seen.Given(entry));
        continue;
      }
      read->push_back(ReferenceOf(entry));
      if (!read->back().defined()) {
        return absl::NotFoundError(fmt::format(
            "the reference does not hand out {}", index_.KeyOf(entry)));
      }
      if (std::find(patched.begin(), patched.end(), entry) != patched.end()) {
        continue;
      }
      patched.push_back(entry);
      run.patches.push_back({index_.KeyOf(entry), read->back(),
                             request_.reference_name, report.key});
    }
    if (private_ == nullptr) {
      NODEWISE_ASSIGN_OR_RETURN(private_,
                                request_.makers.with_private_storage());
    }
    NODEWISE_ASSIGN_OR_RETURN(RunResult result,
                              private_->Run(request_.inputs, run));
    if (result.outputs.size() == graph_.OutputsOf(report.node)) {
      return std::move(result.outputs);
    }
    return absl::NotFoundError("the run has not handed out what it made");
  }

  absl::StatusOr<std::vector<TensorComparison>> CompareAlone(
      NodeId node, const std::vector<NamedTensor>& made) const {
    std::vector<TensorComparison> compared;
    for (uint32_t slot = 0; slot < made.size(); ++slot) {
      const NDArray expected = ReferenceOf(graph_.EntryOf(node, slot));
      const TensorKey key{index_.KeyOf(node), slot, TensorRole::kOutput,
                          "reference"};
      TensorItem item{key};
      item.tensor = expected.tensor();
      NODEWISE_ASSIGN_OR_RETURN(
          TensorComparison one,
          CompareTensors(item, *made[slot].tensor,
                         AccumulatedOptions(tolerance_, expected.dtype())));
      compared.push_back(std::move(one));
    }
    return compared;
  }

  // Has the definitions of the operators decide whose result is right.
  void Accuse(const std::vector<NamedTensor>& made,
              const std::vector<NDArray>& read, NodeReport* report) {
    OutsideAccusation accusation;
    accusation.report = located_.result.nodes.size();
    const absl::Status asked = Referee(report->node, made, read, &accusation);
    if (!asked.ok()) accusation.why_not = std::string(MessageOf(asked));
    const std::string off =
        fmt::format("off by {:.2g} of its size from {} on the same inputs; ",
                    report->made, request_.reference_name);
    report->verdict = NodeVerdict::kInconclusive;
    switch (accusation.side) {
      case RefereeSide::kReference:
        report->verdict = NodeVerdict::kBroken;
        report->reason = off + "so it is from the definition of its operators";
        break;
      case RefereeSide::kCandidate:
        report->verdict = NodeVerdict::kHealthy;
        report->reason = off + "but as the definition of its operators has it";
        break;
      case RefereeSide::kBoth:
        report->reason = off + "the definition of its operators allows both";
        break;
      case RefereeSide::kNeither:
        report->reason =
            off + "and neither is as the definition of its operators has it";
        break;
      case RefereeSide::kNotAsked:
        report->reason = off + "the referee could not compute it";
        break;
    }
    located_.accusations.push_back(std::move(accusation));
  }

  absl::Status Referee(NodeId node, const std::vector<NamedTensor>& made,
                       const std::vector<NDArray>& read,
                       OutsideAccusation* accusation) const {
    for (const NDArray& tensor : read) {
      if (tensor.defined()) continue;
      return absl::NotFoundError("the run has not handed out what it read");
    }
    NODEWISE_ASSIGN_OR_RETURN(
        const auto definition,
        RunWithLazyBounds(texts_[node].region->network, read));
    NodeCheck candidate{node, index_.KeyOf(node)}, reference = candidate;
    for (uint32_t slot = 0; slot < made.size(); ++slot) {
      const TensorKey key{index_.KeyOf(node), slot, TensorRole::kOutput};
      TensorItem item{key};
      item.tensor = definition->outputs()[slot].tensor();
      item.bound_source = &definition->bounds(slot);
      const NDArray handed_out = ReferenceOf(graph_.EntryOf(node, slot));
      for (const auto& [check, tensor] :
           {std::pair(&candidate, made[slot].tensor.tensor()),
            std::pair(&reference, handed_out.tensor())}) {
        NODEWISE_ASSIGN_OR_RETURN(TensorComparison compared,
                                  CompareTensors(item, *tensor));
        check->outputs.push_back(std::move(compared));
      }
    }
    accusation->from_candidate = candidate.MadeError();
    accusation->from_reference = reference.MadeError();
    const bool with_candidate = IsWithin(candidate);
    const bool with_reference = IsWithin(reference);
    accusation->side = with_candidate && with_reference ? RefereeSide::kBoth
                       : with_candidate ? RefereeSide::kCandidate
                       : with_reference ? RefereeSide::kReference
                                        : RefereeSide::kNeither;
    return absl::OkStatus();
  }

  // Where bounds leave it open, the tolerance of the network decides.
  bool IsWithin(const NodeCheck& check) const {
    const Verdict verdict = IsolatedVerdict(check);
    if (verdict != Verdict::kInconclusive) return verdict == Verdict::kPass;
    return check.MadeError() <= tolerance_.relative;
  }

  absl::Status ConfirmCulprits() {
    const OutputError error = ErrorOf(located_.result.outputs);
    for (size_t i = 0; i < located_.result.nodes.size(); ++i) {
      const NodeReport& report = located_.result.nodes[i];
      if (!Accuses(report.verdict)) continue;
      Culprit culprit{i, std::nullopt, {}};
      const bool can_be_confirmed =
          error.any() &&
          located_.result.culprits.size() < options_.most_confirmed;
      if (can_be_confirmed) {
        NODEWISE_ASSIGN_OR_RETURN(culprit.share, ShareOf(report.node, error));
      }
      located_.result.culprits.push_back(std::move(culprit));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<double> ShareOf(NodeId node, const OutputError& error) {
    RunOptions run;
    run.node_limit_ms = options_.node_limit_ms;
    for (uint32_t slot = 0; slot < graph_.OutputsOf(node); ++slot) {
      const EntryId entry = graph_.EntryOf(node, slot);
      run.patches.push_back({index_.KeyOf(entry), ReferenceOf(entry),
                             request_.reference_name, index_.KeyOf(node)});
    }
    NODEWISE_ASSIGN_OR_RETURN(const RunResult made,
                              candidate_->Run(request_.inputs, run));
    NODEWISE_ASSIGN_OR_RETURN(
        const auto left,
        CompareNetworkOutputs(outputs_, made.outputs, tolerance_));
    return ShareGone(error, ErrorOf(left));
  }

  const OutsideReferenceRequest& request_;
  const LocateOptions& options_;
  const GraphIndex& index_;
  const Graph& graph_;
  const Tolerance tolerance_;
  ByNode<NodeText> texts_;
  Values values_;                 // The reference's.
  std::vector<NDArray> outputs_;  // The reference's, from a run without a sink.
  std::unique_ptr<Runner> candidate_, private_;
  OutsideLocated located_;
};

}  // namespace

absl::StatusOr<OutsideLocated> LocateByOutsideReference(
    const OutsideReferenceRequest& request, const LocateOptions& options) {
  return OutsideLocator(request, options).Run();
}

}  // namespace nodewise
