#include "nodewise/locate/bisect.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <numeric>
#include <utility>

#include "contrib/locate/accumulated_rule.h"
#include "contrib/locate/bisect_path.h"
#include "contrib/locate/kept_run.h"
#include "contrib/locate/node_report.h"
#include "contrib/locate/output_error.h"
#include "contrib/locate/question_search.h"
#include "contrib/locate/reference_rest.h"
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

class Bisector {
 public:
  Bisector(const BisectRequest& request, const BisectOptions& options)
      : request_(request),
        options_(options),
        index_(request.index),
        graph_(request.index.graph()),
        tolerance_(AccumulatedTolerance(graph_)),
        path_(index_, AllHeads(graph_)),
        rest_(index_, request.operators) {}

  absl::StatusOr<BisectResult> Run() {
    NODEWISE_RETURN_IF_ERROR(RunBoth());
    if (!result_.located.AreOutputsWrong()) return std::move(result_);
    if (path_.size() == 0) {
      return absl::FailedPreconditionError(fmt::format(
          "{}: output {} is an input of the network, which no node makes, and "
          "something has written over it",
          candidate_->name(), names_[0]));
    }
    NODEWISE_ASSIGN_OR_RETURN(const bool is_steady, AskEndsAgain());
    if (!is_steady) return std::move(result_);
    const auto asks = [this](size_t k) -> absl::StatusOr<bool> {
      NODEWISE_ASSIGN_OR_RETURN(const double left, Ask(k));
      return Note(k, left).is_yes();
    };
    NODEWISE_ASSIGN_OR_RETURN(const size_t found,
                              FirstLeap(0, path_.size(), asks));
    NODEWISE_RETURN_IF_ERROR(Confirm(found));
    return std::move(result_);
  }

 private:
  // The two ends: the candidate's run, all of it, and the reference's.
  absl::Status RunBoth() {
    NODEWISE_RETURN_IF_ERROR(rest_.Prepare(path_.nodes()));
    NODEWISE_ASSIGN_OR_RETURN(candidate_, request_.candidate());
    if (!candidate_->Can(Capability::kTensors)) {
      return absl::UnimplementedError(fmt::format(
          "{}: cannot hand out what its nodes make, which bisecting needs",
          candidate_->name()));
    }
    std::vector<EntryId> keeps = path_.given();
    if (path_.size() > 1) {
      keeps =
          Joined(std::move(keeps), path_.LiveAtAny(path_.CutsBetween(
                                       0, path_.size(), options_.most_bytes)));
    }
    KeptRun run(*candidate_, index_, request_.inputs, {std::move(keeps), {}});
    NODEWISE_RETURN_IF_ERROR(run.Run());
    ++result_.candidate_runs;
    hashes_ = run.hashes();
    kept_ = std::move(run.kept());
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> reference,
                              RunRest(0, kept_));
    NODEWISE_ASSIGN_OR_RETURN(
        result_.located.outputs,
        CompareNetworkOutputs(reference, run.outputs(), tolerance_));
    KeepWrongOutputs(reference, run.outputs());
    return absl::OkStatus();
  }

  // From here on, only what the wrong outputs depend on counts.
  void KeepWrongOutputs(const std::vector<NDArray>& reference,
                        const std::vector<NamedTensor>& outputs) {
    std::vector<TensorComparison> wrong;
    for (size_t i = 0; i < result_.located.outputs.size(); ++i) {
      const TensorComparison& output = result_.located.outputs[i];
      if (!output.is_wrong()) continue;
      wrong_heads_.push_back(i);
      names_.push_back(outputs[i].name);
      reference_.push_back(reference[i]);
      wrong.push_back(output);
    }
    error_ = ErrorOf(wrong);
    path_ = BisectPath(index_, wrong_heads_);
    result_.nodes_on_path = path_.size();
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

  // Returns which share of the error is left in these outputs.
  absl::StatusOr<double> ShareLeft(const std::vector<NDArray>& outputs) const {
    std::vector<NamedTensor> named;
    for (size_t i = 0; i < outputs.size(); ++i) {
      named.push_back({names_[i], outputs[i]});
    }
    NODEWISE_ASSIGN_OR_RETURN(
        const auto compared,
        CompareNetworkOutputs(reference_, named, tolerance_));
    return 1 - ShareGone(error_, ErrorOf(compared));
  }

  const BisectQuestion& Note(size_t taken, double left,
                             bool is_repeated = false) {
    const std::string last =
        taken == 0 ? "" : index_.KeyOf(path_.nodes()[taken - 1]);
    result_.questions.push_back({taken, last, left, is_repeated});
    if (options_.progress) {
      // Both ends and the answer are asked twice.
      const size_t total = std::bit_width(path_.size()) + 6;
      options_.progress(std::min(result_.questions.size(), total), total);
    }
    return result_.questions.back();
  }

  absl::StatusOr<double> AskOf(size_t cut, const ByEntry<NDArray>& made) {
    NODEWISE_ASSIGN_OR_RETURN(const auto outputs, RunRest(cut, made));
    return ShareLeft(outputs);
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
      if (question.is_yes()) {
        high = std::min(high, question.taken);
      } else {
        low = std::max(low, question.taken);
      }
    }
    const auto cuts = path_.CutsBetween(low, high, options_.most_bytes);
    DropAllButGiven();
    KeptRun run(*candidate_, index_, request_.inputs,
                {path_.LiveAtAny(cuts), path_.nodes()[cuts.back() - 1]});
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
    KeptRun run(*candidate_, index_, request_.inputs, {});
    NODEWISE_RETURN_IF_ERROR(run.Run());
    ++result_.candidate_runs;
    std::vector<NDArray> outputs;
    for (const size_t head : wrong_heads_) {
      outputs.push_back(run.outputs()[head].tensor);
    }
    NODEWISE_ASSIGN_OR_RETURN(const double all, ShareLeft(outputs));
    Note(path_.size(), all, true);
    return CheckSteady(run.hashes());
  }

  // Compares a further run of the candidate with the first.
  absl::StatusOr<bool> CheckSteady(const RunHashes& other) {
    for (const NodeId node : path_.nodes()) {
      if (!IsSteady(graph_, node, hashes_, other)) AddUnsteady(node);
    }
    if (!result_.located.culprits.empty()) return false;
    for (const size_t head : wrong_heads_) {
      if (hashes_.outputs[head] == other.outputs[head]) continue;
      return Changes(graph_.EntryOf(graph_.heads[head]));
    }
    return true;
  }

  void AddUnsteady(NodeId node) {
    NodeReport report =
        ReportOf(index_, SkippedNode{node, index_.KeyOf(node), "not asked"});
    report.evidence.is_steady = false;
    Conclude(index_, {}, &report);
    result_.located.culprits.push_back({result_.located.nodes.size(), {}, {}});
    result_.located.nodes.push_back(std::move(report));
  }

  // One more run of the candidate, in which the nodes up to the one that was
  // found are judged by what they read, and the two questions that decided are
  // asked again.
  absl::Status Confirm(size_t found) {
    KeptRun run(*candidate_, index_, request_.inputs,
                {Joined(path_.LiveAt(found - 1), path_.LiveAt(found)), {}});
    ByNode<bool> is_judged(graph_);
    for (size_t i = 0; i < found; ++i) is_judged[path_.nodes()[i]] = true;
    NodeCheckOptions check;
    check.with_accumulated = true;
    check.selects = [&](NodeId node) { return is_judged[node]; };
    NODEWISE_ASSIGN_OR_RETURN(
        const NodeChecks checks,
        CheckNodes(graph_, request_.operators, run, check));
    ++result_.candidate_runs;
    ++result_.reference_runs;
    NODEWISE_ASSIGN_OR_RETURN(const bool is_steady, CheckSteady(run.hashes()));
    if (!is_steady) return absl::OkStatus();
    NODEWISE_RETURN_IF_ERROR(AskAgain(found - 1, run.kept()));
    NODEWISE_RETURN_IF_ERROR(AskAgain(found, run.kept()));
    Judge(checks, path_.nodes()[found - 1]);
    return ConfirmFirst(checks);
  }

  absl::Status AskAgain(size_t cut, const ByEntry<NDArray>& made) {
    const auto is_same = [cut](const BisectQuestion& question) {
      return question.taken == cut;
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

  void Judge(const NodeChecks& checks, NodeId first) {
    LocateResult& located = result_.located;
    for (const NodeCheck& checked : checks.nodes) {
      located.nodes.push_back(ReportOf(index_, checked));
    }
    for (const SkippedNode& skipped : checks.skipped) {
      located.nodes.push_back(ReportOf(index_, skipped));
    }
    const auto overwritten = FindOverwritten(index_, index_.plan(), hashes_);
    for (const Overwriting& found : overwritten) NoteOverwritten(found);
    std::sort(located.nodes.begin(), located.nodes.end(),
              [](const NodeReport& a, const NodeReport& b) {
                return a.node < b.node;
              });
    for (size_t i = 0; i < located.nodes.size(); ++i) {
      NodeReport& report = located.nodes[i];
      if (report.node == first) {
        result_.first = i;
        // The outputs show it, however small it is here.
        report.evidence.accumulated = Verdict::kError;
      }
      Conclude(index_, overwritten, &report);
      if (!Accuses(report.verdict)) continue;
      located.culprits.push_back(
          {i, std::nullopt, VictimsOf(index_, overwritten, report.node)});
    }
    JudgeMasking();
  }

  // Only what the nodes that were judged have read counts.
  void NoteOverwritten(const Overwriting& found) {
    const auto find = [this](NodeId node) {
      auto& nodes = result_.located.nodes;
      return std::find_if(
          nodes.begin(), nodes.end(),
          [node](const NodeReport& report) { return report.node == node; });
    };
    auto& nodes = result_.located.nodes;
    // The caller reads the outputs.
    if (Index(found.reader) != graph_.nodes.size()) {
      const auto reader = find(found.reader);
      if (reader == nodes.end()) return;
      reader->evidence.read_overwritten = true;
    }
    if (Index(found.writer) == graph_.nodes.size()) return;
    auto writer = find(found.writer);
    if (writer == nodes.end()) {
      nodes.push_back(
          ReportOf(index_, SkippedNode{found.writer, index_.KeyOf(found.writer),
                                       "no wrong output depends on it"}));
      writer = nodes.end() - 1;
    }
    writer->evidence.wrote_over = true;
  }

  void JudgeMasking() {
    for (size_t i = 0; i < *result_.first; ++i) {
      const NodeReport& report = result_.located.nodes[i];
      // A plan fault is in what somebody else read.
      if (Accuses(report.verdict) &&
          report.verdict != NodeVerdict::kPlanFault) {
        result_.masking = Masking::kCertain;
      }
      if (report.verdict == NodeVerdict::kInconclusive) {
        result_.masking = std::max(result_.masking, Masking::kPossible);
      }
    }
  }

  // The candidate runs with what the reference makes of what the node read.
  absl::Status ConfirmFirst(const NodeChecks& checks) {
    LocateResult& located = result_.located;
    const auto culprit = std::find_if(
        located.culprits.begin(), located.culprits.end(),
        [this](const Culprit& one) { return one.report == result_.first; });
    if (culprit == located.culprits.end() ||
        !candidate_->Can(Capability::kPatches)) {
      return absl::OkStatus();
    }
    RunOptions run;
    for (const NodeCheck& check : checks.nodes) {
      if (check.node != located.nodes[culprit->report].node) continue;
      for (uint32_t slot = 0; slot < check.expected.size(); ++slot) {
        run.patches.push_back({fmt::format("{}:{}", check.key, slot),
                               check.expected[slot], "the reference",
                               check.key});
      }
    }
    if (run.patches.empty()) return absl::OkStatus();
    NODEWISE_ASSIGN_OR_RETURN(const RunResult mended,
                              candidate_->Run(request_.inputs, run));
    ++result_.candidate_runs;
    std::vector<NDArray> outputs;
    for (const size_t head : wrong_heads_) {
      outputs.push_back(mended.outputs[head].tensor);
    }
    NODEWISE_ASSIGN_OR_RETURN(const double left, ShareLeft(outputs));
    culprit->share = 1 - left;
    return absl::OkStatus();
  }

  const BisectRequest& request_;
  const BisectOptions& options_;
  const GraphIndex& index_;
  const Graph& graph_;
  const Tolerance tolerance_;  // Of the outputs.
  BisectPath path_;            // To all outputs, then to the wrong ones.
  ReferenceRest rest_;
  std::unique_ptr<Runner> candidate_;
  RunHashes hashes_;       // Of the candidate's first run.
  ByEntry<NDArray> kept_;  // What the network was given, and what cuts need.
  // The outputs that are wrong, as the reference makes them, and their error.
  std::vector<size_t> wrong_heads_;
  std::vector<std::string> names_;
  std::vector<NDArray> reference_;
  OutputError error_;
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
  return Bisector(request, options).Run();
}

}  // namespace nodewise
