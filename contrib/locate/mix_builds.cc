#include "nodewise/locate/mix_builds.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "contrib/locate/accumulated_rule.h"
#include "contrib/locate/mixture_runs.h"
#include "contrib/locate/node_report.h"
#include "contrib/locate/output_error.h"
#include "contrib/locate/question_search.h"
#include "fmt/format.h"
#include "nodewise/runner/node_failure.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Each round finds functions that together are guilty of more than half of what
// error the rounds before have left.
constexpr size_t kMostGuiltySets = 64;
constexpr size_t kShownNodes = 5;
// A mixture that is asked about again runs twice in one process, so that what
// functions keep from run to run shows.
constexpr uint64_t kAgain = 2;
// As many nodes of a guilty function are compared, to show an element.
constexpr size_t kComparedNodes = 16;

using Items = std::vector<size_t>;

bool HaveSameBits(const std::vector<NamedTensor>& a,
                  const std::vector<NamedTensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].tensor.bytes() != b[i].tensor.bytes() ||
        std::memcmp(a[i].tensor.data(), b[i].tensor.data(),
                    a[i].tensor.bytes()) != 0) {
      return false;
    }
  }
  return true;
}

// One turn of the search.
class Mixer {
 public:
  // The reference's functions stand in for those that nodes with failures call.
  // All must outlive this.
  Mixer(std::shared_ptr<const GraphTarget> candidate,
        std::shared_ptr<const GraphTarget> reference, MixtureRuns* runs,
        const MixOptions& options, const NodeFailures& failures)
      : candidate_(std::move(candidate)),
        reference_(std::move(reference)),
        runs_(*runs),
        options_(options),
        failures_(failures),
        graph_(candidate_->graph()),
        tolerance_(AccumulatedTolerance(graph_)) {}

  absl::StatusOr<MixResult> Run() {
    NODEWISE_RETURN_IF_ERROR(RunBoth());
    if (result_.located.AreOutputsWrong()) {
      NODEWISE_RETURN_IF_ERROR(AskEnds());
      if (!result_.is_in_storage) NODEWISE_RETURN_IF_ERROR(FindGuilty());
    }
    NODEWISE_RETURN_IF_ERROR(ReportGuilty());
    result_.runs = runs_.count();
    return std::move(result_);
  }

  // Whether the candidate as it is has come to its end.
  bool has_candidate_run() const { return has_candidate_run_; }

 private:
  // The ends of the question: each build as it is, but for functions that end
  // it.
  absl::Status RunBoth() {
    result_.functions = FunctionsOf(*candidate_, *reference_);
    for (const NodeFailure& failure : failures_) {
      ending_.emplace(FunctionOf(failure.node), &failure);
    }
    auto right = runs_.RunReference();
    if (FailureOf(right.status()).has_value()) {
      return Ends(right.status(), "it is taken for right, and must itself run");
    }
    NODEWISE_ASSIGN_OR_RETURN(right_, std::move(right));
    NODEWISE_RETURN_IF_ERROR(RunWrong());
    NODEWISE_ASSIGN_OR_RETURN(result_.located.outputs, Compare(wrong_));
    error_ = ErrorOf(result_.located.outputs);
    return absl::OkStatus();
  }

  absl::Status RunWrong() {
    if (failures_.empty()) {
      NODEWISE_ASSIGN_OR_RETURN(wrong_, runs_.RunCandidate());
      has_candidate_run_ = true;
      return absl::OkStatus();
    }
    auto wrong = RunMixed(Mixable());
    const auto failure = FailureOf(wrong.status());
    if (failure.has_value() && ending_.contains(FunctionOf(failure->node))) {
      return Ends(wrong.status(), "and so it does with the function of " +
                                      reference_->name() + " in its place");
    }
    NODEWISE_ASSIGN_OR_RETURN(wrong_, std::move(wrong));
    return absl::OkStatus();
  }

  // No function is to blame for this end of a run.
  static absl::Status Ends(const absl::Status& status,
                           const std::string& means) {
    return absl::Status(status.code(),
                        fmt::format("{}, {}", MessageOf(status), means));
  }

  // Returns the number of functions for a node that calls none of them.
  size_t FunctionOf(const std::string& key) const {
    const auto calls = [&](const MixedFunction& function) {
      return std::any_of(function.nodes.begin(), function.nodes.end(),
                         [&](NodeId node) { return KeyOf(node) == key; });
    };
    return static_cast<size_t>(std::find_if(result_.functions.begin(),
                                            result_.functions.end(), calls) -
                               result_.functions.begin());
  }

  absl::StatusOr<std::vector<TensorComparison>> Compare(
      const std::vector<NamedTensor>& outputs) const {
    if (outputs.size() != right_.size()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: has {}, expected {}, as {} has", candidate_->name(),
                      CountOf(outputs.size(), "output"), right_.size(),
                      reference_->name()));
    }
    std::vector<NDArray> right;
    for (const NamedTensor& output : right_) right.push_back(output.tensor);
    return CompareNetworkOutputs(right, outputs, tolerance_);
  }

  ByNode<bool> NodesOf(const Items& functions) const {
    ByNode<bool> chosen(graph_);
    for (const size_t function : functions) {
      for (const NodeId node : result_.functions[function].nodes) {
        chosen[node] = true;
      }
    }
    return chosen;
  }

  // Runs these functions of the candidate with the others of the reference.
  absl::StatusOr<std::vector<NamedTensor>> RunMixed(const Items& functions,
                                                    uint64_t repeats = 1) {
    return runs_.RunMixed(NodesOf(functions), repeats);
  }

  // Notes which share of the whole error is left in these outputs.
  absl::StatusOr<double> NoteLeft(const Items& functions,
                                  const std::vector<NamedTensor>& outputs,
                                  bool is_repeated = false) {
    NODEWISE_ASSIGN_OR_RETURN(const auto compared, Compare(outputs));
    are_last_wrong_ = std::any_of(
        compared.begin(), compared.end(),
        [](const TensorComparison& output) { return output.is_wrong(); });
    return Note(functions, 1 - ShareGone(error_, ErrorOf(compared)),
                is_repeated);
  }

  double Note(const Items& functions, double left, bool is_repeated) {
    const std::string last =
        functions.empty() ? "" : result_.functions[functions.back()].candidate;
    result_.questions.push_back({functions.size(), last, left, is_repeated});
    if (options_.progress) {
      const size_t total = std::bit_width(result_.functions.size()) + 8;
      options_.progress(std::min(result_.questions.size(), total), total);
    }
    return left;
  }

  absl::StatusOr<double> Ask(const Items& functions, bool is_repeated = false) {
    const auto outputs = RunMixed(functions, is_repeated ? kAgain : 1);
    if (outputs.ok()) return NoteLeft(functions, *outputs, is_repeated);
    const auto failure = FailureOf(outputs.status());
    const auto is_ours = [&](size_t function) {
      return std::find(functions.begin(), functions.end(), function) !=
             functions.end();
    };
    if (!failure.has_value() || is_ours(FunctionOf(failure->node))) {
      return outputs.status();
    }
    // The results of the candidate's functions end one of the reference's.
    are_last_wrong_ = true;
    return Note(functions, 1, is_repeated);
  }

  // As Ask(), or what it answered before.
  absl::StatusOr<double> AskOnce(const Items& functions) {
    const auto known = answers_.find(functions);
    if (known != answers_.end()) return known->second;
    NODEWISE_ASSIGN_OR_RETURN(const double left, Ask(functions));
    answers_[functions] = left;
    return left;
  }

  // All functions of the candidate that come to an end.
  Items Mixable() const {
    Items all(result_.functions.size());
    std::iota(all.begin(), all.end(), size_t{0});
    std::erase_if(all, [this](size_t item) { return ending_.contains(item); });
    return all;
  }

  // With the functions of one build alone, a mixture is that build, but for the
  // storage, which is always the candidate's.
  absl::Status AskEnds() {
    const Items all = Mixable();
    const auto none = RunMixed({});
    if (FailureOf(none.status()).has_value()) {
      return Ends(none.status(), "with all functions of " + reference_->name() +
                                     ": it is in how the tensors of " +
                                     candidate_->name() + " share memory");
    }
    NODEWISE_RETURN_IF_ERROR(none.status());
    NODEWISE_ASSIGN_OR_RETURN(none_left_, NoteLeft({}, *none));
    NODEWISE_ASSIGN_OR_RETURN(const auto again, RunMixed({}, kAgain));
    NODEWISE_RETURN_IF_ERROR(NoteLeft({}, again, true).status());
    if (!HaveSameBits(*none, again)) return Changes(reference_->name());
    NODEWISE_ASSIGN_OR_RETURN(const auto all_taken, RunMixed(all, kAgain));
    NODEWISE_RETURN_IF_ERROR(NoteLeft(all, all_taken).status());
    if (!HaveSameBits(all_taken, wrong_)) return Changes(candidate_->name());
    result_.is_in_storage = result_.questions.front().is_yes();
    return absl::OkStatus();
  }

  static absl::Status Changes(const std::string& name) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: makes other bits of the same inputs when it runs again, so that "
        "no answer could be trusted",
        name));
  }

  // Finds guilty functions until those that are left make no error.
  absl::Status FindGuilty() {
    Items left = Mixable();
    double share = 1;  // The share of the whole error that `left` makes.
    for (size_t round = 0; round < kMostGuiltySets; ++round) {
      const double half = share / 2;
      if (left.empty() || none_left_ > half) break;
      const auto holds = [&](const Items& items) -> absl::StatusOr<bool> {
        NODEWISE_ASSIGN_OR_RETURN(const double answer, AskOnce(items));
        return !(answer <= half);
      };
      NODEWISE_ASSIGN_OR_RETURN(const Items found, SmallestSet(left, holds));
      NODEWISE_RETURN_IF_ERROR(AskAgain(found));
      AddGuilty(found);
      std::erase_if(left, [&](size_t item) {
        return std::find(found.begin(), found.end(), item) != found.end();
      });
      NODEWISE_ASSIGN_OR_RETURN(share, Ask(left));
      if (round == 0 && found.size() == 1) share_of_first_ = 1 - share;
      if (!are_last_wrong_) break;
    }
    return absl::OkStatus();
  }

  void AddGuilty(const Items& found) {
    for (const size_t function : found) {
      GuiltyFunction guilty{function, found};
      std::erase(guilty.together_with, function);
      result_.guilty.push_back(std::move(guilty));
    }
  }

  // The answer is asked for twice.
  absl::Status AskAgain(const Items& found) {
    NODEWISE_ASSIGN_OR_RETURN(const double left, AskOnce(found));
    NODEWISE_ASSIGN_OR_RETURN(const double again, Ask(found, true));
    return left == again ? absl::OkStatus() : Changes(candidate_->name());
  }

  absl::Status ReportGuilty() {
    for (const auto& [function, failure] : ending_) {
      if (function < result_.functions.size()) AddGuilty({function});
    }
    std::sort(result_.guilty.begin(), result_.guilty.end(),
              [](const GuiltyFunction& a, const GuiltyFunction& b) {
                return a.function < b.function;
              });
    for (const GuiltyFunction& guilty : result_.guilty) {
      const auto ending = ending_.find(guilty.function);
      if (ending != ending_.end()) {
        ReportEnding(guilty.function, *ending->second);
        continue;
      }
      NODEWISE_ASSIGN_OR_RETURN(NodeReport report, ReportOn(guilty));
      Culprit culprit{result_.located.nodes.size(), std::nullopt, {}};
      NODEWISE_ASSIGN_OR_RETURN(culprit.share, ShareOf(guilty.function));
      result_.located.nodes.push_back(std::move(report));
      result_.located.culprits.push_back(std::move(culprit));
    }
    return absl::OkStatus();
  }

  void ReportEnding(size_t guilty, const NodeFailure& failure) {
    const MixedFunction& function = result_.functions[guilty];
    LocateResult& located = result_.located;
    for (const NodeId node : function.nodes) {
      located.stand_ins.push_back(KeyOf(node));
      if (KeyOf(node) != failure.node) continue;
      NodeReport report =
          ReportOf(candidate_->index(), SkippedNode{node, KeyOf(node), ""});
      NoteFailure(failure, &report);
      Conclude(candidate_->index(), {}, &report);
      report.reason +=
          fmt::format(", in function {}", Printable(function.candidate)) +
          CallersOf(function);
      located.culprits.push_back({located.nodes.size(), std::nullopt, {}});
      located.nodes.push_back(std::move(report));
    }
  }

  // The share of the error that is gone without this function alone.
  absl::StatusOr<double> ShareOf(size_t function) {
    if (result_.guilty.size() == 1 + ending_.size() &&
        share_of_first_.has_value()) {
      return *share_of_first_;
    }
    Items others = Mixable();
    std::erase(others, function);
    NODEWISE_ASSIGN_OR_RETURN(const double left, AskOnce(others));
    return 1 - left;
  }

  absl::StatusOr<NodeReport> ReportOn(const GuiltyFunction& guilty) {
    const MixedFunction& function = result_.functions[guilty.function];
    NODEWISE_ASSIGN_OR_RETURN(auto worst, CompareNodes(guilty));
    const NodeId node =
        worst.has_value() ? worst->first : function.nodes.front();
    NodeReport report = ReportOf(candidate_->index(),
                                 SkippedNode{node, KeyOf(node), "not asked"});
    report.evidence.isolated = Verdict::kError;
    report.verdict = NodeVerdict::kBroken;
    report.reason = ReasonOf(function, guilty);
    if (worst.has_value()) report.worst = std::move(worst->second);
    return report;
  }

  const std::string& KeyOf(NodeId node) const {
    return candidate_->index().KeyOf(node);
  }

  std::string ReasonOf(const MixedFunction& function,
                       const GuiltyFunction& guilty) const {
    std::string reason = fmt::format("function {} makes the difference",
                                     Printable(function.candidate));
    if (function.candidate != function.reference) {
      reason += fmt::format(" that {} does not", Printable(function.reference));
    }
    if (!guilty.together_with.empty()) {
      std::vector<std::string> others;
      for (const size_t other : guilty.together_with) {
        others.push_back(result_.functions[other].candidate);
      }
      reason += fmt::format(", together with {}", ListOf(others, kShownNodes));
    }
    return reason + CallersOf(function);
  }

  // Empty for a function that one node calls.
  std::string CallersOf(const MixedFunction& function) const {
    if (function.nodes.size() < 2) return "";
    std::vector<std::string> nodes;
    for (const NodeId node : function.nodes) nodes.push_back(KeyOf(node));
    return fmt::format("; {} call it: {}", CountOf(nodes.size(), "node"),
                       ListOf(nodes, kShownNodes));
  }

  // Compares what nodes of the function make on both sides: the one that is
  // worst, and the first of those. What they read is equal for the first at
  // least. None if nothing differs, or runs do not show their tensors.
  absl::StatusOr<std::optional<std::pair<NodeId, TensorComparison>>>
  CompareNodes(const GuiltyFunction& guilty) {
    Items taken = guilty.together_with;
    const ByNode<bool> without = NodesOf(taken);
    taken.push_back(guilty.function);
    const std::vector<EntryId> entries = EntriesOf(guilty.function);
    const auto expected = runs_.TensorsOf(without, entries);
    const auto found = runs_.TensorsOf(NodesOf(taken), entries);
    for (const absl::Status& status : {expected.status(), found.status()}) {
      // Nothing is left to compare where a node ends the run.
      if (FailureOf(status).has_value()) return std::nullopt;
      NODEWISE_RETURN_IF_ERROR(status);
    }
    std::optional<std::pair<NodeId, TensorComparison>> worst;
    for (const EntryId entry : entries) {
      const NDArray &right = (*expected)[entry], &wrong = (*found)[entry];
      if (!right.defined() || !wrong.defined()) continue;
      NODEWISE_ASSIGN_OR_RETURN(TensorComparison compared,
                                CompareEntry(entry, right, wrong));
      if (compared.is_equal()) continue;
      if (worst.has_value() && worst->second.verdict() >= compared.verdict()) {
        continue;
      }
      worst.emplace(candidate_->index().NodeOf(entry), std::move(compared));
    }
    return worst;
  }

  std::vector<EntryId> EntriesOf(size_t function) const {
    std::vector<EntryId> entries;
    const std::vector<NodeId>& nodes = result_.functions[function].nodes;
    for (size_t i = 0; i < nodes.size() && i < kComparedNodes; ++i) {
      for (uint32_t slot = 0; slot < graph_.OutputsOf(nodes[i]); ++slot) {
        entries.push_back(graph_.EntryOf(nodes[i], slot));
      }
    }
    return entries;
  }

  absl::StatusOr<TensorComparison> CompareEntry(EntryId entry,
                                                const NDArray& expected,
                                                const NDArray& found) const {
    const GraphIndex& index = candidate_->index();
    const TensorKey key{KeyOf(index.NodeOf(entry)), index.OutputOf(entry),
                        TensorRole::kOutput, "reference"};
    TensorItem item{key};
    item.tensor = expected.tensor();
    return CompareTensors(item, *found,
                          AccumulatedOptions(tolerance_, expected.dtype()));
  }

  const std::shared_ptr<const GraphTarget> candidate_;
  const std::shared_ptr<const GraphTarget> reference_;
  MixtureRuns& runs_;
  const MixOptions& options_;
  const NodeFailures& failures_;
  const Graph& graph_;
  const Tolerance tolerance_;  // The tolerance of the outputs.
  // The functions of the candidate that end runs: by their numbers.
  std::map<size_t, const NodeFailure*> ending_;
  bool has_candidate_run_ = false;
  std::vector<NamedTensor> right_;  // The outputs of both.
  std::vector<NamedTensor> wrong_;
  OutputError error_;
  double none_left_ = 0;  // With no function of the candidate.
  bool are_last_wrong_ = false;
  std::optional<double> share_of_first_;
  std::map<Items, double> answers_;
  MixResult result_;
};

}  // namespace

absl::StatusOr<MixResult> MixBuilds(
    std::shared_ptr<const GraphTarget> candidate,
    std::shared_ptr<const GraphTarget> reference,
    const std::vector<NamedTensor>& inputs, const MixOptions& options) {
  NODEWISE_ASSIGN_OR_RETURN(
      MixtureRuns runs,
      MixtureRuns::Create(candidate, reference, inputs, options.node_limit_ms));
  // Each turn finds one more node that ends runs.
  for (NodeFailures failures;;) {
    Mixer mixer(candidate, reference, &runs, options, failures);
    auto result = mixer.Run();
    auto failure = FailureOf(result.status());
    const auto is_known = [&](const NodeFailure& known) {
      return known.node == failure->node;
    };
    if (!failure.has_value() ||
        std::any_of(failures.begin(), failures.end(), is_known)) {
      return result;
    }
    if (mixer.has_candidate_run()) {
      failure->what += fmt::format(
          " (not in {} as it is, but with functions of {} before it)",
          candidate->name(), reference->name());
    }
    failures.push_back(*std::move(failure));
  }
}

}  // namespace nodewise
