#include "nodewise/locate/bisect.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <memory>
#include <numeric>
#include <set>
#include <utility>

#include "contrib/locate/halving.h"
#include "contrib/locate/node_report.h"
#include "contrib/locate/observed_run.h"
#include "contrib/locate/output_error.h"
#include "contrib/locate/reference_rest.h"
#include "nodewise/locate/node_check.h"
#include "nodewise/support/status.h"

// One run of the candidate keeps the tensors that live at the cuts which
// halving may ask for first, so that most questions are a run of the reference
// alone, from a cut to the end. The node that is found is then judged with all
// before it by what they read, in a run of its own. All of this holds only if
// further runs of the candidate have the same bits, so each of them is compared
// with the first.

namespace nodewise {
namespace {

// In the order of Masking.
constexpr std::string_view kMaskingNames[] = {"no", "possible", "yes"};

// Each round finds what makes more than half of the error that is left, so that
// less than a ten-thousandth of it can be left after as many.
constexpr size_t kMostMendings = 16;

// A node without a report gets the number of all reports.
size_t PlaceOfReport(NodeId node, const LocateResult& located) {
  const auto found = std::ranges::find(located.nodes, node, &NodeReport::node);
  return static_cast<size_t>(found - located.nodes.begin());
}

bool HasReport(NodeId node, const LocateResult& located) {
  return PlaceOfReport(node, located) < located.nodes.size();
}

// Culprits name reports by their places, which change here.
void SortByNode(LocateResult* located) {
  std::vector<NodeId> culprits;
  for (const Culprit& culprit : located->culprits) {
    culprits.push_back(located->nodes[culprit.report].node);
  }
  std::ranges::sort(located->nodes, {}, &NodeReport::node);
  for (size_t i = 0; i < culprits.size(); ++i) {
    located->culprits[i].report = PlaceOfReport(culprits[i], *located);
  }
  std::ranges::sort(located->culprits, {}, &Culprit::report);
}

struct NewReports {
  const GraphIndex& index;
  const LocateResult& located;
  std::vector<NodeReport> reports = {};

  void Add(NodeReport report) {
    if (!HasReport(report.node, located)) reports.push_back(std::move(report));
  }
  NodeReport* Find(NodeId node) {
    const auto found = std::ranges::find(reports, node, &NodeReport::node);
    return found == reports.end() ? nullptr : &*found;
  }

  // An overwriting counts only where a node that was judged, or the caller,
  // reads the tensor.
  void RecordOverwrite(const Overwriting& found) {
    const size_t end = index.graph().nodes.size();
    if (Index(found.reader) != end) {
      NodeReport* const reader = Find(found.reader);
      if (reader == nullptr) return;
      reader->evidence.read_overwritten = true;
    }
    if (Index(found.writer) == end) return;
    if (Find(found.writer) == nullptr) {
      Add(ReportUnchecked(index, found.writer,
                          "it is not among the nodes up to the one found"));
    }
    NodeReport* const writer = Find(found.writer);
    if (writer != nullptr) writer->evidence.wrote_over = true;
  }
};

// Adds the reports of the nodes that were checked, and of the nodes that wrote
// over what these read, unless a node has one already. `first` is the node that
// was found: it is not healthy, even if the check says so. Returns the new
// culprits' nodes, which are added to the result in the order of their nodes.
std::vector<NodeId> AddVerdicts(const GraphIndex& index,
                                const NodeChecks& checks,
                                const RunHashes& hashes, NodeId first,
                                LocateResult* located) {
  NewReports added{index, *located};
  for (const NodeCheck& checked : checks.nodes) {
    added.Add(ReportOf(index, checked));
  }
  for (const SkippedNode& skipped : checks.skipped) {
    added.Add(ReportUnchecked(index, skipped.node, skipped.why));
  }
  const auto overwritten = FindOverwritten(index, hashes);
  for (const Overwriting& found : overwritten) added.RecordOverwrite(found);
  std::vector<NodeId> accused;
  for (NodeReport& report : added.reports) {
    // The outputs show its error, however small it is here.
    if (report.node == first) report.evidence.accumulated = Verdict::kError;
    Conclude(index, overwritten, &report);
    if (IsCulpritVerdict(report.verdict)) {
      accused.push_back(report.node);
      AddCulprit(report, VictimsOf(index, overwritten, report.node), located);
    } else {
      located->nodes.push_back(std::move(report));
    }
  }
  SortByNode(located);
  return accused;
}

void AddUnsteady(const GraphIndex& index, NodeId node, LocateResult* located) {
  NodeReport report = ReportUnchecked(index, node, "not asked");
  report.evidence.is_steady = false;
  Conclude(index, {}, &report);
  AddCulprit(std::move(report), {}, located);
}

// Adds the nodes that ended runs, which are culprits, and those that the
// reference computed because it was asked to: nothing else is said of them.
void AddStandIns(const GraphIndex& index, const StandIns& stand_ins,
                 LocateResult* located) {
  std::set<std::string> keys(stand_ins.asked_for.begin(),
                             stand_ins.asked_for.end());
  for (const NodeFailure& failure : stand_ins.failures) {
    keys.insert(failure.node);
  }
  for (const NodeId node : AllNodes(index.graph())) {
    if (!keys.contains(index.KeyOf(node)) || HasReport(node, *located)) {
      continue;
    }
    located->nodes.push_back(ReportUnchecked(index, node, ""));
  }
  SortByNode(located);
  NoteFailures(stand_ins, located);
  std::erase_if(located->culprits, [&](const Culprit& culprit) {
    return keys.contains(located->nodes[culprit.report].key);
  });
  for (size_t i = 0; i < located->nodes.size(); ++i) {
    NodeReport& report = located->nodes[i];
    if (!keys.contains(report.key)) continue;
    Conclude(index, {}, &report);
    if (!IsCulpritVerdict(report.verdict)) continue;
    located->culprits.push_back({i, std::nullopt, {}});
  }
  SortByNode(located);
}

// Nodes that the reference computes mask nothing.
Masking MaskingBefore(NodeId first, const LocateResult& located) {
  Masking masking = Masking::kNone;
  for (const NodeReport& report : located.nodes) {
    if (report.node >= first || report.was_replaced()) continue;
    if (report.verdict == NodeVerdict::kInconclusive) {
      masking = std::max(masking, Masking::kPossible);
    }
    // A plan fault spoils what another node reads.
    if (IsCulpritVerdict(report.verdict) &&
        report.verdict != NodeVerdict::kPlanFault) {
      masking = Masking::kCertain;
    }
  }
  return masking;
}

std::vector<size_t> AllHeads(const Graph& graph) {
  std::vector<size_t> heads(graph.heads.size());
  std::iota(heads.begin(), heads.end(), size_t{0});
  return heads;
}

// One turn of the search for nodes that end runs.
struct Bisector {
  const BisectRequest& request;
  const BisectOptions& options;
  const StandInSearch& search;
  const GraphIndex& index = request.index;
  const Graph& graph = index.graph();
  const Tolerance tolerance = AccumulatedTolerance(graph);
  // The path leads to all outputs at first, and to the wrong ones alone once
  // these are known.
  BisectPath path{index, AllHeads(graph)};
  ReferenceRest rest{index, request.operators};
  std::unique_ptr<Runner> candidate = {};
  // The hashes of the candidate's run that the questions are about.
  RunHashes hashes = {};
  // The network's inputs, and the tensors that cuts need.
  ByEntry<NDArray> kept = {};
  // The outputs as the reference makes them.
  std::vector<NDArray> reference = {};
  WrongOutputs wrong = {};
  WrongOutputs at_first = {};  // Before anything was mended.
  double left_before = 1;      // The share of at_first's error.
  // The tensors that stand in for culprits of the rounds before, and for those
  // of this one if they are replaced one by one.
  std::vector<TensorPatch> patches = {};
  std::vector<TensorPatch> replacements = {};
  std::vector<NodeId> accused = {};  // In this round.
  NodeId first{};
  size_t round = 0;
  BisectResult result = {};

  absl::StatusOr<BisectResult> Run() {
    NODEWISE_RETURN_IF_ERROR(Search());
    AddStandIns(index, search.stand_ins(), &result.located);
    if (result.first.has_value()) NoteFirst();
    return std::move(result);
  }

  absl::Status Search() {
    NODEWISE_RETURN_IF_ERROR(rest.Prepare(path.nodes));
    // Where the search was cut, no run of the candidate comes to its end.
    if (search.is_cut) return absl::OkStatus();
    NODEWISE_RETURN_IF_ERROR(RunBoth());
    if (wrong.empty()) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(const bool is_steady, RecheckEnds());
    if (!is_steady) return absl::OkStatus();
    for (bool goes_on = true; goes_on;) {
      const auto asks = [this](size_t k) -> absl::StatusOr<bool> {
        NODEWISE_ASSIGN_OR_RETURN(const double left, Ask(k));
        return Note(k, left).is_yes();
      };
      NODEWISE_ASSIGN_OR_RETURN(const size_t found,
                                BisectFirstTrue(0, path.size(), asks));
      NODEWISE_ASSIGN_OR_RETURN(const bool can_be_mended, Confirm(found));
      if (!can_be_mended) break;
      NODEWISE_ASSIGN_OR_RETURN(goes_on, ReplaceCulprits());
    }
    return absl::OkStatus();
  }

  // Runs both sides from end to end: they are the two ends between which
  // halving asks.
  absl::Status RunBoth() {
    NODEWISE_ASSIGN_OR_RETURN(candidate, search.makers.candidate());
    if (!candidate->Can(Capability::kTensors)) {
      return Unimplemented(
          "{}: cannot hand out what its nodes make, which bisecting needs",
          candidate->name());
    }
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<NamedTensor> outputs,
                              RunCandidate());
    NODEWISE_ASSIGN_OR_RETURN(reference, RunRest(0, kept));
    NODEWISE_ASSIGN_OR_RETURN(wrong,
                              FindWrongOutputs(reference, outputs, tolerance,
                                               &result.located.outputs));
    at_first = wrong;
    NODEWISE_RETURN_IF_ERROR(ChoosePath());
    result.nodes_on_path = path.size();
    return absl::OkStatus();
  }

  ObservedRun RunOf(ObserveOptions run) const {
    run.node_limit_ms = options.node_limit_ms;
    run.with_node_inputs = candidate->Can(Capability::kNodeInputs);
    run.with_hashes = true;
    return {*candidate, index, request.inputs, std::move(run)};
  }

  absl::StatusOr<std::vector<NamedTensor>> RunCandidate() {
    std::vector<EntryId> keeps = path.given;
    if (path.size() > 1) {
      const auto cuts = path.CutsBetween(0, path.size(), options.most_bytes);
      std::ranges::copy(path.LiveAt(cuts), std::back_inserter(keeps));
    }
    ObservedRun run = RunOf({.keeps = std::move(keeps), .patches = patches});
    NODEWISE_RETURN_IF_ERROR(run.Run());
    ++result.candidate_runs;
    hashes = run.hashes();
    kept = std::move(run.kept());
    return run.result().outputs;
  }

  // Only what the wrong outputs depend on counts.
  absl::Status ChoosePath() {
    if (wrong.empty()) return absl::OkStatus();
    path = BisectPath(index, wrong.heads);
    if (path.size() > 0) return absl::OkStatus();
    return FailedPrecondition(
        "{}: output {} is an input of the network, which no node makes, and "
        "something has written over it",
        candidate->name(), wrong.names[0]);
  }

  ByEntry<NDArray> Given() const {
    ByEntry<NDArray> given(graph);
    for (const EntryId entry : path.given) given[entry] = kept[entry];
    return given;
  }

  // The reference computes what lies behind a cut, from what lies before it.
  absl::StatusOr<std::vector<NDArray>> RunRest(size_t cut,
                                               const ByEntry<NDArray>& made) {
    ByEntry<NDArray> tensors = Given();
    for (const EntryId entry : path.LiveAt({cut})) tensors[entry] = made[entry];
    ++result.reference_runs;
    return rest.Run(absl::MakeConstSpan(path.nodes).subspan(cut),
                    std::move(tensors), path.outputs);
  }

  const BisectQuestion& Note(size_t taken, double left,
                             bool is_repeated = false) {
    const std::string last =
        taken == 0 ? "" : index.KeyOf(path.nodes[taken - 1]);
    result.questions.push_back({taken, last, left, is_repeated, round});
    if (options.progress) {
      // Both ends and the answer are asked twice.
      const size_t total = std::bit_width(path.size()) + 6;
      options.progress(std::min(result.questions.size(), total), total);
    }
    return result.questions.back();
  }

  absl::StatusOr<double> AskOf(size_t cut, const ByEntry<NDArray>& made) {
    NODEWISE_ASSIGN_OR_RETURN(const auto outputs, RunRest(cut, made));
    return wrong.ShareLeft(outputs);
  }

  // A cut whose tensors are not kept takes one more run of the candidate, which
  // keeps those of the cuts that may be asked for next.
  absl::StatusOr<double> Ask(size_t cut) {
    if (!IsKept(cut)) NODEWISE_RETURN_IF_ERROR(KeepNeighbouringCuts(cut));
    return AskOf(cut, kept);
  }

  bool IsKept(size_t cut) const {
    return std::ranges::all_of(path.LiveAt({cut}), [this](EntryId entry) {
      return kept[entry].defined();
    });
  }

  absl::Status KeepNeighbouringCuts(size_t cut) {
    size_t low = 0, high = path.size();
    for (const BisectQuestion& question : result.questions) {
      if (question.round != round) continue;
      if (question.is_yes()) {
        high = std::min(high, question.taken);
      } else {
        low = std::max(low, question.taken);
      }
    }
    const auto cuts = path.CutsBetween(low, high, options.most_bytes);
    const std::vector<EntryId> live = path.LiveAt(cuts);
    // Tensors that other cuts needed are let go first: both together might take
    // twice the memory that there is for them.
    kept = Given();
    ObservedRun run = RunOf({.keeps = live,
                             .last = path.nodes[cuts.back() - 1],
                             .patches = patches});
    NODEWISE_RETURN_IF_ERROR(run.Run());
    ++result.candidate_runs;
    for (const EntryId entry : live) {
      kept[entry] = run.kept()[entry];
      const RunHashes::Hash hash = run.hashes().made[entry];
      if (hash.has_value() && hash != hashes.made[entry]) return Changes(entry);
    }
    if (IsKept(cut)) return absl::OkStatus();
    return NotFound("{}: has not handed out all that nodes behind {} read",
                    candidate->name(), index.KeyOf(path.nodes[cut - 1]));
  }

  absl::Status Changes(EntryId entry) const {
    return FailedPrecondition(
        "{}: {} had other bits in another run of the same inputs, so that no "
        "answer could be trusted",
        candidate->name(), index.KeyOf(entry));
  }

  // Returns false if the candidate is not deterministic, with its culprits.
  absl::StatusOr<bool> RecheckEnds() {
    Note(0, 0);
    Note(path.size(), 1);
    NODEWISE_ASSIGN_OR_RETURN(const double none, AskOf(0, kept));
    Note(0, none, true);
    if (none != 0) {
      return FailedPrecondition(
          "the reference makes other outputs when it runs again, so that no "
          "answer could be trusted");
    }
    ObservedRun run = RunOf({});
    NODEWISE_RETURN_IF_ERROR(run.Run());
    ++result.candidate_runs;
    NODEWISE_ASSIGN_OR_RETURN(const double all,
                              wrong.ShareLeftIn(run.result().outputs));
    Note(path.size(), all, true);
    return CheckSteady(run.hashes());
  }

  absl::StatusOr<bool> CheckSteady(const RunHashes& other) {
    bool is_steady = true;
    for (const NodeId node : path.nodes) {
      if (IsSteady(graph, node, hashes, other)) continue;
      AddUnsteady(index, node, &result.located);
      is_steady = false;
    }
    if (!is_steady) return false;
    // An output may be written over by something that is not on the path.
    for (const size_t head : wrong.heads) {
      if (hashes.outputs[head] == other.outputs[head]) continue;
      return Changes(graph.EntryOf(graph.heads[head]));
    }
    return true;
  }

  // One more run of the candidate, in which the nodes up to the one that was
  // found are judged by what they read, and the two questions that decided are
  // asked again. Returns whether there are culprits that can be mended.
  absl::StatusOr<bool> Confirm(size_t found) {
    ObservedRun run =
        RunOf({.keeps = path.LiveAt({found - 1, found}), .patches = patches});
    ByNode<bool> is_judged(graph);
    for (size_t i = 0; i < found; ++i) is_judged[path.nodes[i]] = true;
    NODEWISE_ASSIGN_OR_RETURN(
        const NodeChecks checks,
        Check(&run, true, [&](NodeId node) { return is_judged[node]; }));
    NODEWISE_ASSIGN_OR_RETURN(const bool is_steady, CheckSteady(run.hashes()));
    if (!is_steady) return false;
    NODEWISE_RETURN_IF_ERROR(AskAgain(found - 1, run.kept()));
    NODEWISE_RETURN_IF_ERROR(AskAgain(found, run.kept()));
    const NodeId node = path.nodes[found - 1];
    accused = AddVerdicts(index, checks, hashes, node, &result.located);
    if (round == 0) first = node;
    NoteFirst();
    return HaveReplacements(checks);
  }

  absl::StatusOr<NodeChecks> Check(ObservedRun* run, bool with_accumulated,
                                   std::function<bool(NodeId)> selects) {
    NODEWISE_ASSIGN_OR_RETURN(NodeChecks checks,
                              CheckNodes(index, request.operators, *run,
                                         {.with_accumulated = with_accumulated,
                                          .selects = std::move(selects)}));
    ++result.candidate_runs;
    ++result.reference_runs;
    return checks;
  }

  void NoteFirst() {
    result.first = PlaceOfReport(first, result.located);
    result.masking = MaskingBefore(first, result.located);
  }

  // Keeps what the reference makes of what the new culprits read. Returns
  // false if there are none, or they cannot be replaced.
  bool HaveReplacements(const NodeChecks& checks) {
    replacements.clear();
    for (const NodeCheck& check : checks.nodes) {
      if (std::ranges::find(accused, check.node) == accused.end()) continue;
      AddPatches(check, check.expected, &replacements);
    }
    return !replacements.empty() && candidate->Can(Capability::kPatches);
  }

  // Has the candidate run with the reference's tensors in place of all
  // culprits'. If outputs are wrong all the same, there are more: returns true,
  // and the next questions are about that run.
  absl::StatusOr<bool> ReplaceCulprits() {
    if (accused.size() == 1 && patches.empty()) {
      patches = std::move(replacements);
    } else {
      NODEWISE_ASSIGN_OR_RETURN(patches, PatchesOfAll());
    }
    // An output that was right by chance may be wrong now.
    path = BisectPath(index, AllHeads(graph));
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<NamedTensor> outputs,
                              RunCandidate());
    NODEWISE_ASSIGN_OR_RETURN(const double left, at_first.ShareLeftIn(outputs));
    NoteShare(left);
    NODEWISE_ASSIGN_OR_RETURN(
        wrong, FindWrongOutputs(reference, outputs, tolerance, nullptr));
    if (wrong.empty() || ++round == kMostMendings) return false;
    NODEWISE_RETURN_IF_ERROR(ChoosePath());
    Note(0, 0);
    Note(path.size(), 1);
    return true;
  }

  // The right outputs of a culprit depend on those before it: each is asked for
  // in a run in which they are right.
  absl::StatusOr<std::vector<TensorPatch>> PatchesOfAll() {
    std::vector<TensorPatch> all;
    for (const Culprit& culprit : result.located.culprits) {
      const NodeId node = result.located.nodes[culprit.report].node;
      ObservedRun run = RunOf({.patches = all});
      NODEWISE_ASSIGN_OR_RETURN(
          const NodeChecks checks,
          Check(&run, false, [node](NodeId id) { return id == node; }));
      for (const NodeCheck& checked : checks.nodes) {
        AddPatches(checked, checked.expected, &all);
      }
    }
    return all;
  }

  // The error that is gone is a culprit's own only if that culprit was replaced
  // alone.
  void NoteShare(double left) {
    LocateResult& located = result.located;
    if (located.culprits.size() > 1) located.share_of_all = 1 - left;
    if (accused.size() == 1) {
      for (Culprit& culprit : located.culprits) {
        if (located.nodes[culprit.report].node != accused[0]) continue;
        culprit.share = left_before - left;
      }
    }
    left_before = left;
  }

  absl::Status AskAgain(size_t cut, const ByEntry<NDArray>& made) {
    // The ends have been asked twice.
    if (cut == 0 || cut == path.size()) return absl::OkStatus();
    const auto before = std::ranges::find_if(
        result.questions, [&](const BisectQuestion& question) {
          return question.taken == cut && question.round == round;
        });
    const double first_left = before->left;
    NODEWISE_ASSIGN_OR_RETURN(const double left, AskOf(cut, made));
    Note(cut, left, true);
    if (left == first_left) return absl::OkStatus();
    return FailedPrecondition(
        "{}: with its nodes up to {}, {:.3g} of the error was left in one run "
        "and {:.3g} in another, so that no answer could be trusted",
        candidate->name(), index.KeyOf(path.nodes[cut - 1]), first_left, left);
  }
};

}  // namespace

std::string_view NameOf(Masking masking) {
  return kMaskingNames[static_cast<size_t>(masking)];
}

absl::StatusOr<BisectResult> Bisect(const BisectRequest& request,
                                    const BisectOptions& options) {
  StandInSearch search{
      request.stand_ins, request.with_stand_ins, {request.candidate}};
  for (size_t candidate_runs = 0, reference_runs = 0;;) {
    Bisector bisector{request, options, search};
    auto result = bisector.Run();
    if (result.ok()) {
      result->candidate_runs += candidate_runs;
      result->reference_runs += reference_runs;
      if (!search.why_cut.empty()) {
        result->located.notes.push_back(search.why_cut);
      }
      return result;
    }
    NODEWISE_RETURN_IF_ERROR(
        search.ContinueAfter(result.status(), bisector.result.candidate_runs));
    // The run that a node has ended counts as a run, too.
    candidate_runs += bisector.result.candidate_runs + 1;
    reference_runs += bisector.result.reference_runs;
  }
}

}  // namespace nodewise
