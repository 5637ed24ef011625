#include "nodewise/locate/bisect.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <numeric>
#include <utility>

#include "contrib/locate/accumulated_rule.h"
#include "contrib/locate/bisect_path.h"
#include "contrib/locate/bisect_verdicts.h"
#include "contrib/locate/kept_run.h"
#include "contrib/locate/question_search.h"
#include "contrib/locate/reference_rest.h"
#include "contrib/locate/stand_in_search.h"
#include "contrib/locate/wrong_outputs.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

std::vector<size_t> AllHeads(const Graph& graph) {
  std::vector<size_t> heads(graph.heads.size());
  std::iota(heads.begin(), heads.end(), size_t{0});
  return heads;
}

std::vector<EntryId> Joined(std::vector<EntryId> a,
                            const std::vector<EntryId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Each round finds what makes more than half of the error that is left.
constexpr size_t kMostMendings = 16;

class Bisector {
 public:
  // One turn of the search for nodes that end runs. All must outlive this.
  Bisector(const BisectRequest& request, const BisectOptions& options,
           const StandInSearch& search)
      : request_(request),
        options_(options),
        search_(search),
        index_(request.index),
        graph_(request.index.graph()),
        tolerance_(AccumulatedTolerance(graph_)),
        path_(index_, AllHeads(graph_)),
        rest_(index_, request.operators) {}

  absl::StatusOr<BisectResult> Run() {
    NODEWISE_RETURN_IF_ERROR(Search());
    AddStandIns(index_, search_.stand_ins(), &result_);
    if (result_.first.has_value()) NoteFirst();
    return std::move(result_);
  }

  // Returns how often the candidate and the reference have run.
  size_t candidate_runs() const { return result_.candidate_runs; }
  size_t reference_runs() const { return result_.reference_runs; }

 private:
  absl::Status Search() {
    NODEWISE_RETURN_IF_ERROR(rest_.Prepare(path_.nodes()));
    // No run comes to its end.
    if (search_.is_cut()) return absl::OkStatus();
    NODEWISE_RETURN_IF_ERROR(RunBoth());
    if (wrong_.empty()) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(const bool is_steady, AskEndsAgain());
    if (!is_steady) return absl::OkStatus();
    for (bool goes_on = true; goes_on;) {
      const auto asks = [this](size_t k) -> absl::StatusOr<bool> {
        NODEWISE_ASSIGN_OR_RETURN(const double left, Ask(k));
        return Note(k, left).is_yes();
      };
      NODEWISE_ASSIGN_OR_RETURN(const size_t found,
                                FirstLeap(0, path_.size(), asks));
      NODEWISE_ASSIGN_OR_RETURN(const bool can_be_mended, Confirm(found));
      if (!can_be_mended) break;
      NODEWISE_ASSIGN_OR_RETURN(goes_on, Mend());
    }
    return absl::OkStatus();
  }

  // The two ends: the candidate's run, all of it, and the reference's.
  absl::Status RunBoth() {
    NODEWISE_ASSIGN_OR_RETURN(candidate_, search_.makers().candidate());
    if (!candidate_->Can(Capability::kTensors)) {
      return absl::UnimplementedError(fmt::format(
          "{}: cannot hand out what its nodes make, which bisecting needs",
          candidate_->name()));
    }
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<NamedTensor> outputs,
                              RunCandidate());
    NODEWISE_ASSIGN_OR_RETURN(reference_, RunRest(0, kept_));
    NODEWISE_ASSIGN_OR_RETURN(
        wrong_, WrongOutputs::Find(reference_, outputs, tolerance_,
                                   &result_.located.outputs));
    at_first_ = wrong_;
    NODEWISE_RETURN_IF_ERROR(ChoosePath());
    result_.nodes_on_path = path_.size();
    return absl::OkStatus();
  }

  KeptRun RunOf(KeptRunOptions run) const {
    run.node_limit_ms = options_.node_limit_ms;
    return {*candidate_, index_, request_.inputs, std::move(run)};
  }

  // Runs all of the candidate, and keeps what the first questions need.
  absl::StatusOr<std::vector<NamedTensor>> RunCandidate() {
    std::vector<EntryId> keeps = path_.given();
    if (path_.size() > 1) {
      const auto cuts = path_.CutsBetween(0, path_.size(), options_.most_bytes);
      keeps = Joined(std::move(keeps), path_.LiveAtAny(cuts));
    }
    KeptRun run = RunOf({std::move(keeps), {}, patches_});
    NODEWISE_RETURN_IF_ERROR(run.Run());
    ++result_.candidate_runs;
    hashes_ = run.hashes();
    kept_ = std::move(run.kept());
    return run.outputs();
  }

  // Only what the wrong outputs depend on counts.
  absl::Status ChoosePath() {
    if (wrong_.empty()) return absl::OkStatus();
    path_ = BisectPath(index_, wrong_.heads());
    if (path_.size() > 0) return absl::OkStatus();
    return absl::FailedPreconditionError(fmt::format(
        "{}: output {} is an input of the network, which no node makes, and "
        "something has written over it",
        candidate_->name(), wrong_.names()[0]));
  }

  // The reference computes what lies behind a cut, from what lies before it.
  absl::StatusOr<std::vector<NDArray>> RunRest(size_t cut,
                                               const ByEntry<NDArray>& made) {
    ByEntry<NDArray> tensors(graph_);
    for (const EntryId entry : path_.given()) tensors[entry] = kept_[entry];
    for (const EntryId entry : path_.LiveAt(cut)) tensors[entry] = made[entry];
    ++result_.reference_runs;
    return rest_.Run(absl::MakeConstSpan(path_.nodes()).subspan(cut),
                     std::move(tensors), path_.outputs());
  }

  const BisectQuestion& Note(size_t taken, double left,
                             bool is_repeated = false) {
    const std::string last =
        taken == 0 ? "" : index_.KeyOf(path_.nodes()[taken - 1]);
    result_.questions.push_back({taken, last, left, is_repeated, round_});
    if (options_.progress) {
      // Both ends and the answer are asked twice.
      const size_t total = std::bit_width(path_.size()) + 6;
      options_.progress(std::min(result_.questions.size(), total), total);
    }
    return result_.questions.back();
  }

  absl::StatusOr<double> AskOf(size_t cut, const ByEntry<NDArray>& made) {
    NODEWISE_ASSIGN_OR_RETURN(const auto outputs, RunRest(cut, made));
    return wrong_.ShareLeft(outputs);
  }

  // Halving asks for a cut between what it knows; what is kept is made anew for
  // that part of the path where it does not reach so far.
  absl::StatusOr<double> Ask(size_t cut) {
    if (!IsKept(cut)) NODEWISE_RETURN_IF_ERROR(KeepAround(cut));
    return AskOf(cut, kept_);
  }

  bool IsKept(size_t cut) const {
    const std::vector<EntryId> live = path_.LiveAt(cut);
    return std::all_of(live.begin(), live.end(), [this](EntryId entry) {
      return kept_[entry].defined();
    });
  }

  absl::Status KeepAround(size_t cut) {
    size_t low = 0, high = path_.size();
    for (const BisectQuestion& question : result_.questions) {
      if (question.round != round_) continue;
      if (question.is_yes()) {
        high = std::min(high, question.taken);
      } else {
        low = std::max(low, question.taken);
      }
    }
    const auto cuts = path_.CutsBetween(low, high, options_.most_bytes);
    DropAllButGiven();
    KeptRun run = RunOf(
        {path_.LiveAtAny(cuts), path_.nodes()[cuts.back() - 1], patches_});
    NODEWISE_RETURN_IF_ERROR(run.Run());
    ++result_.candidate_runs;
    for (const EntryId entry : path_.LiveAtAny(cuts)) {
      kept_[entry] = run.kept()[entry];
      const RunHashes::Hash hash = run.hashes().made[entry];
      if (hash.has_value() && hash != hashes_.made[entry]) {
        return Changes(entry);
      }
    }
    if (IsKept(cut)) return absl::OkStatus();
    return absl::NotFoundError(
        fmt::format("{}: has not handed out all that nodes behind {} read",
                    candidate_->name(), index_.KeyOf(path_.nodes()[cut - 1])));
  }

  void DropAllButGiven() {
    ByEntry<NDArray> given(graph_);
    for (const EntryId entry : path_.given()) given[entry] = kept_[entry];
    kept_ = std::move(given);
  }

  absl::Status Changes(EntryId entry) const {
    return absl::FailedPreconditionError(fmt::format(
        "{}: {} had other bits in another run of the same inputs, so that no "
        "answer could be trusted",
        candidate_->name(), index_.KeyOf(entry)));
  }

  // Returns false if the candidate is not deterministic, with its culprits.
  absl::StatusOr<bool> AskEndsAgain() {
    Note(0, 0);
    Note(path_.size(), 1);
    NODEWISE_ASSIGN_OR_RETURN(const double none, AskOf(0, kept_));
    Note(0, none, true);
    if (none != 0) {
      return absl::FailedPreconditionError(
          "the reference makes other outputs when it runs again, so that no "
          "answer could be trusted");
    }
    KeptRun run = RunOf({});
    NODEWISE_RETURN_IF_ERROR(run.Run());
    ++result_.candidate_runs;
    NODEWISE_ASSIGN_OR_RETURN(const double all,
                              wrong_.ShareLeftIn(run.outputs()));
    Note(path_.size(), all, true);
    return CheckSteady(run.hashes());
  }

  // Compares a further run of the candidate with the first.
  absl::StatusOr<bool> CheckSteady(const RunHashes& other) {
    bool is_steady = true;
    for (const NodeId node : path_.nodes()) {
      if (IsSteady(graph_, node, hashes_, other)) continue;
      AddUnsteady(index_, node, &result_);
      is_steady = false;
    }
    if (!is_steady) return false;
    for (const size_t head : wrong_.heads()) {
      if (hashes_.outputs[head] == other.outputs[head]) continue;
      return Changes(graph_.EntryOf(graph_.heads[head]));
    }
    return true;
  }

  // One more run of the candidate, in which the nodes up to the one that was
  // found are judged by what they read, and the two questions that decided are
  // asked again. Returns whether there are culprits that can be mended.
  absl::StatusOr<bool> Confirm(size_t found) {
    KeptRun run = RunOf(
        {Joined(path_.LiveAt(found - 1), path_.LiveAt(found)), {}, patches_});
    ByNode<bool> is_judged(graph_);
    for (size_t i = 0; i < found; ++i) is_judged[path_.nodes()[i]] = true;
    NodeCheckOptions check;
    check.with_accumulated = true;
    check.selects = [&](NodeId node) { return is_judged[node]; };
    NODEWISE_ASSIGN_OR_RETURN(
        const NodeChecks checks,
        CheckNodes(index_, request_.operators, run, check));
    ++result_.candidate_runs;
    ++result_.reference_runs;
    NODEWISE_ASSIGN_OR_RETURN(const bool is_steady, CheckSteady(run.hashes()));
    if (!is_steady) return false;
    NODEWISE_RETURN_IF_ERROR(AskAgain(found - 1, run.kept()));
    NODEWISE_RETURN_IF_ERROR(AskAgain(found, run.kept()));
    const NodeId node = path_.nodes()[found - 1];
    accused_ = AddVerdicts(index_, checks, hashes_, node, &result_);
    if (round_ == 0) first_ = node;
    NoteFirst();
    return HaveReplacements(checks);
  }

  void NoteFirst() {
    result_.first = ReportOn(first_, result_.located);
    result_.masking = MaskingBefore(first_, result_.located);
  }

  // Keeps what the reference makes of what the new culprits read. Returns
  // false if there are none, or they cannot be replaced.
  bool HaveReplacements(const NodeChecks& checks) {
    replacements_.clear();
    for (const NodeCheck& check : checks.nodes) {
      if (std::find(accused_.begin(), accused_.end(), check.node) !=
          accused_.end()) {
        AddPatches(check, &replacements_);
      }
    }
    return !replacements_.empty() && candidate_->Can(Capability::kPatches);
  }

  static void AddPatches(const NodeCheck& check,
                         std::vector<TensorPatch>* patches) {
    for (uint32_t slot = 0; slot < check.expected.size(); ++slot) {
      patches->push_back({fmt::format("{}:{}", check.key, slot),
                          check.expected[slot], "the reference", check.key});
    }
  }

  // Has the candidate run with the reference's tensors in place of all
  // culprits'. If outputs are wrong all the same, there are more: returns true,
  // and the next questions are about that run.
  absl::StatusOr<bool> Mend() {
    if (accused_.size() == 1 && patches_.empty()) {
      patches_ = std::move(replacements_);
    } else {
      NODEWISE_ASSIGN_OR_RETURN(patches_, PatchesOfAll());
    }
    // An output that was right by chance may be wrong now.
    path_ = BisectPath(index_, AllHeads(graph_));
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<NamedTensor> outputs,
                              RunCandidate());
    NODEWISE_ASSIGN_OR_RETURN(const double left,
                              at_first_.ShareLeftIn(outputs));
    NoteShare(left);
    NODEWISE_ASSIGN_OR_RETURN(
        wrong_, WrongOutputs::Find(reference_, outputs, tolerance_, nullptr));
    if (wrong_.empty() || ++round_ == kMostMendings) return false;
    NODEWISE_RETURN_IF_ERROR(ChoosePath());
    Note(0, 0);
    Note(path_.size(), 1);
    return true;
  }

  // The right outputs of a culprit depend on those before it: each is asked for
  // in a run in which they are right.
  absl::StatusOr<std::vector<TensorPatch>> PatchesOfAll() {
    std::vector<TensorPatch> patches;
    for (const Culprit& culprit : result_.located.culprits) {
      const NodeId node = result_.located.nodes[culprit.report].node;
      KeptRun run = RunOf({{}, {}, patches});
      NodeCheckOptions check;
      check.selects = [node](NodeId id) { return id == node; };
      NODEWISE_ASSIGN_OR_RETURN(
          const NodeChecks checks,
          CheckNodes(index_, request_.operators, run, check));
      ++result_.candidate_runs;
      ++result_.reference_runs;
      for (const NodeCheck& checked : checks.nodes) {
        AddPatches(checked, &patches);
      }
    }
    return patches;
  }

  // A culprit that was found alone explains what is gone with it.
  void NoteShare(double left) {
    LocateResult& located = result_.located;
    if (located.culprits.size() > 1) located.share_of_all = 1 - left;
    if (accused_.size() == 1) {
      for (Culprit& culprit : located.culprits) {
        if (located.nodes[culprit.report].node != accused_[0]) continue;
        culprit.share = left_before_ - left;
      }
    }
    left_before_ = left;
  }

  absl::Status AskAgain(size_t cut, const ByEntry<NDArray>& made) {
    const auto is_same = [this, cut](const BisectQuestion& question) {
      return question.taken == cut && question.round == round_;
    };
    // The ends have been asked twice.
    if (cut == 0 || cut == path_.size()) return absl::OkStatus();
    const auto before = std::find_if(result_.questions.begin(),
                                     result_.questions.end(), is_same);
    const double first_left = before->left;
    NODEWISE_ASSIGN_OR_RETURN(const double left, AskOf(cut, made));
    Note(cut, left, true);
    if (left == first_left) return absl::OkStatus();
    return absl::FailedPreconditionError(fmt::format(
        "{}: with its nodes up to {}, {:.3g} of the error was left in one run "
        "and {:.3g} in another, so that no answer could be trusted",
        candidate_->name(), index_.KeyOf(path_.nodes()[cut - 1]), first_left,
        left));
  }

  const BisectRequest& request_;
  const BisectOptions& options_;
  const StandInSearch& search_;
  const GraphIndex& index_;
  const Graph& graph_;
  const Tolerance tolerance_;  // The tolerance of the outputs.
  BisectPath path_;            // To all outputs, then to the wrong ones.
  ReferenceRest rest_;
  std::unique_ptr<Runner> candidate_;
  // The hashes of the candidate's run that the questions are about.
  RunHashes hashes_;
  // The network's inputs, and the tensors that cuts need.
  ByEntry<NDArray> kept_;
  std::vector<NDArray> reference_;  // The outputs as the reference makes them.
  WrongOutputs wrong_;
  WrongOutputs at_first_;  // Before anything was mended.
  // The stand-ins for culprits of the rounds before, and for those of this one
  // if they are replaced one by one.
  double left_before_ = 1;
  // What stands in for culprits of the rounds before, and for those of this one
  // if they are replaced one by one.
  std::vector<TensorPatch> patches_;
  std::vector<TensorPatch> replacements_;
  std::vector<NodeId> accused_;  // In this round.
  NodeId first_{};
  size_t round_ = 0;
  BisectResult result_;
};

}  // namespace

std::string_view NameOf(Masking masking) {
  switch (masking) {
    case Masking::kNone:
      return "no";
    case Masking::kPossible:
      return "possible";
    case Masking::kCertain:
      return "yes";
  }
  return "";
}

absl::StatusOr<BisectResult> Bisect(const BisectRequest& request,
                                    const BisectOptions& options) {
  StandInSearch search({request.stand_ins, request.with_stand_ins},
                       {request.candidate});
  for (size_t candidate_runs = 0, reference_runs = 0;;) {
    Bisector bisector(request, options, search);
    auto result = bisector.Run();
    if (result.ok()) {
      result->candidate_runs += candidate_runs;
      result->reference_runs += reference_runs;
      if (!search.why_cut().empty()) {
        result->located.notes.push_back(search.why_cut());
      }
      return result;
    }
    NODEWISE_RETURN_IF_ERROR(
        search.GoOnAfter(result.status(), bisector.candidate_runs()));
    // The run that was ended was one, too.
    candidate_runs += bisector.candidate_runs() + 1;
    reference_runs += bisector.reference_runs();
  }
}

}  // namespace nodewise
