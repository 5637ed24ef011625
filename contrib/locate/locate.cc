#include "nodewise/locate/locate.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "contrib/locate/node_report.h"
#include "contrib/locate/observed_run.h"
#include "contrib/locate/output_error.h"
#include "contrib/locate/partial_graph.h"
#include "contrib/locate/second_look.h"
#include "contrib/locate/spoiler.h"
#include "fmt/format.h"
#include "nodewise/locate/exact_inputs.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

// A turn of the search has three parts. The candidate runs, once with the
// reference behind it and often for the hashes alone. What the runs show of
// each node is joined into a verdict. Then each node that is accused is
// measured by how much of the error of the outputs is gone with it repaired,
// which excuses nodes whose errors matter nowhere.
//
// A node that ends a run ends the turn; the next one has the reference in its
// place (StandInSearch).

namespace nodewise {
namespace {

constexpr size_t kMostNamedValues = 8;  // In a note.
// How many culprits of another program are measured where all are known: each
// share is a start of that program, and reports show ten culprits at most.
constexpr size_t kFewConfirmed = 6;
// The least share of a wrong output's error that matters.
constexpr double kLeastShare = 0.05;

// Hashes what several runs hand out, one after the other, but for the outputs
// as the caller gets them.
class RunsSink : public TensorSink {
 public:
  // The index must outlive it.
  explicit RunsSink(const GraphIndex& index) : index_(index) {}

  absl::Status Consume(const TensorItem& item) override {
    // No other mark separates the runs than that the first tensor comes again.
    if (!first_.has_value()) first_ = item.key;
    if (item.key == *first_) runs_.emplace_back(index_);
    return runs_.back().Consume(item);
  }
  // Returns the runs, also one that has not come to its end.
  std::vector<RunHashes> Finish() {
    std::vector<RunHashes> hashes;
    for (HashSink& run : runs_) hashes.push_back(run.Finish({}));
    return hashes;
  }
  size_t begun() const { return runs_.size(); }

 private:
  const GraphIndex& index_;
  std::optional<TensorKey> first_;  // The first tensor of every run.
  std::vector<HashSink> runs_;
};

// One turn of the search.
struct Locator {
  const LocateRequest& request;
  const LocateOptions& options;
  const StandInSearch& search;
  const GraphIndex& index = request.index;
  const Graph& graph = index.graph();
  const Tolerance tolerance = AccumulatedTolerance(graph);
  std::unique_ptr<Runner> candidate = {};
  std::unique_ptr<Runner> elsewhere = {};  // Null: candidate runs often.
  RunsSink runs_sink{index};
  uint64_t often = 0;  // How often running_often runs.
  std::unique_ptr<PendingRun> running_often = {};
  NodeChecks checks = {};
  std::vector<NodeFloats> float_changes = {};  // The changes in all runs.
  // How often the candidate has come to the end of a run.
  size_t runs = 0;
  RunHashes hashes = {};
  std::vector<RunHashes> hashes_of_runs = {};
  std::vector<Overwriting> overwritten = {};
  std::vector<NamedTensor> private_outputs = {};
  OutputError error = {};  // Shares are of this error of the outputs.
  // The share of culprits that are far off.
  std::optional<double> share_of_large = {};
  LocateResult result = {};

  absl::Status RunAndFollow() {
    NODEWISE_ASSIGN_OR_RETURN(candidate, search.makers.candidate());
    NODEWISE_RETURN_IF_ERROR(StartRepeatedRuns());
    // To run often is also the cheapest way to find out whether all runs come
    // to an end.
    if (!request.runs_at_once) NODEWISE_RETURN_IF_ERROR(FinishRepeatedRuns());
    NODEWISE_RETURN_IF_ERROR(Observe());
    return request.runs_at_once ? FinishRepeatedRuns() : absl::OkStatus();
  }

  // REQUIRES: RunAndFollow() was successful.
  absl::StatusOr<LocateResult> Judge() {
    CompareRuns();
    NODEWISE_RETURN_IF_ERROR(CheckPrivately());
    CheckWithExactInputs();
    NoteOverwritten(index, overwritten,
                    fmt::format(" ({} says which function it was)",
                                NameOf(Way::kSanitizer)),
                    &result);
    for (const NodeFloats& found : float_changes) {
      const auto node = index.FindNode(found.key);
      if (node.ok()) NoteFloats(found.change, FindReport(*node, &result));
    }
    NoteFailures(search.stand_ins(), &result);
    for (NodeReport& report : result.nodes) {
      Conclude(index, overwritten, &report);
    }
    NODEWISE_RETURN_IF_ERROR(BlameEarlierSpoilers());
    RejudgeMisreported();
    NoteKnown();
    NODEWISE_RETURN_IF_ERROR(NameCulprits());
    NODEWISE_RETURN_IF_ERROR(JudgeRemarks());
    FindGain(&result);
    return std::move(result);
  }

  // Returns the failure of another node if that is why one has ended a run;
  // else the one that is given. A node that does not return is not tried again:
  // each time takes as long.
  absl::Status FindBlamedFailure(const absl::Status& status) {
    const auto failure = FailureOf(status);
    if (!failure.has_value() || candidate == nullptr ||
        failure->kind == NodeFailure::Kind::kHang ||
        failure->kind == NodeFailure::Kind::kSideEffect) {
      return status;
    }
    const auto node = index.FindNode(failure->node);
    if (!node.ok()) return status;
    const absl::Status blamed = BlameSpoiler(SuspectOf(*node), "fail");
    return blamed.ok() ? status : blamed;
  }

  Suspect SuspectOf(NodeId node) {
    return {index, *candidate, request.inputs, node, options.node_limit_ms};
  }

  ObservedRun RunOf(Runner& runner, ObserveOptions how = {}) const {
    how.node_limit_ms = options.node_limit_ms;
    return {runner, index, request.inputs, std::move(how)};
  }

  // A node that looks broken may be so only after another one has run.
  absl::Status BlameEarlierSpoilers() {
    // Each takes two runs for every halving of the nodes before it. One spoiler
    // is enough: the search begins anew with the reference in its place.
    constexpr size_t kMostTried = 4;
    size_t tried = 0;
    if (search.is_cut || !options.checks_storage) return absl::OkStatus();
    for (const NodeReport& report : result.nodes) {
      if (report.verdict != NodeVerdict::kBroken) continue;
      if (tried++ == kMostTried) break;
      NODEWISE_RETURN_IF_ERROR(
          BlameSpoiler(SuspectOf(report.node), "compute something else"));
    }
    return absl::OkStatus();
  }

  // Where it is only known from what the candidate hands out what a node reads,
  // the candidate may compute with something else.
  void RejudgeMisreported() {
    if (search.is_cut || !options.only_handed_out || options.is_strict) return;
    std::vector<NodeId> wrong;
    for (const NodeReport& report : result.nodes) {
      const bool is_wrong =
          report.verdict == NodeVerdict::kBroken && report.evidence.is_large;
      if (is_wrong) wrong.push_back(report.node);
    }
    std::vector<std::string> names;
    for (const Misreported& misreported :
         FindMisreported(index, checks, wrong)) {
      NodeReport& report = *FindReport(misreported.node, &result);
      report.evidence.is_misreported = misreported.is_seen;
      report.evidence.has_no_consequence = !misreported.is_seen;
      ConcludeWithoutCause(&report);
      for (const NodeId reader : misreported.readers) RejudgeReader(reader);
      if (misreported.is_seen) names.push_back(report.key);
    }
    if (names.empty()) return;
    result.notes.push_back(fmt::format(
        "{}: what is handed out for {} is not what the runtime computes with: "
        "those that read it are right on what it should be",
        CountOf(names.size(), "value"), ListOf(names, kMostNamedValues)));
  }

  // Takes back the accusation of a reader that was judged on a tensor that it
  // has not read.
  void RejudgeReader(NodeId node) {
    const auto check = std::ranges::find(checks.nodes, node, &NodeCheck::node);
    if (check == checks.nodes.end()) return;
    check->outputs = check->on_right_inputs;
    NodeReport& report = *FindReport(node, &result);
    report.evidence.isolated = IsolatedVerdict(check->outputs);
    report.evidence.is_large = false;
    report.worst = check->Worst();
    report.made = check->MadeError();
    ConcludeWithoutCause(&report);
  }

  // The cause was looked for in numbers that do not count any more.
  void ConcludeWithoutCause(NodeReport* report) const {
    report->cause = std::nullopt;
    Conclude(index, overwritten, report);
  }

  absl::Status StartRepeatedRuns() {
    if (search.is_cut) return absl::OkStatus();
    RunOptions run;
    run.node_limit_ms = options.node_limit_ms;
    run.repeats = static_cast<uint64_t>(std::max(options.repeats, 0));
    if (run.repeats > 0) {
      run.sink = &runs_sink;
      run.with_node_inputs = true;
      run.hashes_suffice = true;
    } else if (!search.failures.empty()) {
      run.repeats = 1;  // Another node may fail, too.
    } else {
      return absl::OkStatus();
    }
    often = run.repeats;
    if (search.makers.elsewhere) {
      NODEWISE_ASSIGN_OR_RETURN(elsewhere, search.makers.elsewhere());
    }
    Runner& runner = elsewhere != nullptr ? *elsewhere : *candidate;
    NODEWISE_ASSIGN_OR_RETURN(running_often, runner.Start(request.inputs, run));
    return absl::OkStatus();
  }

  absl::Status FinishRepeatedRuns() {
    if (running_often == nullptr) return absl::OkStatus();
    const auto ran = running_often->Finish();
    running_often.reset();
    if (ran.ok()) AddFloats(ran->floats);
    // The run that has begun last is the one that did not come to its end.
    runs += ran.ok() ? often : std::max<size_t>(runs_sink.begun(), 1) - 1;
    NODEWISE_RETURN_IF_ERROR(ran.status());
    hashes_of_runs = runs_sink.Finish();
    return absl::OkStatus();
  }

  void AddFloats(const std::vector<NodeFloats>& found) {
    float_changes.insert(float_changes.end(), found.begin(), found.end());
  }

  absl::Status Observe() {
    ObservedRun run =
        RunOf(*candidate, {.with_hashes = true, .may_be_cut = search.is_cut});
    NODEWISE_RETURN_IF_ERROR(CheckRun(&run));
    ++runs;
    AddFloats(run.result().floats);
    hashes = run.hashes();
    result.runtime = run.result().runtime;
    overwritten = FindOverwritten(index, hashes);
    NODEWISE_ASSIGN_OR_RETURN(result.outputs,
                              CompareOutputs(run.result().outputs));
    for (const NodeCheck& checked : checks.nodes) {
      result.nodes.push_back(ReportOf(index, checked));
    }
    for (const SkippedNode& skipped : checks.skipped) {
      result.nodes.push_back(ReportUnchecked(index, skipped.node, skipped.why));
    }
    std::ranges::sort(result.nodes, {}, &NodeReport::node);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<TensorComparison>> CompareOutputs(
      const std::vector<NamedTensor>& outputs) const {
    return CompareNetworkOutputs(checks.reference_outputs, outputs, tolerance);
  }

  // A run that is cut is judged as far as it has come, which may be nowhere.
  absl::Status CheckRun(ObservedRun* run) {
    int64_t left_ns = options.most_explain_ns;
    const auto explain = [&](const WrongNode& node) -> std::optional<Cause> {
      if (left_ns <= 0) return std::nullopt;
      const int64_t start_ns = ClockNanoseconds();
      std::optional<Cause> cause = CauseOf(node, request.operators);
      left_ns -= ClockNanoseconds() - start_ns;
      return cause;
    };
    auto made = CheckNodes(index, request.operators, *run,
                           {.with_accumulated = true,
                            .asks_readers = options.only_handed_out,
                            .explain = explain,
                            .progress = options.progress});
    if (made.ok()) {
      checks = *std::move(made);
      return absl::OkStatus();
    }
    if (!search.is_cut || !absl::IsFailedPrecondition(made.status())) {
      return made.status();
    }
    for (const NodeId node : FunctionNodesOf(graph)) {
      checks.skipped.push_back(
          {node, index.KeyOf(node), std::string(MessageOf(made.status()))});
    }
    return absl::OkStatus();
  }

  void CompareRuns() {
    for (const RunHashes& other : hashes_of_runs) {
      for (NodeReport& report : result.nodes) {
        report.evidence.is_steady &=
            IsSteady(graph, report.node, hashes, other);
      }
    }
  }

  // A plan fault may hide in anything that looks wrong.
  absl::Status CheckPrivately() {
    if (!options.checks_storage || !search.makers.with_private_storage ||
        search.is_cut) {
      return absl::OkStatus();
    }
    const auto looks_wrong = [](const NodeReport& report) {
      return report.worst.has_value() &&
             report.evidence.isolated == Verdict::kError;
    };
    const bool any = std::ranges::any_of(result.nodes, looks_wrong);
    if (!any && overwritten.empty()) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(const auto runner,
                              search.makers.with_private_storage());
    ObservedRun run = RunOf(*runner);
    if (any) {
      const auto selects = [&](NodeId node) {
        const NodeReport* const report = FindReport(node, &result);
        return report != nullptr && looks_wrong(*report);
      };
      NODEWISE_ASSIGN_OR_RETURN(
          const NodeChecks again,
          CheckNodes(index, request.operators, run, {.selects = selects}));
      for (const NodeCheck& checked : again.nodes) {
        FindReport(checked.node, &result)->evidence.isolated_privately =
            IsolatedVerdict(checked.outputs);
      }
    } else {
      // Only the outputs of this run are of interest: the share of a plan fault
      // is how much better they are.
      NODEWISE_RETURN_IF_ERROR(run.Run());
    }
    private_outputs = run.result().outputs;
    return absl::OkStatus();
  }

  // Settles what bounds cannot, or nearly cannot.
  void CheckWithExactInputs() {
    if (options.exact_inputs == ExactInputs::kNever ||
        !candidate->Can(Capability::kSteps)) {
      return;
    }
    const bool for_all = options.exact_inputs == ExactInputs::kForAll;
    size_t checked = 0;
    for (NodeReport& report : result.nodes) {
      if (!for_all && !IsUnsettled(report)) continue;
      if (!for_all && checked++ == options.most_unsettled) break;
      AddExactCheck(CheckExactly(index, request.operators, report.node,
                                 *candidate, request.inputs),
                    &report);
    }
  }

  void NoteKnown() {
    if (options.known == nullptr || result.runtime.empty()) return;
    const std::vector<KnownDeviation> rows = options.known(result.runtime);
    result.is_runtime_known =
        !std::ranges::all_of(rows, &KnownDeviation::is_of_any);
    for (NodeReport& report : result.nodes) {
      if (report.verdict != NodeVerdict::kBroken || !report.worst.has_value()) {
        continue;
      }
      // "float32 (1, 64)": rows are of the type alone.
      const std::string& type = report.worst->type;
      report.known =
          FindKnown(rows, report.operators, type.substr(0, type.find(' ')),
                    KnownError(*report.worst), report.cause);
    }
  }

  absl::Status NameCulprits() {
    for (size_t i = 0; i < result.nodes.size(); ++i) {
      const NodeReport& report = result.nodes[i];
      if (!IsCulpritVerdict(report.verdict)) continue;
      Culprit culprit{i, std::nullopt,
                      VictimsOf(index, overwritten, report.node)};
      for (const Overwriting& found : overwritten) {
        if (found.writer != report.node) continue;
        culprit.written_over.push_back({found.victim, found.reader});
      }
      result.culprits.push_back(std::move(culprit));
    }
    // Nothing is known of the outputs of a run that was cut.
    if (search.is_cut) return absl::OkStatus();
    error = ErrorOf(result.outputs);
    // Shares excuse nothing where the outputs are right: then those that have
    // an excuse need not be measured, which takes a run each.
    const bool are_outputs_wrong = result.AreOutputsWrong();
    if (!options.is_strict && !are_outputs_wrong) {
      NODEWISE_RETURN_IF_ERROR(DropMinorCulprits());
    }
    if (error.any()) NODEWISE_RETURN_IF_ERROR(MeasureShares());
    if (!options.is_strict && are_outputs_wrong) {
      NODEWISE_RETURN_IF_ERROR(DropMinorCulprits());
    }
    if (error.any() && CanBeJoined()) {
      NODEWISE_ASSIGN_OR_RETURN(result.share_of_all, ShareOfAll());
    }
    // Those that end runs come first: their shares are not known.
    std::ranges::stable_sort(
        result.culprits, std::greater(), [this](const Culprit& culprit) {
          return std::pair(NodeOf(culprit).failure.has_value(),
                           culprit.share.value_or(-INFINITY));
        });
    return absl::OkStatus();
  }

  // Measures the shares of the culprits with the largest errors.
  absl::Status MeasureShares() {
    std::vector<Culprit*> measured;
    for (Culprit& culprit : result.culprits) {
      if (!NodeOf(culprit).failure.has_value()) measured.push_back(&culprit);
    }
    std::ranges::stable_sort(
        measured, std::greater(),
        [this](const Culprit* culprit) { return NodeOf(*culprit).made; });
    size_t most = options.most_confirmed;
    if (options.only_handed_out && measured.size() > kFewConfirmed) {
      NODEWISE_ASSIGN_OR_RETURN(const bool are_enough,
                                DoLargeErrorsExplainAll());
      if (are_enough) {
        most = kFewConfirmed;
        std::erase_if(measured, [this](const Culprit* culprit) {
          return !IsFarOff(*culprit);
        });
      }
    }
    if (measured.size() > most) measured.resize(most);
    for (Culprit* const culprit : measured) {
      NODEWISE_ASSIGN_OR_RETURN(culprit->share, ShareOf(NodeOf(*culprit)));
    }
    return absl::OkStatus();
  }

  // Whether so little of the error is left with all nodes right that are far
  // off, that no other one can matter. Each share is a start of the program, so
  // that those of a few are enough then.
  absl::StatusOr<bool> DoLargeErrorsExplainAll() {
    if (options.is_strict || !AreOtherNodesRight()) return false;
    NODEWISE_ASSIGN_OR_RETURN(share_of_large, ShareWith(ReferencesOf(true)));
    return *share_of_large >= 1 - kLeastShare;
  }

  // Nodes whose errors matter nowhere are not culprits: neither beyond the
  // tolerance of their types, nor the reason why an output is wrong.
  absl::Status DropMinorCulprits() {
    // Many small errors may matter together, as where all is computed in a
    // shorter type.
    constexpr double kLeastShareOfAll = 0.5;
    const bool are_outputs_wrong = result.AreOutputsWrong();
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
    const auto small =
        static_cast<size_t>(std::ranges::count_if(result.culprits, is_small));
    if (small == 0) return absl::OkStatus();
    if (are_outputs_wrong && small == result.culprits.size() && CanBeJoined()) {
      NODEWISE_ASSIGN_OR_RETURN(const double share, ShareOfAll());
      if (share >= kLeastShareOfAll) return absl::OkStatus();
    }
    std::erase_if(result.culprits, [&](const Culprit& culprit) {
      if (!is_small(culprit)) return false;
      result.nodes[culprit.report].verdict = NodeVerdict::kDeviates;
      return true;
    });
    return absl::OkStatus();
  }

  // A plan fault is gone only with other storage, and not where a tensor stands
  // in for what the node makes.
  bool CanBeJoined() const {
    const auto measured = std::ranges::count_if(
        result.culprits,
        [](const Culprit& culprit) { return culprit.share.has_value(); });
    return measured > 1 && result.culprits.size() <= options.most_confirmed &&
           result.CountOf(NodeVerdict::kPlanFault) == 0;
  }

  const NodeReport& NodeOf(const Culprit& culprit) const {
    return result.nodes[culprit.report];
  }
  bool IsFarOff(const Culprit& culprit) const {
    return NodeOf(culprit).evidence.is_large;
  }

  absl::Status JudgeRemarks() {
    if (search.is_cut) return absl::OkStatus();
    ObservedRun run = RunOf(*candidate);
    return BlameForSubnormals(
        {index, request.operators, run, checks.reference_outputs,
         options.most_confirmed},
        &result);
  }

  // Returns whether the network makes what the reference's run of it makes,
  // once all culprits do.
  bool AreOtherNodesRight() const {
    return checks.skipped.empty() &&
           std::ranges::all_of(result.nodes, [](const NodeReport& report) {
             return report.verdict == NodeVerdict::kBroken ||
                    report.verdict == NodeVerdict::kDeviates ||
                    report.evidence.isolated == Verdict::kPass;
           });
  }

  std::vector<TensorPatch> ReferencesOf(bool only_far_off) const {
    std::vector<TensorPatch> patches;
    for (const Culprit& culprit : result.culprits) {
      if (only_far_off && !IsFarOff(culprit)) continue;
      const NodeCheck* const check = checks.Find(NodeOf(culprit).node);
      if (check != nullptr) AddPatches(*check, check->reference, &patches);
    }
    return patches;
  }

  // The right outputs of a culprit depend on those before it: each is asked for
  // in a run in which they are right.
  absl::StatusOr<double> ShareOfAll() {
    const bool are_large = std::ranges::all_of(
        result.culprits,
        [this](const Culprit& culprit) { return IsFarOff(culprit); });
    if (are_large && share_of_large.has_value()) return *share_of_large;
    if (AreOtherNodesRight()) return ShareWith(ReferencesOf(false));
    std::vector<TensorPatch> patches;
    for (const Culprit& culprit : result.culprits) {
      if (NodeOf(culprit).failure.has_value()) continue;
      const auto is_this = [node = NodeOf(culprit).node](NodeId id) {
        return id == node;
      };
      ObservedRun run = RunOf(*candidate, {.patches = patches});
      NODEWISE_ASSIGN_OR_RETURN(
          const NodeChecks made,
          CheckNodes(index, request.operators, run, {.selects = is_this}));
      for (const NodeCheck& check : made.nodes) {
        AddPatches(check, check.expected, &patches);
      }
    }
    return ShareWith(std::move(patches));
  }

  // A plan fault is gone where every tensor has memory of its own; any other
  // where the network goes on with what the reference makes of what the node
  // read: so only its own error goes, and what it inherited stays.
  absl::StatusOr<std::optional<double>> ShareOf(const NodeReport& report) {
    if (report.verdict == NodeVerdict::kPlanFault) {
      if (private_outputs.empty()) return std::nullopt;
      NODEWISE_ASSIGN_OR_RETURN(const auto left,
                                CompareOutputs(private_outputs));
      return ShareRemoved(error, ErrorOf(left));
    }
    std::vector<TensorPatch> patches;
    const NodeCheck* const check = checks.Find(report.node);
    if (check != nullptr) AddPatches(*check, check->expected, &patches);
    if (patches.empty()) return std::nullopt;
    return ShareWith(std::move(patches));
  }

  absl::StatusOr<double> ShareWith(std::vector<TensorPatch> patches) {
    NODEWISE_ASSIGN_OR_RETURN(
        const RunResult made,
        candidate->Run(request.inputs, {.node_limit_ms = options.node_limit_ms,
                                        .patches = std::move(patches)}));
    NODEWISE_ASSIGN_OR_RETURN(const auto left, CompareOutputs(made.outputs));
    return ShareRemoved(error, ErrorOf(left));
  }
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

bool LocateResult::AreOutputsWrong() const { return AnyIsWrong(outputs); }

size_t LocateResult::CountOf(NodeVerdict verdict) const {
  return static_cast<size_t>(
      std::ranges::count(nodes, verdict, &NodeReport::verdict));
}

absl::StatusOr<LocateResult> Locate(const LocateRequest& request,
                                    const LocateOptions& options) {
  const DefaultFloatEnvironment floats;
  StandInSearch search{
      request.stand_ins,
      request.with_stand_ins,
      {request.candidate, request.with_private_storage, request.elsewhere}};
  std::vector<std::string> notes;
  for (bool is_first = true;; is_first = false) {
    Locator locator{request, options, search};
    const absl::Status looked = locator.RunAndFollow();
    // The search for stray writes goes on while the candidate runs. Where it
    // finds some, what has just been looked at is spoiled and not judged.
    if (is_first) {
      NODEWISE_RETURN_IF_ERROR(
          ReplaceStrayWriters(request, options, &search, &notes));
      if (!search.failures.empty()) continue;
    }
    auto result =
        looked.ok() ? locator.Judge() : absl::StatusOr<LocateResult>(looked);
    if (result.ok()) {
      if (!search.why_cut.empty()) notes.push_back(search.why_cut);
      result->notes.insert(result->notes.end(), notes.begin(), notes.end());
      return result;
    }
    NODEWISE_RETURN_IF_ERROR(search.ContinueAfter(
        locator.FindBlamedFailure(result.status()), locator.runs));
  }
}

}  // namespace nodewise
