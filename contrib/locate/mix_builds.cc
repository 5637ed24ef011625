#include "nodewise/locate/mix_builds.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "contrib/locate/accumulated_rule.h"
#include "contrib/locate/kept_run.h"
#include "contrib/locate/node_report.h"
#include "contrib/locate/output_error.h"
#include "contrib/locate/question_search.h"
#include "fmt/format.h"
#include "nodewise/runner/mixed_target.h"
#include "nodewise/runner/runner_list.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Each round finds functions that together are guilty of more than half of what
// error the rounds before have left.
constexpr size_t kMostGuiltySets = 64;
constexpr size_t kShownNodes = 5;
// As many nodes of a guilty function are compared, to show an element.
constexpr size_t kComparedNodes = 16;

using Items = std::vector<size_t>;

bool ComputesInLibrary(const Graph& graph, NodeId id) {
  const std::string& function = graph.node(id).function;
  return graph.IsFunction(id) && function != kNopFunction &&
         function != kCopyFunction;
}

// Nodes that call the same function on both sides stand or fall together.
std::vector<MixedFunction> FunctionsOf(const GraphTarget& candidate,
                                       const GraphTarget& reference) {
  std::map<std::string, std::string> names;  // The reference's, by key.
  for (uint32_t n = 0; n < reference.graph().nodes.size(); ++n) {
    names[reference.index().KeyOf(NodeId{n})] =
        reference.graph().nodes[n].function;
  }
  std::vector<MixedFunction> functions;
  std::map<std::pair<std::string, std::string>, size_t> known;
  for (uint32_t n = 0; n < candidate.graph().nodes.size(); ++n) {
    const NodeId node{n};
    if (!ComputesInLibrary(candidate.graph(), node)) continue;
    const std::string& ours = candidate.graph().node(node).function;
    const std::string& theirs = names[candidate.index().KeyOf(node)];
    const auto [found, is_new] =
        known.emplace(std::pair(ours, theirs), functions.size());
    if (is_new) functions.push_back({ours, theirs, {}});
    functions[found->second].nodes.push_back(node);
  }
  return functions;
}

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

class Mixer {
 public:
  Mixer(std::shared_ptr<const GraphTarget> candidate,
        std::shared_ptr<const GraphTarget> reference,
        const std::vector<NamedTensor>& inputs, const MixOptions& options)
      : candidate_(std::move(candidate)),
        reference_(std::move(reference)),
        inputs_(inputs),
        options_(options),
        graph_(candidate_->graph()),
        tolerance_(AccumulatedTolerance(graph_)) {}

  absl::StatusOr<MixResult> Run() {
    NODEWISE_RETURN_IF_ERROR(RunBoth());
    if (!result_.located.AreOutputsWrong()) return std::move(result_);
    NODEWISE_RETURN_IF_ERROR(AskEnds());
    if (result_.is_in_storage) return std::move(result_);
    NODEWISE_RETURN_IF_ERROR(FindGuilty());
    NODEWISE_RETURN_IF_ERROR(ReportGuilty());
    return std::move(result_);
  }

 private:
  absl::StatusOr<std::vector<NamedTensor>> RunOnce(
      const std::shared_ptr<const GraphTarget>& target) {
    NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker maker,
                              MakerOf("plain", {target->name(), target}));
    NODEWISE_ASSIGN_OR_RETURN(const auto runner, maker());
    return RunOnce(*runner);
  }

  absl::StatusOr<std::vector<NamedTensor>> RunOnce(Runner& runner) {
    ++result_.runs;
    NODEWISE_ASSIGN_OR_RETURN(RunResult result, runner.Run(inputs_));
    return std::move(result.outputs);
  }

  // The ends of the question: each build as it is.
  absl::Status RunBoth() {
    NODEWISE_ASSIGN_OR_RETURN(MixedTarget mixed,
                              MixedTarget::Create(*candidate_, *reference_));
    mixed_ = std::make_unique<MixedTarget>(std::move(mixed));
    result_.functions = FunctionsOf(*candidate_, *reference_);
    NODEWISE_ASSIGN_OR_RETURN(right_, RunOnce(reference_));
    NODEWISE_ASSIGN_OR_RETURN(wrong_, RunOnce(candidate_));
    NODEWISE_ASSIGN_OR_RETURN(result_.located.outputs, Compare(wrong_));
    error_ = ErrorOf(result_.located.outputs);
    return absl::OkStatus();
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
  absl::StatusOr<std::vector<NamedTensor>> RunMixed(const Items& functions) {
    if (runner_ == nullptr) {
      const auto& target = mixed_->target();
      NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker maker,
                                MakerOf("plain", {target->name(), target}));
      NODEWISE_ASSIGN_OR_RETURN(runner_, maker());
    }
    mixed_->Choose(NodesOf(functions));
    return RunOnce(*runner_);
  }

  // Notes which share of the whole error is left in these outputs.
  absl::StatusOr<double> NoteLeft(const Items& functions,
                                  const std::vector<NamedTensor>& outputs,
                                  bool is_repeated = false) {
    NODEWISE_ASSIGN_OR_RETURN(const auto compared, Compare(outputs));
    are_last_wrong_ = std::any_of(
        compared.begin(), compared.end(),
        [](const TensorComparison& output) { return output.is_wrong(); });
    const double left = 1 - ShareGone(error_, ErrorOf(compared));
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
    NODEWISE_ASSIGN_OR_RETURN(const auto outputs, RunMixed(functions));
    return NoteLeft(functions, outputs, is_repeated);
  }

  // As Ask(), or what it answered before.
  absl::StatusOr<double> AskOnce(const Items& functions) {
    const auto known = answers_.find(functions);
    if (known != answers_.end()) return known->second;
    NODEWISE_ASSIGN_OR_RETURN(const double left, Ask(functions));
    answers_[functions] = left;
    return left;
  }

  Items AllFunctions() const {
    Items all(result_.functions.size());
    std::iota(all.begin(), all.end(), size_t{0});
    return all;
  }

  // With the functions of one build alone, a mixture is that build, but for the
  // storage, which is always the candidate's.
  absl::Status AskEnds() {
    const Items all = AllFunctions();
    NODEWISE_ASSIGN_OR_RETURN(const auto none_taken, RunMixed({}));
    NODEWISE_ASSIGN_OR_RETURN(none_left_, NoteLeft({}, none_taken));
    NODEWISE_ASSIGN_OR_RETURN(const auto again, RunMixed({}));
    NODEWISE_RETURN_IF_ERROR(NoteLeft({}, again, true).status());
    if (!HaveSameBits(none_taken, again)) return Changes(reference_->name());
    NODEWISE_ASSIGN_OR_RETURN(const auto all_taken, RunMixed(all));
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
    Items left = AllFunctions();
    double share = 1;  // Of the whole error, that `left` makes.
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
    std::sort(result_.guilty.begin(), result_.guilty.end(),
              [](const GuiltyFunction& a, const GuiltyFunction& b) {
                return a.function < b.function;
              });
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
    for (const GuiltyFunction& guilty : result_.guilty) {
      NODEWISE_ASSIGN_OR_RETURN(NodeReport report, ReportOn(guilty));
      Culprit culprit{result_.located.nodes.size(), std::nullopt, {}};
      NODEWISE_ASSIGN_OR_RETURN(culprit.share, ShareOf(guilty.function));
      result_.located.nodes.push_back(std::move(report));
      result_.located.culprits.push_back(std::move(culprit));
    }
    return absl::OkStatus();
  }

  // The share of the error that is gone without this function alone.
  absl::StatusOr<double> ShareOf(size_t function) {
    if (result_.guilty.size() == 1 && share_of_first_.has_value()) {
      return *share_of_first_;
    }
    Items others = AllFunctions();
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
    if (function.nodes.size() > 1) {
      std::vector<std::string> nodes;
      for (const NodeId node : function.nodes) nodes.push_back(KeyOf(node));
      reason += fmt::format("; {} call it: {}", CountOf(nodes.size(), "node"),
                            ListOf(nodes, kShownNodes));
    }
    return reason;
  }

  // Compares what nodes of the function make on both sides: the one that is
  // worst, and the first of those. What they read is equal for the first at
  // least. None if nothing differs, or nobody can look into runs.
  absl::StatusOr<std::optional<std::pair<NodeId, TensorComparison>>>
  CompareNodes(const GuiltyFunction& guilty) {
    const auto& target = mixed_->target();
    const auto maker = MakerOf("debug", {target->name(), target});
    if (!maker.ok()) return std::nullopt;
    NODEWISE_ASSIGN_OR_RETURN(const auto runner, (*maker)());
    Items taken = guilty.together_with;
    const ByNode<bool> without = NodesOf(taken);
    taken.push_back(guilty.function);
    const std::vector<EntryId> entries = EntriesOf(guilty.function);
    NODEWISE_ASSIGN_OR_RETURN(const auto expected,
                              TensorsOf(*runner, without, entries));
    NODEWISE_ASSIGN_OR_RETURN(const auto found,
                              TensorsOf(*runner, NodesOf(taken), entries));
    std::optional<std::pair<NodeId, TensorComparison>> worst;
    for (const EntryId entry : entries) {
      if (!expected[entry].defined() || !found[entry].defined()) continue;
      NODEWISE_ASSIGN_OR_RETURN(
          TensorComparison compared,
          CompareEntry(entry, expected[entry], found[entry]));
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

  absl::StatusOr<ByEntry<NDArray>> TensorsOf(Runner& runner,
                                             const ByNode<bool>& chosen,
                                             std::vector<EntryId> entries) {
    mixed_->Choose(chosen);
    const NodeId last = candidate_->index().NodeOf(entries.back());
    KeptRun run(runner, candidate_->index(), inputs_,
                {std::move(entries), last});
    ++result_.runs;
    NODEWISE_RETURN_IF_ERROR(run.Run());
    return std::move(run.kept());
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
  const std::vector<NamedTensor>& inputs_;
  const MixOptions& options_;
  const Graph& graph_;
  const Tolerance tolerance_;  // Of the outputs.
  std::unique_ptr<MixedTarget> mixed_;
  std::unique_ptr<Runner> runner_;  // Of the mixture.
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
  return Mixer(std::move(candidate), std::move(reference), inputs, options)
      .Run();
}

}  // namespace nodewise
