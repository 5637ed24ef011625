#include "nodewise/locate/mix_builds.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <utility>

#include "contrib/locate/halving.h"
#include "contrib/locate/node_report.h"
#include "contrib/locate/observed_run.h"
#include "contrib/locate/output_error.h"
#include "contrib/locate/partial_graph.h"
#include "fmt/format.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/runner/mixed_target.h"
#include "nodewise/runner/node_graph.h"
#include "nodewise/runner/runner.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

// A question is a run of a whole mixture, and its answer the share of the error
// that is left. SmallestSet() finds functions that make more than half of it
// together and not without any one of them; these are taken out, and what is
// left is asked about in the same way, until its outputs are right.

namespace nodewise {
namespace {

// Each round finds functions that together are guilty of more than half of what
// error the rounds before have left.
constexpr size_t kMostGuiltySets = 64;
constexpr size_t kShownNodes = 5;
// A mixture that is asked about again runs twice in one process, so that what
// functions keep from run to run shows.
constexpr uint64_t kAgain = 2;
// Many nodes may call a guilty function: at most this many are compared to show
// a wrong element.
constexpr size_t kComparedNodes = 16;

using Outputs = std::vector<NamedTensor>;
using FunctionSet = std::vector<size_t>;  // In MixResult::functions.

// Only builds with USE_PROFILER have the first two kinds, and only "plain"
// cannot look into runs.
absl::StatusOr<std::unique_ptr<Runner>> SafestRunnerOf(
    const std::shared_ptr<const GraphTarget>& graph) {
  const RunnerTarget target{graph->name(), graph};
  const char* const kind = HasRunnerFor("guarded", target) ? "guarded"
                           : HasRunnerFor("debug", target) ? "debug"
                                                           : "plain";
  NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker maker, MakerOf(kind, target));
  return maker();
}

// Returns the functions that nodes of both call, in the order of their first
// nodes. Nodes that call the same function on both sides stand or fall
// together.
std::vector<MixedFunction> FunctionsOf(const GraphTarget& candidate,
                                       const GraphTarget& reference) {
  std::map<std::string, std::string> names;  // The reference's, by key.
  for (const NodeId node : AllNodes(reference.graph())) {
    names[reference.index().KeyOf(node)] =
        reference.graph().node(node).function;
  }
  std::vector<MixedFunction> functions;
  std::map<std::pair<std::string, std::string>, size_t> known;
  for (const NodeId node : FunctionNodesOf(candidate.graph())) {
    if (!CallsLibrary(candidate.graph().node(node))) continue;
    const std::string& ours = candidate.graph().node(node).function;
    const std::string& theirs = names[candidate.index().KeyOf(node)];
    const auto [found, is_new] =
        known.emplace(std::pair(ours, theirs), functions.size());
    if (is_new) functions.push_back({ours, theirs, {}});
    functions[found->second].nodes.push_back(node);
  }
  return functions;
}

bool HaveSameBits(const Outputs& a, const Outputs& b) {
  return std::ranges::equal(a, b, HaveSameBytes, &NamedTensor::tensor,
                            &NamedTensor::tensor);
}

// The runs of two builds, and of mixtures of them, on the same inputs. Each has
// a process of its own where the target can be run like that: then a node that
// ends it is in the status (FailureOf()). One thread at a time.
struct MixtureRuns {
  // The candidate's functions of these nodes of its graph with the reference's
  // of all others, some times one after the other: returns the last outputs.
  absl::StatusOr<Outputs> RunMixed(const ByNode<bool>& from_candidate,
                                   uint64_t repeats) {
    if (runner == nullptr) {
      NODEWISE_ASSIGN_OR_RETURN(runner, SafestRunnerOf(mixed.target()));
    }
    // A child is a copy of this process, and calls what is chosen here.
    mixed.Choose(from_candidate);
    return Run(*runner, repeats);
  }

  absl::StatusOr<Outputs> RunOnce(
      const std::shared_ptr<const GraphTarget>& target) {
    NODEWISE_ASSIGN_OR_RETURN(const auto its_runner, SafestRunnerOf(target));
    return Run(*its_runner, 1);
  }

  absl::StatusOr<Outputs> Run(Runner& to_run, uint64_t repeats) {
    count += repeats;
    NODEWISE_ASSIGN_OR_RETURN(
        RunResult result, to_run.Run(inputs, {.node_limit_ms = node_limit_ms,
                                              .repeats = repeats}));
    return std::move(result.outputs);
  }

  // As RunMixed(), and returns tensors that nodes make: undefined where the run
  // has not handed one out. None if the runner does not show tensors.
  absl::StatusOr<ByEntry<NDArray>> TensorsOf(
      const ByNode<bool>& from_candidate, const std::vector<EntryId>& entries) {
    const GraphIndex& index = candidate->index();
    if (runner == nullptr || !runner->Can(Capability::kTensors)) {
      return ByEntry<NDArray>(index.graph());
    }
    mixed.Choose(from_candidate);
    ++count;
    ObservedRun run(*runner, index, inputs,
                    {.keeps = entries,
                     .last = index.NodeOf(entries.back()),
                     .node_limit_ms = node_limit_ms});
    NODEWISE_RETURN_IF_ERROR(run.Run());
    return std::move(run.kept());
  }

  const std::shared_ptr<const GraphTarget> candidate;
  const std::shared_ptr<const GraphTarget> reference;
  MixedTarget mixed;
  const std::vector<NamedTensor>& inputs;
  const int64_t node_limit_ms;
  std::unique_ptr<Runner> runner = nullptr;  // Runs mixtures.
  size_t count = 0;  // How often anything has begun to run.
};

// One turn of the search.
struct Mixer {
  MixtureRuns& runs;
  const MixOptions& options;
  // The reference's functions stand in for those that these nodes call.
  const NodeFailures& failures;
  const GraphIndex& index = runs.candidate->index();
  const Graph& graph = index.graph();
  const Tolerance tolerance = AccumulatedTolerance(graph);
  // The functions of the candidate that end runs: by their numbers.
  std::map<size_t, const NodeFailure*> ending = {};
  bool has_candidate_run = false;  // As it is, it has come to its end.
  Outputs right = {}, wrong = {};  // The outputs of both.
  OutputError error = {};
  double none_left = 0;  // With no function of the candidate.
  bool are_last_wrong = false;
  std::optional<double> share_of_first = {};
  std::map<FunctionSet, double> answers = {};
  MixResult result = {};

  absl::StatusOr<MixResult> Run() {
    NODEWISE_RETURN_IF_ERROR(RunBoth());
    if (result.located.AreOutputsWrong()) {
      NODEWISE_RETURN_IF_ERROR(CheckEnds());
      if (!result.is_in_storage)
        NODEWISE_RETURN_IF_ERROR(FindGuiltyFunctions());
    }
    NODEWISE_RETURN_IF_ERROR(ReportGuilty());
    result.runs = runs.count;
    return std::move(result);
  }

  // The ends of the question: each build as it is, but for functions that end
  // it.
  absl::Status RunBoth() {
    result.functions = FunctionsOf(*runs.candidate, *runs.reference);
    // Functions that end a run are known by the turns before.
    for (const NodeFailure& failure : failures) {
      ending.emplace(FunctionOf(failure.node), &failure);
    }
    auto made = runs.RunOnce(runs.reference);
    if (FailureOf(made.status()).has_value()) {
      return Ends(made.status(), "it is taken for right, and must itself run");
    }
    NODEWISE_ASSIGN_OR_RETURN(right, std::move(made));
    NODEWISE_RETURN_IF_ERROR(RunFailingMixture());
    NODEWISE_ASSIGN_OR_RETURN(result.located.outputs, Compare(wrong));
    error = ErrorOf(result.located.outputs);
    return absl::OkStatus();
  }

  absl::Status RunFailingMixture() {
    if (failures.empty()) {
      NODEWISE_ASSIGN_OR_RETURN(wrong, runs.RunOnce(runs.candidate));
      has_candidate_run = true;
      return absl::OkStatus();
    }
    auto made = RunMixed(Mixable());
    const auto failure = FailureOf(made.status());
    if (failure.has_value() && ending.contains(FunctionOf(failure->node))) {
      return Ends(made.status(), "and so it does with the function of " +
                                     runs.reference->name() + " in its place");
    }
    NODEWISE_ASSIGN_OR_RETURN(wrong, std::move(made));
    return absl::OkStatus();
  }

  // Leaves the failure out of the status: one that is still there would make
  // MixBuilds() replace the function of the node that it names, and here no
  // function of the candidate is to blame.
  static absl::Status Ends(const absl::Status& status,
                           const std::string& means) {
    return absl::Status(status.code(),
                        fmt::format("{}, {}", MessageOf(status), means));
  }

  // Returns the number of functions for a node that calls none of them.
  size_t FunctionOf(const std::string& key) const {
    const auto calls = [&](const MixedFunction& function) {
      return std::ranges::any_of(
          function.nodes, [&](NodeId node) { return KeyOf(node) == key; });
    };
    return static_cast<size_t>(std::ranges::find_if(result.functions, calls) -
                               result.functions.begin());
  }

  absl::StatusOr<std::vector<TensorComparison>> Compare(
      const Outputs& outputs) const {
    if (outputs.size() != right.size()) {
      return InvalidArgument("{}: has {}, expected {}, as {} has",
                             runs.candidate->name(),
                             CountOf(outputs.size(), "output"), right.size(),
                             runs.reference->name());
    }
    return CompareNetworkOutputs(Unnamed(right), outputs, tolerance);
  }

  ByNode<bool> NodesOf(const FunctionSet& functions) const {
    ByNode<bool> chosen(graph);
    for (const size_t function : functions) {
      for (const NodeId node : result.functions[function].nodes) {
        chosen[node] = true;
      }
    }
    return chosen;
  }

  absl::StatusOr<Outputs> RunMixed(const FunctionSet& functions,
                                   uint64_t repeats = 1) {
    return runs.RunMixed(NodesOf(functions), repeats);
  }

  // Notes which share of the whole error is left in these outputs.
  absl::StatusOr<double> NoteLeft(const FunctionSet& functions,
                                  const Outputs& outputs,
                                  bool is_repeated = false) {
    NODEWISE_ASSIGN_OR_RETURN(const auto compared, Compare(outputs));
    are_last_wrong = AnyIsWrong(compared);
    return Note(functions, 1 - ShareRemoved(error, ErrorOf(compared)),
                is_repeated);
  }

  double Note(const FunctionSet& functions, double left, bool is_repeated) {
    const std::string last =
        functions.empty() ? "" : result.functions[functions.back()].candidate;
    result.questions.push_back({functions.size(), last, left, is_repeated});
    if (options.progress) {
      const size_t total = std::bit_width(result.functions.size()) + 8;
      options.progress(std::min(result.questions.size(), total), total);
    }
    return left;
  }

  absl::StatusOr<double> Ask(const FunctionSet& functions,
                             bool is_repeated = false) {
    const auto outputs = RunMixed(functions, is_repeated ? kAgain : 1);
    if (outputs.ok()) return NoteLeft(functions, *outputs, is_repeated);
    const auto failure = FailureOf(outputs.status());
    if (!failure.has_value() ||
        std::ranges::find(functions, FunctionOf(failure->node)) !=
            functions.end()) {
      return outputs.status();
    }
    // A function of the reference has ended the run, on what functions of the
    // candidate made.
    are_last_wrong = true;
    return Note(functions, 1, is_repeated);
  }

  // As Ask(), or what it answered before.
  absl::StatusOr<double> AskCached(const FunctionSet& functions) {
    const auto known = answers.find(functions);
    if (known != answers.end()) return known->second;
    NODEWISE_ASSIGN_OR_RETURN(const double left, Ask(functions));
    answers[functions] = left;
    return left;
  }

  // All functions of the candidate that come to an end.
  FunctionSet Mixable() const {
    FunctionSet all(result.functions.size());
    std::iota(all.begin(), all.end(), size_t{0});
    std::erase_if(all, [this](size_t item) { return ending.contains(item); });
    return all;
  }

  // With the functions of one build alone, a mixture is that build, but for the
  // storage, which is always the candidate's.
  absl::Status CheckEnds() {
    // All of the reference's functions in the candidate's storage make the
    // error of the storage, and no other one. Both ends run again in one
    // process, since an answer is worth nothing where runs differ.
    const FunctionSet all = Mixable();
    const auto none = RunMixed({});
    if (FailureOf(none.status()).has_value()) {
      return Ends(none.status(), "with all functions of " +
                                     runs.reference->name() +
                                     ": it is in how the tensors of " +
                                     runs.candidate->name() + " share memory");
    }
    NODEWISE_RETURN_IF_ERROR(none.status());
    NODEWISE_ASSIGN_OR_RETURN(none_left, NoteLeft({}, *none));
    NODEWISE_ASSIGN_OR_RETURN(const auto again, RunMixed({}, kAgain));
    NODEWISE_RETURN_IF_ERROR(NoteLeft({}, again, true).status());
    if (!HaveSameBits(*none, again)) return Changes(runs.reference->name());
    NODEWISE_ASSIGN_OR_RETURN(const auto all_taken, RunMixed(all, kAgain));
    NODEWISE_RETURN_IF_ERROR(NoteLeft(all, all_taken).status());
    if (!HaveSameBits(all_taken, wrong)) return Changes(runs.candidate->name());
    result.is_in_storage = result.questions.front().is_yes();
    return absl::OkStatus();
  }

  static absl::Status Changes(const std::string& name) {
    return FailedPrecondition(
        "{}: makes other bits of the same inputs when it runs again, so that "
        "no answer could be trusted",
        name);
  }

  absl::Status FindGuiltyFunctions() {
    FunctionSet left = Mixable();
    double share = 1;  // The share of the whole error that `left` makes.
    for (size_t round = 0; round < kMostGuiltySets; ++round) {
      const double half = share / 2;
      if (left.empty() || none_left > half) break;
      const auto holds = [&](const FunctionSet& items) -> absl::StatusOr<bool> {
        NODEWISE_ASSIGN_OR_RETURN(const double answer, AskCached(items));
        return !(answer <= half);
      };
      NODEWISE_ASSIGN_OR_RETURN(const FunctionSet found,
                                SmallestSet(left, holds));
      // The guilty set is what the user acts on, so its answer must be sure.
      NODEWISE_RETURN_IF_ERROR(AskAgain(found));
      AddGuiltyFunctions(found);
      std::erase_if(left, [&](size_t item) {
        return std::ranges::find(found, item) != found.end();
      });
      NODEWISE_ASSIGN_OR_RETURN(share, Ask(left));
      if (round == 0 && found.size() == 1) share_of_first = 1 - share;
      if (!are_last_wrong) break;
    }
    return absl::OkStatus();
  }

  void AddGuiltyFunctions(const FunctionSet& found) {
    for (const size_t function : found) {
      GuiltyFunction guilty{function, found};
      std::erase(guilty.together_with, function);
      result.guilty.push_back(std::move(guilty));
    }
  }

  absl::Status AskAgain(const FunctionSet& found) {
    NODEWISE_ASSIGN_OR_RETURN(const double left, AskCached(found));
    NODEWISE_ASSIGN_OR_RETURN(const double again, Ask(found, true));
    return left == again ? absl::OkStatus() : Changes(runs.candidate->name());
  }

  absl::Status ReportGuilty() {
    for (const auto& [function, failure] : ending) {
      if (function < result.functions.size()) AddGuiltyFunctions({function});
    }
    std::ranges::sort(result.guilty, {}, &GuiltyFunction::function);
    for (const GuiltyFunction& guilty : result.guilty) {
      const auto found = ending.find(guilty.function);
      if (found != ending.end()) {
        ReportEnding(guilty.function, *found->second);
        continue;
      }
      NODEWISE_ASSIGN_OR_RETURN(NodeReport report, ReportOn(guilty));
      NODEWISE_ASSIGN_OR_RETURN(const double share, ShareOf(guilty.function));
      AddCulprit(std::move(report), {}, &result.located);
      result.located.culprits.back().share = share;
    }
    return absl::OkStatus();
  }

  void ReportEnding(size_t guilty, const NodeFailure& failure) {
    const MixedFunction& function = result.functions[guilty];
    for (const NodeId node : function.nodes) {
      result.located.stand_ins.push_back(KeyOf(node));
      if (KeyOf(node) != failure.node) continue;
      NodeReport report = ReportUnchecked(index, node, "");
      NoteFailure(failure, &report);
      Conclude(index, {}, &report);
      report.reason +=
          fmt::format(", in function {}", Printable(function.candidate)) +
          CallersOf(function);
      AddCulprit(std::move(report), {}, &result.located);
    }
  }

  // The share of the error that is gone without this function alone.
  absl::StatusOr<double> ShareOf(size_t function) {
    if (result.guilty.size() == 1 + ending.size() &&
        share_of_first.has_value()) {
      return *share_of_first;
    }
    // One more run, unless the question was asked already.
    FunctionSet others = Mixable();
    std::erase(others, function);
    NODEWISE_ASSIGN_OR_RETURN(const double left, AskCached(others));
    return 1 - left;
  }

  absl::StatusOr<NodeReport> ReportOn(const GuiltyFunction& guilty) {
    const MixedFunction& function = result.functions[guilty.function];
    NODEWISE_ASSIGN_OR_RETURN(auto worst, CompareNodes(guilty));
    const NodeId node =
        worst.has_value() ? worst->first : function.nodes.front();
    NodeReport report = ReportUnchecked(index, node, "not asked");
    report.evidence.isolated = Verdict::kError;
    report.verdict = NodeVerdict::kBroken;
    report.reason = ReasonOf(function, guilty);
    if (worst.has_value()) report.worst = std::move(worst->second);
    return report;
  }

  const std::string& KeyOf(NodeId node) const { return index.KeyOf(node); }

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
        others.push_back(result.functions[other].candidate);
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
    FunctionSet taken = guilty.together_with;
    const ByNode<bool> without = NodesOf(taken);
    taken.push_back(guilty.function);
    const std::vector<EntryId> entries = EntriesOf(guilty.function);
    const auto expected = runs.TensorsOf(without, entries);
    const auto found = runs.TensorsOf(NodesOf(taken), entries);
    for (const absl::Status& status : {expected.status(), found.status()}) {
      // Nothing is left to compare where a node ends the run.
      if (FailureOf(status).has_value()) return std::nullopt;
      NODEWISE_RETURN_IF_ERROR(status);
    }
    std::optional<std::pair<NodeId, TensorComparison>> worst;
    for (const EntryId entry : entries) {
      const NDArray &one = (*expected)[entry], &other = (*found)[entry];
      if (!one.defined() || !other.defined()) continue;
      const NodeId node = index.NodeOf(entry);
      NODEWISE_ASSIGN_OR_RETURN(
          TensorComparison compared,
          CompareNodeOutput(KeyOf(node), index.OutputOf(entry), one, *other,
                            AccumulatedOptions(tolerance, one.dtype())));
      if (compared.is_equal()) continue;
      if (worst.has_value() && worst->second.verdict() >= compared.verdict()) {
        continue;
      }
      worst.emplace(node, std::move(compared));
    }
    return worst;
  }

  std::vector<EntryId> EntriesOf(size_t function) const {
    std::vector<EntryId> entries;
    const std::vector<NodeId>& nodes = result.functions[function].nodes;
    for (size_t i = 0; i < nodes.size() && i < kComparedNodes; ++i) {
      const IdRange<EntryId> made = EntriesMadeBy(graph, nodes[i]);
      entries.insert(entries.end(), made.begin(), made.end());
    }
    return entries;
  }
};

}  // namespace

absl::StatusOr<MixResult> MixBuilds(
    std::shared_ptr<const GraphTarget> candidate,
    std::shared_ptr<const GraphTarget> reference,
    const std::vector<NamedTensor>& inputs, const MixOptions& options) {
  NODEWISE_ASSIGN_OR_RETURN(MixedTarget mixed,
                            MixedTarget::Create(*candidate, *reference));
  MixtureRuns runs{std::move(candidate), std::move(reference), std::move(mixed),
                   inputs, options.node_limit_ms};
  // Each turn finds one more node that ends runs.
  for (NodeFailures failures;;) {
    Mixer mixer{runs, options, failures};
    auto result = mixer.Run();
    auto failure = FailureOf(result.status());
    if (!failure.has_value() ||
        std::ranges::find(failures, failure->node, &NodeFailure::node) !=
            failures.end()) {
      return result;
    }
    if (mixer.has_candidate_run) {
      failure->what += fmt::format(
          " (not in {} as it is, but with functions of {} before it)",
          runs.candidate->name(), runs.reference->name());
    }
    failures.push_back(*std::move(failure));
  }
}

}  // namespace nodewise
