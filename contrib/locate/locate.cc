#include "nodewise/locate/locate.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "contrib/locate/accumulated_rule.h"
#include "contrib/locate/node_report.h"
#include "contrib/locate/observed_run.h"
#include "contrib/locate/output_error.h"
#include "contrib/locate/run_hashes.h"
#include "fmt/format.h"
#include "nodewise/locate/exact_inputs.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

class Locator {
 public:
  Locator(const LocateRequest& request, const LocateOptions& options)
      : request_(request),
        options_(options),
        index_(request.index),
        graph_(request.index.graph()),
        tolerance_(AccumulatedTolerance(graph_)) {}

  absl::StatusOr<LocateResult> Run() {
    NODEWISE_ASSIGN_OR_RETURN(candidate_, request_.candidate());
    NODEWISE_RETURN_IF_ERROR(Observe());
    NODEWISE_RETURN_IF_ERROR(RunAgain());
    NODEWISE_RETURN_IF_ERROR(CheckPrivately());
    CheckWithExactInputs();
    NoteOverwritten();
    for (NodeReport& report : result_.nodes) {
      Conclude(index_, overwritten_, &report);
    }
    NODEWISE_RETURN_IF_ERROR(NameCulprits());
    if (result_.AreOutputsWrong() && result_.culprits.empty()) FindGain();
    return std::move(result_);
  }

 private:
  // Runs the candidate once; the reference follows it node by node.
  absl::Status Observe() {
    HashSink hashes(index_);
    ObservedRun run(*candidate_, request_.inputs, &hashes);
    NodeCheckOptions check;
    check.with_accumulated = true;
    check.progress = options_.progress;
    NODEWISE_ASSIGN_OR_RETURN(
        checks_, CheckNodes(graph_, request_.operators, run, check));
    hashes_ = hashes.Finish(run.outputs());
    overwritten_ = FindOverwritten(index_, index_.plan(), hashes_);
    NODEWISE_ASSIGN_OR_RETURN(result_.outputs,
                              CompareNetworkOutputs(checks_.reference_outputs,
                                                    run.outputs(), tolerance_));
    for (const NodeCheck& checked : checks_.nodes) {
      result_.nodes.push_back(ReportOf(index_, checked));
    }
    for (const SkippedNode& skipped : checks_.skipped) {
      result_.nodes.push_back(ReportOf(index_, skipped));
    }
    std::sort(result_.nodes.begin(), result_.nodes.end(),
              [](const NodeReport& a, const NodeReport& b) {
                return a.node < b.node;
              });
    return absl::OkStatus();
  }

  absl::Status RunAgain() {
    for (int i = 0; i < options_.repeats; ++i) {
      NODEWISE_ASSIGN_OR_RETURN(
          const RunHashes other,
          HashesOfRun(*candidate_, index_, request_.inputs));
      for (NodeReport& report : result_.nodes) {
        if (!IsSteady(graph_, report.node, hashes_, other)) {
          report.evidence.is_steady = false;
        }
      }
    }
    return absl::OkStatus();
  }

  // A plan fault may hide in whatever looks wrong.
  absl::Status CheckPrivately() {
    if (!options_.checks_storage || !request_.with_private_storage) {
      return absl::OkStatus();
    }
    const auto looks_wrong = [this](NodeId node) {
      const NodeReport* const report = FindReport(node);
      return report != nullptr && report->worst.has_value() &&
             report->evidence.isolated == Verdict::kError;
    };
    const bool any = std::any_of(
        result_.nodes.begin(), result_.nodes.end(),
        [&](const NodeReport& report) { return looks_wrong(report.node); });
    if (!any && overwritten_.empty()) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(const auto runner,
                              request_.with_private_storage());
    ObservedRun run(*runner, request_.inputs);
    if (!any) return KeepPrivateOutputs(&run);
    NodeCheckOptions check;
    check.selects = looks_wrong;
    NODEWISE_ASSIGN_OR_RETURN(
        const NodeChecks checks,
        CheckNodes(graph_, request_.operators, run, check));
    for (const NodeCheck& checked : checks.nodes) {
      FindReport(checked.node)->evidence.isolated_privately =
          IsolatedVerdict(checked);
    }
    private_outputs_ = run.outputs();
    return absl::OkStatus();
  }

  absl::Status KeepPrivateOutputs(ObservedRun* run) {
    HashSink nobody(index_);
    NODEWISE_RETURN_IF_ERROR(run->Visit(nobody));
    private_outputs_ = run->outputs();
    return absl::OkStatus();
  }

  // Settles what bounds cannot, or nearly cannot.
  void CheckWithExactInputs() {
    if (options_.exact_inputs == ExactInputs::kNever ||
        !candidate_->Can(Capability::kSteps)) {
      return;
    }
    const bool for_all = options_.exact_inputs == ExactInputs::kForAll;
    size_t checked = 0;
    for (NodeReport& report : result_.nodes) {
      if (!for_all && !IsUnsettled(report)) continue;
      if (!for_all && checked++ == options_.most_unsettled) break;
      AddExactCheck(CheckExactly(index_, request_.operators, report.node,
                                 *candidate_, request_.inputs),
                    &report);
    }
  }

  void NoteOverwritten() {
    for (const Overwriting& found : overwritten_) {
      NodeReport* const reader = FindReport(found.reader);
      if (reader != nullptr) reader->evidence.read_overwritten = true;
      NodeReport* const writer = FindReport(found.writer);
      if (writer != nullptr) {
        writer->evidence.wrote_over = true;
        continue;
      }
      result_.notes.push_back(fmt::format(
          "{}: something has written over it, but by the storage plan no node "
          "does (run with --sanitize says who)",
          index_.KeyOf(found.victim)));
    }
  }

  absl::Status NameCulprits() {
    const OutputError error = ErrorOf(result_.outputs);
    for (size_t i = 0; i < result_.nodes.size(); ++i) {
      const NodeReport& report = result_.nodes[i];
      if (!Accuses(report.verdict)) continue;
      Culprit culprit{i, std::nullopt,
                      VictimsOf(index_, overwritten_, report.node)};
      if (error.any() && result_.culprits.size() < options_.most_confirmed) {
        NODEWISE_ASSIGN_OR_RETURN(
            culprit.share,
            ShareOf(report, PatchesOf(checks_, report.node), error));
      }
      result_.culprits.push_back(std::move(culprit));
    }
    const bool can_be_joined =
        result_.culprits.size() > 1 &&
        result_.culprits.size() <= options_.most_confirmed &&
        result_.CountOf(NodeVerdict::kPlanFault) == 0;
    if (!error.any() || !can_be_joined) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(result_.share_of_all, ShareOfAll(error));
    return absl::OkStatus();
  }

  // What a culprit should have made depends on those before it: each is asked
  // for in a run in which they are right.
  absl::StatusOr<std::optional<double>> ShareOfAll(const OutputError& error) {
    std::vector<TensorPatch> patches;
    for (const Culprit& culprit : result_.culprits) {
      const NodeId node = result_.nodes[culprit.report].node;
      ObservedRun run(*candidate_, request_.inputs, patches);
      NodeCheckOptions check;
      check.selects = [node](NodeId id) { return id == node; };
      NODEWISE_ASSIGN_OR_RETURN(
          const NodeChecks checks,
          CheckNodes(graph_, request_.operators, run, check));
      std::vector<TensorPatch> more = PatchesOf(checks, node);
      patches.insert(patches.end(), more.begin(), more.end());
    }
    return ShareWith(patches, error);
  }

  // A plan fault is gone where every tensor has memory of its own; any other
  // where the network goes on with what the node should have made.
  absl::StatusOr<std::optional<double>> ShareOf(
      const NodeReport& report, const std::vector<TensorPatch>& patches,
      const OutputError& error) {
    if (report.verdict == NodeVerdict::kPlanFault) {
      if (private_outputs_.empty()) return std::nullopt;
      NODEWISE_ASSIGN_OR_RETURN(
          const auto left, CompareNetworkOutputs(checks_.reference_outputs,
                                                 private_outputs_, tolerance_));
      return ShareGone(error, ErrorOf(left));
    }
    if (patches.empty()) return std::nullopt;
    return ShareWith(patches, error);
  }

  absl::StatusOr<std::optional<double>> ShareWith(
      const std::vector<TensorPatch>& patches, const OutputError& error) {
    RunOptions run;
    run.patches = patches;
    NODEWISE_ASSIGN_OR_RETURN(const RunResult result,
                              candidate_->Run(request_.inputs, run));
    NODEWISE_ASSIGN_OR_RETURN(
        const auto left, CompareNetworkOutputs(checks_.reference_outputs,
                                               result.outputs, tolerance_));
    return ShareGone(error, ErrorOf(left));
  }

  // What the reference makes of what the node read: so only its own error goes,
  // and what it inherited stays.
  static std::vector<TensorPatch> PatchesOf(const NodeChecks& checks,
                                            NodeId node) {
    std::vector<TensorPatch> patches;
    for (const NodeCheck& check : checks.nodes) {
      if (check.node != node) continue;
      for (uint32_t slot = 0; slot < check.expected.size(); ++slot) {
        patches.push_back({fmt::format("{}:{}", check.key, slot),
                           check.expected[slot], "the reference", check.key});
      }
    }
    return patches;
  }

  void FindGain() {
    double largest = 0;
    for (size_t i = 0; i < result_.nodes.size(); ++i) {
      const double gain = result_.nodes[i].gain();
      if (gain <= largest) continue;
      largest = gain;
      result_.largest_gain = i;
    }
  }

  // Null for what is no function node.
  NodeReport* FindReport(NodeId node) {
    const auto found = std::lower_bound(
        result_.nodes.begin(), result_.nodes.end(), node,
        [](const NodeReport& report, NodeId id) { return report.node < id; });
    const bool is_there = found != result_.nodes.end() && found->node == node;
    return is_there ? &*found : nullptr;
  }

  const LocateRequest& request_;
  const LocateOptions& options_;
  const GraphIndex& index_;
  const Graph& graph_;
  const Tolerance tolerance_;  // Of the outputs.
  std::unique_ptr<Runner> candidate_;
  NodeChecks checks_;
  RunHashes hashes_;
  std::vector<Overwriting> overwritten_;
  std::vector<NamedTensor> private_outputs_;
  LocateResult result_;
};

}  // namespace

double NodeReport::gain() const {
  if (received == 0 || !std::isfinite(received)) return 0;
  return std::max(passed_on - made, 0.0) / received;
}

bool LocateResult::AreOutputsWrong() const {
  return std::any_of(
      outputs.begin(), outputs.end(),
      [](const TensorComparison& output) { return output.is_wrong(); });
}

size_t LocateResult::CountOf(NodeVerdict verdict) const {
  return static_cast<size_t>(std::count_if(
      nodes.begin(), nodes.end(),
      [&](const NodeReport& report) { return report.verdict == verdict; }));
}

absl::StatusOr<LocateResult> Locate(const LocateRequest& request,
                                    const LocateOptions& options) {
  return Locator(request, options).Run();
}

}  // namespace nodewise
