#include "nodewise/locate/locate.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "contrib/locate/accumulated_rule.h"
#include "contrib/locate/misreported.h"
#include "contrib/locate/node_report.h"
#include "contrib/locate/observed_run.h"
#include "contrib/locate/output_error.h"
#include "contrib/locate/run_hashes.h"
#include "contrib/locate/spoiler.h"
#include "contrib/locate/stand_in_search.h"
#include "contrib/locate/subnormal_blame.h"
#include "fmt/format.h"
#include "nodewise/locate/exact_inputs.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr size_t kNamedNodes = 8;
// How many culprits of another program are measured where all are known.
constexpr size_t kFewConfirmed = 6;
// The least share of a wrong output's error that matters.
constexpr double kLeastShare = 0.05;

class Locator {
 public:
  // One turn of the search. All must outlive this.
  Locator(const LocateRequest& request, const LocateOptions& options,
          const StandInSearch& search)
      : request_(request),
        options_(options),
        search_(search),
        makers_(search.makers()),
        is_cut_(search.is_cut()),
        index_(request.index),
        graph_(request.index.graph()),
        tolerance_(AccumulatedTolerance(graph_)),
        runs_sink_(index_) {}

  // Runs the candidate and has the reference follow it.
  absl::Status Look() {
    NODEWISE_ASSIGN_OR_RETURN(candidate_, makers_.candidate());
    NODEWISE_RETURN_IF_ERROR(StartOften());
    // To run often is also the cheapest way to find out whether all runs come
    // to an end.
    if (!request_.runs_at_once) NODEWISE_RETURN_IF_ERROR(FinishOften());
    NODEWISE_RETURN_IF_ERROR(Observe());
    return request_.runs_at_once ? FinishOften() : absl::OkStatus();
  }

  // REQUIRES: Look() was successful.
  absl::StatusOr<LocateResult> Judge() {
    CompareRuns();
    NODEWISE_RETURN_IF_ERROR(CheckPrivately());
    CheckWithExactInputs();
    NoteOverwritten();
    for (const NodeFloats& found : floats_) {
      const auto node = index_.FindNode(found.key);
      NodeReport* const report = node.ok() ? FindReport(*node) : nullptr;
      if (report != nullptr) NoteFloats(found.change, report);
    }
    NoteFailures(search_.stand_ins(), &result_);
    for (NodeReport& report : result_.nodes) {
      Conclude(index_, overwritten_, &report);
    }
    NODEWISE_RETURN_IF_ERROR(BlameSpoilers());
    ForgiveMisreported();
    NoteKnown();
    NODEWISE_RETURN_IF_ERROR(NameCulprits());
    NODEWISE_RETURN_IF_ERROR(JudgeRemarks());
    FindGain(&result_);
    return std::move(result_);
  }

  // Returns how often the candidate has come to the end of a run.
  size_t runs() const { return runs_; }

  // Returns the failure of another node if that is why one has ended a run;
  // else the one that is given. A node that does not return is not tried again:
  // each time takes as long.
  absl::Status WhoIsToBlame(const absl::Status& status) {
    const auto failure = FailureOf(status);
    if (!failure.has_value() || candidate_ == nullptr ||
        failure->kind == NodeFailure::Kind::kHang ||
        failure->kind == NodeFailure::Kind::kSideEffect) {
      return status;
    }
    const auto node = index_.FindNode(failure->node);
    if (!node.ok()) return status;
    const absl::Status blamed =
        BlameSpoiler(index_, *candidate_, request_.inputs, *node, "fail",
                     options_.node_limit_ms);
    return blamed.ok() ? status : blamed;
  }

 private:
  // A node that looks broken may be so only after another one has run.
  absl::Status BlameSpoilers() {
    constexpr size_t kMostTried = 4;
    size_t tried = 0;
    if (is_cut_ || !options_.checks_storage) return absl::OkStatus();
    for (const NodeReport& report : result_.nodes) {
      if (report.verdict != NodeVerdict::kBroken) continue;
      if (tried++ == kMostTried) break;
      NODEWISE_RETURN_IF_ERROR(
          BlameSpoiler(index_, *candidate_, request_.inputs, report.node,
                       "compute something else", options_.node_limit_ms));
    }
    return absl::OkStatus();
  }

  // Where only what is handed out says what nodes read, it may be another thing
  // than what the candidate computes with.
  void ForgiveMisreported() {
    if (is_cut_ || !options_.only_handed_out || options_.is_strict) return;
    std::vector<NodeId> wrong;
    for (const NodeReport& report : result_.nodes) {
      const bool is_wrong =
          report.verdict == NodeVerdict::kBroken && report.evidence.is_large;
      if (is_wrong) wrong.push_back(report.node);
    }
    std::vector<std::string> names;
    for (const Misreported& misreported :
         FindMisreported(index_, checks_, wrong)) {
      NodeReport& report = *FindReport(misreported.node);
      report.evidence.is_misreported = misreported.is_seen;
      report.evidence.has_no_consequence = !misreported.is_seen;
      report.cause = std::nullopt;
      Conclude(index_, overwritten_, &report);
      for (const NodeId reader : misreported.readers) ForgiveReader(reader);
      if (misreported.is_seen) names.push_back(report.key);
    }
    if (names.empty()) return;
    result_.notes.push_back(fmt::format(
        "{}: what is handed out for {} is not what the runtime computes with: "
        "those that read it are right on what it should be",
        CountOf(names.size(), "value"), ListOf(names, kNamedNodes)));
  }

  // It was judged on what it has not read.
  void ForgiveReader(NodeId node) {
    for (NodeCheck& check : checks_.nodes) {
      if (check.node != node) continue;
      check.outputs = check.on_right_inputs;
      NodeReport& report = *FindReport(node);
      report.evidence.isolated = IsolatedVerdict(check);
      report.evidence.is_large = false;
      report.worst = check.Worst();
      report.made = check.MadeError();
      report.cause = std::nullopt;
      Conclude(index_, overwritten_, &report);
    }
  }

  // Begins to run the candidate again and again.
  absl::Status StartOften() {
    if (is_cut_) return absl::OkStatus();
    RunOptions run;
    run.node_limit_ms = options_.node_limit_ms;
    run.repeats = static_cast<uint64_t>(std::max(options_.repeats, 0));
    if (run.repeats > 0) {
      run.sink = &runs_sink_;
      run.with_node_inputs = true;
      run.hashes_suffice = true;
    } else if (!search_.failures().empty()) {
      run.repeats = 1;  // Who fails once may not be the only one.
    } else {
      return absl::OkStatus();
    }
    often_ = run.repeats;
    if (makers_.elsewhere) {
      NODEWISE_ASSIGN_OR_RETURN(elsewhere_, makers_.elsewhere());
    }
    Runner& runner = elsewhere_ != nullptr ? *elsewhere_ : *candidate_;
    NODEWISE_ASSIGN_OR_RETURN(running_often_,
                              runner.Start(request_.inputs, run));
    return absl::OkStatus();
  }

  absl::Status FinishOften() {
    if (running_often_ == nullptr) return absl::OkStatus();
    const absl::StatusOr<RunResult> result = running_often_->Finish();
    const absl::Status& status = result.status();
    running_often_.reset();
    if (result.ok()) AddFloats(result->floats);
    runs_ += status.ok() ? often_ : std::max<size_t>(runs_sink_.begun(), 1) - 1;
    NODEWISE_RETURN_IF_ERROR(status);
    hashes_of_runs_ = runs_sink_.Finish();
    return absl::OkStatus();
  }

  void AddFloats(const std::vector<NodeFloats>& found) {
    floats_.insert(floats_.end(), found.begin(), found.end());
  }

  // Runs the candidate once; the reference follows it node by node.
  absl::Status Observe() {
    HashSink hashes(index_);
    ObservedRun run(*candidate_, request_.inputs, &hashes);
    run.SetNodeLimit(options_.node_limit_ms);
    NODEWISE_RETURN_IF_ERROR(CheckRun(&run));
    ++runs_;
    AddFloats(run.floats());
    hashes_ = hashes.Finish(run.outputs());
    result_.runtime = run.runtime();
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

  // A run that is cut is judged as far as it has come, which may be nowhere.
  absl::Status CheckRun(ObservedRun* run) {
    CutRun cut(run);
    TensorSource& source = is_cut_ ? static_cast<TensorSource&>(cut) : *run;
    NodeCheckOptions check;
    check.with_accumulated = true;
    check.asks_readers = options_.only_handed_out;
    check.progress = options_.progress;
    int64_t left_ns = options_.most_explain_ns;
    check.explain = [&](const WrongNode& node) -> std::optional<Cause> {
      if (left_ns <= 0) return std::nullopt;
      const int64_t start_ns = ClockNanoseconds();
      std::optional<Cause> cause = CauseOf(node, request_.operators);
      left_ns -= ClockNanoseconds() - start_ns;
      return cause;
    };
    auto checks = CheckNodes(index_, request_.operators, source, check);
    if (checks.ok()) {
      checks_ = *std::move(checks);
      return absl::OkStatus();
    }
    if (!is_cut_ || !absl::IsFailedPrecondition(checks.status())) {
      return checks.status();
    }
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      const NodeId node{n};
      if (!graph_.IsFunction(node)) continue;
      checks_.skipped.push_back(
          {node, index_.KeyOf(node), std::string(MessageOf(checks.status()))});
    }
    return absl::OkStatus();
  }

  void CompareRuns() {
    for (const RunHashes& other : hashes_of_runs_) {
      for (NodeReport& report : result_.nodes) {
        if (!IsSteady(graph_, report.node, hashes_, other)) {
          report.evidence.is_steady = false;
        }
      }
    }
  }

  // A plan fault may hide in anything that looks wrong.
  absl::Status CheckPrivately() {
    if (!options_.checks_storage || !makers_.with_private_storage || is_cut_) {
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
                              makers_.with_private_storage());
    ObservedRun run(*runner, request_.inputs);
    run.SetNodeLimit(options_.node_limit_ms);
    if (!any) return KeepPrivateOutputs(&run);
    NodeCheckOptions check;
    check.selects = looks_wrong;
    NODEWISE_ASSIGN_OR_RETURN(
        const NodeChecks checks,
        CheckNodes(index_, request_.operators, run, check));
    for (const NodeCheck& checked : checks.nodes) {
      FindReport(checked.node)->evidence.isolated_privately =
          IsolatedVerdict(checked);
    }
    private_outputs_ = run.outputs();
    return absl::OkStatus();
  }

  absl::Status KeepPrivateOutputs(ObservedRun* run) {
    HashSink hashes(index_);
    NODEWISE_RETURN_IF_ERROR(run->Visit(hashes));
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
          "does ({} says which function it was)",
          index_.KeyOf(found.victim), NameOf(Way::kSanitizer)));
    }
  }

  void NoteKnown() {
    if (options_.known == nullptr || result_.runtime.empty()) return;
    const std::vector<KnownDeviation> rows = options_.known(result_.runtime);
    result_.is_runtime_known =
        std::any_of(rows.begin(), rows.end(),
                    [](const KnownDeviation& row) { return !row.is_of_any; });
    for (NodeReport& report : result_.nodes) {
      if (report.verdict != NodeVerdict::kBroken || !report.worst.has_value()) {
        continue;
      }
      const std::string& type = report.worst->type;
      report.known =
          FindKnown(rows, report.operators, type.substr(0, type.find(' ')),
                    KnownError(*report.worst), report.cause);
    }
  }

  absl::Status NameCulprits() {
    for (size_t i = 0; i < result_.nodes.size(); ++i) {
      const NodeReport& report = result_.nodes[i];
      if (!Accuses(report.verdict)) continue;
      Culprit culprit{i, std::nullopt,
                      VictimsOf(index_, overwritten_, report.node)};
      for (const Overwriting& found : overwritten_) {
        if (found.writer != report.node) continue;
        culprit.written_over.push_back({found.victim, found.reader});
      }
      result_.culprits.push_back(std::move(culprit));
    }
    // Nothing is known of the outputs of a run that was cut.
    if (is_cut_) return absl::OkStatus();
    const OutputError error = ErrorOf(result_.outputs);
    // Shares excuse nothing where the outputs are right: then those that have
    // an excuse need not be measured, which takes a run each.
    const bool are_outputs_wrong = result_.AreOutputsWrong();
    if (!options_.is_strict && !are_outputs_wrong) {
      NODEWISE_RETURN_IF_ERROR(ExcuseSmall(error));
    }
    if (error.any()) NODEWISE_RETURN_IF_ERROR(MeasureShares(error));
    if (!options_.is_strict && are_outputs_wrong) {
      NODEWISE_RETURN_IF_ERROR(ExcuseSmall(error));
    }
    if (error.any() && CanBeJoined()) {
      NODEWISE_ASSIGN_OR_RETURN(result_.share_of_all, ShareOfAll(error));
    }
    std::stable_sort(result_.culprits.begin(), result_.culprits.end(),
                     [this](const Culprit& a, const Culprit& b) {
                       return WeightOf(a) > WeightOf(b);
                     });
    return absl::OkStatus();
  }

  // Measures the shares of the culprits with the largest errors.
  absl::Status MeasureShares(const OutputError& error) {
    std::vector<Culprit*> measured;
    for (Culprit& culprit : result_.culprits) {
      if (!NodeOf(culprit).failure.has_value()) measured.push_back(&culprit);
    }
    std::stable_sort(measured.begin(), measured.end(),
                     [this](const Culprit* a, const Culprit* b) {
                       return NodeOf(*a).made > NodeOf(*b).made;
                     });
    size_t most = options_.most_confirmed;
    if (options_.only_handed_out && measured.size() > kFewConfirmed) {
      NODEWISE_ASSIGN_OR_RETURN(const bool are_enough, DoLargeExplain(error));
      if (are_enough) {
        most = kFewConfirmed;
        std::erase_if(measured, [this](const Culprit* culprit) {
          return !NodeOf(*culprit).evidence.is_large;
        });
      }
    }
    if (measured.size() > most) measured.resize(most);
    for (Culprit* const culprit : measured) {
      const NodeReport& report = NodeOf(*culprit);
      NODEWISE_ASSIGN_OR_RETURN(
          culprit->share,
          ShareOf(report, PatchesOf(checks_, report.node), error));
    }
    return absl::OkStatus();
  }

  // Whether so little of the error is left with all nodes right that are far
  // off, that no other one can matter. Each share is a start of the program, so
  // that those of a few are enough then.
  absl::StatusOr<bool> DoLargeExplain(const OutputError& error) {
    if (options_.is_strict || !IsAllElseRight()) return false;
    NODEWISE_ASSIGN_OR_RETURN(
        const auto share,
        ShareWith(ReferencesOf([this](const Culprit& culprit) {
                    return NodeOf(culprit).evidence.is_large;
                  }),
                  error));
    share_of_large_ = share;
    return share.value_or(0) >= 1 - kLeastShare;
  }

  // Nodes whose errors matter nowhere are not culprits: neither beyond the
  // tolerance of their types, nor the reason why an output is wrong.
  absl::Status ExcuseSmall(const OutputError& error) {
    // Many small errors may matter together, as where all is computed in a
    // shorter type.
    constexpr double kLeastShareOfAll = 0.5;
    const bool are_outputs_wrong = result_.AreOutputsWrong();
    const auto is_small = [&](const Culprit& culprit) {
      const NodeReport& report = NodeOf(culprit);
      const bool matters =
          are_outputs_wrong && culprit.share.value_or(0) >= kLeastShare;
      // A known deviation excuses nothing where an output is wrong.
      const bool is_known = !are_outputs_wrong && report.known.has_value() &&
                            report.known->is_within();
      return report.verdict == NodeVerdict::kBroken &&
             (!report.evidence.is_large || is_known) && !matters;
    };
    const auto small = static_cast<size_t>(std::count_if(
        result_.culprits.begin(), result_.culprits.end(), is_small));
    if (small == 0) return absl::OkStatus();
    if (are_outputs_wrong && small == result_.culprits.size() &&
        CanBeJoined()) {
      NODEWISE_ASSIGN_OR_RETURN(const auto share, ShareOfAll(error));
      if (share.value_or(0) >= kLeastShareOfAll) return absl::OkStatus();
    }
    for (const Culprit& culprit : result_.culprits) {
      if (!is_small(culprit)) continue;
      result_.nodes[culprit.report].verdict = NodeVerdict::kDeviates;
    }
    std::erase_if(result_.culprits, [this](const Culprit& culprit) {
      return NodeOf(culprit).verdict == NodeVerdict::kDeviates;
    });
    return absl::OkStatus();
  }

  // Culprits that matter more come first.
  std::pair<bool, double> WeightOf(const Culprit& culprit) const {
    return {NodeOf(culprit).failure.has_value(),
            culprit.share.value_or(-INFINITY)};
  }

  // Whether what all culprits should have made can be tried together.
  bool CanBeJoined() const {
    const auto measured = std::count_if(
        result_.culprits.begin(), result_.culprits.end(),
        [](const Culprit& culprit) { return culprit.share.has_value(); });
    return measured > 1 && result_.culprits.size() <= options_.most_confirmed &&
           result_.CountOf(NodeVerdict::kPlanFault) == 0;
  }

  const NodeReport& NodeOf(const Culprit& culprit) const {
    return result_.nodes[culprit.report];
  }

  absl::Status JudgeRemarks() {
    if (is_cut_) return absl::OkStatus();
    ObservedRun run(*candidate_, request_.inputs);
    run.SetNodeLimit(options_.node_limit_ms);
    return BlameForSubnormals(
        {index_, request_.operators, run, checks_.reference_outputs,
         options_.most_confirmed},
        &result_);
  }

  // Then the network makes what the reference's run of it makes, once all
  // culprits do.
  bool IsAllElseRight() const {
    return checks_.skipped.empty() &&
           std::all_of(result_.nodes.begin(), result_.nodes.end(),
                       [](const NodeReport& report) {
                         return report.verdict == NodeVerdict::kBroken ||
                                report.verdict == NodeVerdict::kDeviates ||
                                report.evidence.isolated == Verdict::kPass;
                       });
  }

  // What the reference's run of the network makes for some of the culprits.
  template <typename Selects>
  std::vector<TensorPatch> ReferencesOf(Selects selects) const {
    std::vector<TensorPatch> patches;
    for (const Culprit& culprit : result_.culprits) {
      if (!selects(culprit)) continue;
      const auto more =
          PatchesOf(checks_, NodeOf(culprit).node, &NodeCheck::reference);
      patches.insert(patches.end(), more.begin(), more.end());
    }
    return patches;
  }

  // The right outputs of a culprit depend on those before it: each is asked for
  // in a run in which they are right.
  absl::StatusOr<std::optional<double>> ShareOfAll(const OutputError& error) {
    const bool are_large = std::all_of(
        result_.culprits.begin(), result_.culprits.end(),
        [this](const Culprit& each) { return NodeOf(each).evidence.is_large; });
    if (are_large && share_of_large_.has_value()) return share_of_large_;
    if (IsAllElseRight()) {
      return ShareWith(ReferencesOf([](const Culprit&) { return true; }),
                       error);
    }
    std::vector<TensorPatch> patches;
    for (const Culprit& culprit : result_.culprits) {
      const NodeReport& report = result_.nodes[culprit.report];
      if (report.failure.has_value()) continue;
      const NodeId node = report.node;
      ObservedRun run(*candidate_, request_.inputs, patches);
      run.SetNodeLimit(options_.node_limit_ms);
      NodeCheckOptions check;
      check.selects = [node](NodeId id) { return id == node; };
      NODEWISE_ASSIGN_OR_RETURN(
          const NodeChecks checks,
          CheckNodes(index_, request_.operators, run, check));
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
    run.node_limit_ms = options_.node_limit_ms;
    NODEWISE_ASSIGN_OR_RETURN(const RunResult result,
                              candidate_->Run(request_.inputs, run));
    NODEWISE_ASSIGN_OR_RETURN(
        const auto left, CompareNetworkOutputs(checks_.reference_outputs,
                                               result.outputs, tolerance_));
    return ShareGone(error, ErrorOf(left));
  }

  // The results that the reference makes of what the node read, unless told
  // otherwise: so only its own error goes, and what it inherited stays.
  static std::vector<TensorPatch> PatchesOf(
      const NodeChecks& checks, NodeId node,
      std::vector<NDArray> NodeCheck::*right = &NodeCheck::expected) {
    std::vector<TensorPatch> patches;
    for (const NodeCheck& check : checks.nodes) {
      if (check.node != node) continue;
      for (uint32_t slot = 0; slot < (check.*right).size(); ++slot) {
        patches.push_back({fmt::format("{}:{}", check.key, slot),
                           (check.*right)[slot], "the reference", check.key});
      }
    }
    return patches;
  }

  // Null for what is not a function node.
  NodeReport* FindReport(NodeId node) {
    const auto found = std::lower_bound(
        result_.nodes.begin(), result_.nodes.end(), node,
        [](const NodeReport& report, NodeId id) { return report.node < id; });
    const bool is_there = found != result_.nodes.end() && found->node == node;
    return is_there ? &*found : nullptr;
  }

  const LocateRequest& request_;
  const LocateOptions& options_;
  const StandInSearch& search_;
  const CandidateMakers& makers_;
  const bool is_cut_;
  const GraphIndex& index_;
  const Graph& graph_;
  const Tolerance tolerance_;  // The tolerance of the outputs.
  std::unique_ptr<Runner> candidate_;
  std::unique_ptr<Runner> elsewhere_;  // Null: candidate_ runs often.
  RunsSink runs_sink_;
  uint64_t often_ = 0;  // How often running_often_ runs.
  std::unique_ptr<PendingRun> running_often_;
  NodeChecks checks_;
  std::vector<NodeFloats> floats_;  // The changes in all runs.
  size_t runs_ = 0;
  RunHashes hashes_;
  std::vector<RunHashes> hashes_of_runs_;
  std::vector<Overwriting> overwritten_;
  std::vector<NamedTensor> private_outputs_;
  // The share of culprits that are far off.
  std::optional<double> share_of_large_;
  LocateResult result_;
};

// Replaces nodes that write to memory that is not theirs before any node is
// judged: a tensor that they spoil may look like anything.
absl::Status ReplaceStrayWriters(const LocateRequest& request,
                                 const LocateOptions& options,
                                 StandInSearch* search,
                                 std::vector<std::string>* notes) {
  if (!options.checks_storage || !request.find_stray_writes) {
    return absl::OkStatus();
  }
  NODEWISE_ASSIGN_OR_RETURN(const NodeFailures found,
                            request.find_stray_writes());
  if (found.empty()) return absl::OkStatus();
  std::string why_not;
  NODEWISE_ASSIGN_OR_RETURN(const bool are_replaced,
                            search->Replace(found, &why_not));
  if (are_replaced) return absl::OkStatus();
  for (const NodeFailure& failure : found) {
    notes->push_back(fmt::format("{}: {}, so that nothing can be sure ({})",
                                 failure.node, failure.what, why_not));
  }
  return absl::OkStatus();
}

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
  const DefaultFloatEnvironment floats;
  StandInSearch search(
      {request.stand_ins, request.with_stand_ins},
      {request.candidate, request.with_private_storage, request.elsewhere});
  std::vector<std::string> notes;
  for (bool is_first = true;; is_first = false) {
    Locator locator(request, options, search);
    const absl::Status looked = locator.Look();
    if (is_first) {
      NODEWISE_RETURN_IF_ERROR(
          ReplaceStrayWriters(request, options, &search, &notes));
      if (!search.failures().empty()) continue;
    }
    auto result =
        looked.ok() ? locator.Judge() : absl::StatusOr<LocateResult>(looked);
    if (result.ok()) {
      if (!search.why_cut().empty()) notes.push_back(search.why_cut());
      result->notes.insert(result->notes.end(), notes.begin(), notes.end());
      return result;
    }
    NODEWISE_RETURN_IF_ERROR(search.GoOnAfter(
        locator.WhoIsToBlame(result.status()), locator.runs()));
  }
}

}  // namespace nodewise
