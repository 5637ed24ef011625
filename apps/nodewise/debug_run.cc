#include "apps/nodewise/debug_run.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "apps/nodewise/debug_network.h"
#include "apps/nodewise/outputs.h"
#include "apps/nodewise/patches.h"
#include "apps/nodewise/progress.h"
#include "fmt/format.h"
#include "nodewise/graph/named_outputs.h"
#include "nodewise/memcheck/plan_sanitizer.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/ndarray/tensor_stats.h"
#include "nodewise/process/isolation.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/text_table.h"
#include "nodewise/support/words.h"
#include "nodewise/sweep/sweep.h"

namespace nodewise {
namespace {

absl::StatusOr<StopValues> ParseStopOn(const std::vector<std::string>& words) {
  StopValues values;
  for (const std::string& word : words) {
    const std::string_view text = word;
    if (text == "nan") {
      values.nan = true;
    } else if (text == "inf") {
      values.infinity = true;
    } else if (text.starts_with("abs>")) {
      double limit = 0;
      const char* const end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data() + 4, end, limit);
      if (error != std::errc() || stop != end || !(limit >= 0)) {
        return absl::InvalidArgumentError(fmt::format(
            "--stop-on: found \"{}\", expected a number behind abs>", word));
      }
      // Each asks for a stop, so the smallest limit counts.
      values.above = std::min(values.above.value_or(limit), limit);
    } else {
      return absl::InvalidArgumentError(fmt::format(
          "--stop-on: found \"{}\", expected nan, inf or abs>LIMIT{}", word,
          DidYouMean(word, {"nan", "inf"})));
    }
  }
  return values;
}

// Returns host copies of a node's outputs.
absl::StatusOr<std::vector<NamedTensor>> OutputsOfNode(
    const DebugExecutor& executor, NodeId node) {
  const Graph& graph = executor.graph();
  std::vector<NamedTensor> outputs;
  for (uint32_t o = 0; o < graph.OutputsOf(node); ++o) {
    const EntryId entry = graph.EntryOf(node, o);
    NODEWISE_ASSIGN_OR_RETURN(const NDArray array, executor.ReadEntry(entry));
    NODEWISE_ASSIGN_OR_RETURN(NDArray copy, array.CopyToHost());
    outputs.push_back({executor.index().KeyOf(entry), std::move(copy)});
  }
  return outputs;
}

absl::StatusOr<NodeId> UntilNode(const DebugRunOptions& options,
                                 const DebugExecutor& executor) {
  const auto node = executor.index().FindNode(options.until);
  if (!node.ok()) return At("--until", node.status());
  return *node;
}

// Where a run stopped early, whether a value stopped it, and outputs that could
// not be searched for values.
struct Stop {
  std::optional<NodeId> node;
  bool is_value = false;
  std::vector<EntryId> unseen;
};

void AddUnseen(const Graph& graph, NodeId node, Stop* stop) {
  for (uint32_t o = 0; o < graph.OutputsOf(node); ++o) {
    const EntryId entry = graph.EntryOf(node, o);
    if (!HasNumbers(graph.entry(entry).dtype)) stop->unseen.push_back(entry);
  }
}

// Runs to --until, to the first value of --stop-on or to the end.
absl::StatusOr<Stop> RunToStop(const DebugRunOptions& options,
                               DebugExecutor* executor) {
  NODEWISE_ASSIGN_OR_RETURN(const StopValues values,
                            ParseStopOn(options.stop_on));
  Stop stop;
  if (!options.until.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(stop.node, UntilNode(options, *executor));
  }
  const DebugExecutor::StopRule rule = StopAtValues(*executor, values);
  while (!executor->AtEnd()) {
    const NodeId node = executor->Position();
    NODEWISE_RETURN_IF_ERROR(executor->RunUntil(node));
    if (!options.stop_on.empty() && executor->graph().IsFunction(node)) {
      AddUnseen(executor->graph(), node, &stop);
      NODEWISE_ASSIGN_OR_RETURN(stop.is_value, rule(node));
    }
    if (stop.is_value) stop.node = node;
    if (stop.node == node) return stop;
  }
  return stop;
}

void ShowUnseen(const GraphIndex& index, const std::vector<EntryId>& unseen,
                Outcome* outcome) {
  std::vector<std::string> names;
  std::vector<std::string> shown;
  for (const EntryId entry : unseen) {
    names.push_back(index.KeyOf(entry));
    shown.push_back(fmt::format("{} ({})", names.back(),
                                ToString(index.graph().entry(entry).dtype)));
  }
  outcome->json.Add("not_looked_at", names);
  if (unseen.empty()) return;
  outcome->notes.push_back(fmt::format(
      "--stop-on: did not look at {}, whose types it cannot read: {}",
      CountOf(unseen.size(), "output"), ListOf(shown, 8)));
}

void ShowStop(const DebugRunOptions& options, const GraphIndex& index,
              const Stop& stop, Outcome* outcome) {
  const bool looks = !options.stop_on.empty();
  if (looks && !stop.is_value) {
    outcome->text += stop.unseen.empty()
                         ? "no node made such a value\n"
                         : "no node that was looked at made such a value\n";
  }
  if (stop.node.has_value()) {
    const std::string& function = index.graph().node(*stop.node).function;
    outcome->text += fmt::format(
        "stopped after {}{}{}\n", Printable(index.TitleOf(*stop.node)),
        function.empty() ? ", an input" : ", function " + Printable(function),
        stop.is_value ? ": the first to make such a value" : "");
  }
  if (looks || stop.node.has_value()) {
    outcome->json.Add("stopped_at",
                      stop.node.has_value() ? index.KeyOf(*stop.node) : "");
  }
  if (!looks) return;
  outcome->json.Add("made_the_value", stop.is_value);
  ShowUnseen(index, stop.unseen, outcome);
  if (stop.is_value) outcome->status = Outcome::Status::kDiffers;
}

absl::StatusOr<DebugRunResult> Stepped(const DebugRunOptions& options,
                                       const LoadedTarget& network,
                                       Outcome* outcome) {
  NODEWISE_ASSIGN_OR_RETURN(const auto executor, MakerOf(network)({}));
  NODEWISE_RETURN_IF_ERROR(
      ApplyPatches(options.patches, executor.get(), outcome));
  NODEWISE_ASSIGN_OR_RETURN(const Stop stop,
                            RunToStop(options, executor.get()));
  ShowStop(options, executor->index(), stop, outcome);
  DebugRunResult result;
  if (stop.node.has_value()) {
    NODEWISE_ASSIGN_OR_RETURN(result.outputs,
                              OutputsOfNode(*executor, *stop.node));
  } else {
    NODEWISE_ASSIGN_OR_RETURN(result.outputs, FetchOutputs(*executor));
  }
  return result;
}

void ShowFindings(std::string_view what, const std::vector<Finding>& findings,
                  Outcome* outcome) {
  for (const Finding& finding : findings) {
    outcome->text += Printable(finding.ToString()) + "\n";
  }
  AddFindings(what, findings, &outcome->json);
  if (!findings.empty()) outcome->status = Outcome::Status::kDiffers;
}

// Findings are a verdict; finding none is one only if everything was compared.
void ShowNotCompared(const SanitizeReport& report, Outcome* outcome) {
  for (const absl::Status& why : report.not_compared) {
    if (report.findings.empty()) {
      outcome->AddError(why);
    } else {
      outcome->notes.emplace_back(MessageOf(why));
    }
  }
}

absl::StatusOr<DebugRunResult> Sanitized(const LoadedTarget& network,
                                         Outcome* outcome) {
  NODEWISE_ASSIGN_OR_RETURN(SanitizeReport report,
                            Sanitize(MakerOf(network), SanitizeOptions()));
  outcome->text += fmt::format(
      "sanitized {}: {}{}\n", CountOf(report.nodes, "node"),
      CountOf(report.findings.size(), "memory fault"),
      report.had_more_findings ? ", and more that are not listed" : "");
  ShowFindings("memory_faults", report.findings, outcome);
  outcome->json.Add("more_faults", report.had_more_findings);
  ShowNotCompared(report, outcome);
  CheckAgainstPlainChild(network, report.outputs, outcome);
  return DebugRunResult{std::move(report.outputs)};
}

absl::StatusOr<DebugRunResult> Isolated(const DebugRunOptions& options,
                                        const LoadedTarget& network,
                                        Outcome* outcome) {
  NODEWISE_ASSIGN_OR_RETURN(const auto executor, MakerOf(network)({}));
  IsolationOptions isolation;
  if (options.time_limit_ms.has_value()) {
    isolation.time_limit_ms = static_cast<int64_t>(*options.time_limit_ms);
  }
  NODEWISE_ASSIGN_OR_RETURN(const IsolationReport report,
                            RunIsolated(executor.get(), isolation));
  outcome->text +=
      fmt::format("isolated {}: {}\n", CountOf(report.nodes, "node"),
                  CountOf(report.findings.size(), "failure"));
  ShowFindings("failures", report.findings, outcome);
  const GraphIndex& index = executor->index();
  std::vector<std::string> tainted;
  for (const NodeId node : report.tainted) tainted.push_back(index.KeyOf(node));
  outcome->json.Add("tainted", tainted);
  if (!tainted.empty()) {
    outcome->text +=
        fmt::format("{} on what a node that failed should have made\n",
                    CountOf(tainted.size(), "node") + " ran");
  }
  DebugRunResult result;
  if (!report.findings.empty()) {
    outcome->text += "outputs: not compared, since nodes failed\n";
    return result;
  }
  NODEWISE_ASSIGN_OR_RETURN(result.outputs, FetchOutputs(*executor));
  CheckAgainstPlainChild(network, result.outputs, outcome);
  return result;
}

absl::StatusOr<DebugRunResult> Swept(const LoadedTarget& network,
                                     Outcome* outcome) {
  SweepOptions options;
  Progress progress("sweep");
  options.progress = progress.Updater();
  NODEWISE_ASSIGN_OR_RETURN(const SweepReport report,
                            Sweep(MakerOf(network), options));
  outcome->text += fmt::format(
      "swept {}: {}", CountOf(report.runs, "run"),
      report.findings.empty() ? "always the same bits"
                              : CountOf(report.findings.size(), "finding"));
  if (report.inherited > 0) {
    outcome->text += fmt::format(", and {} that only passed them on",
                                 CountOf(report.inherited, "node"));
  }
  outcome->text += '\n';
  outcome->json.Add("runs", uint64_t{report.runs});
  outcome->json.Add("inherited", uint64_t{report.inherited});
  ShowFindings("unsteady", report.findings, outcome);
  return DebugRunResult();
}

}  // namespace

absl::Status CheckDebugRun(const DebugRunOptions& options) {
  const bool steps = !options.until.empty() || !options.patches.empty() ||
                     !options.stop_on.empty();
  if (steps + options.sanitize + options.isolate + options.sweep > 1) {
    return absl::InvalidArgumentError(
        "options: found several ways to run, expected one of --sanitize, "
        "--isolate and --sweep, or --until, --patch and --stop-on");
  }
  if (options.time_limit_ms.has_value() && !options.isolate) {
    return absl::InvalidArgumentError(
        "--time-limit-ms: means nothing without --isolate");
  }
  return ParseStopOn(options.stop_on).status();
}

absl::StatusOr<DebugRunResult> DebugRun(const DebugRunOptions& options,
                                        const LoadedTarget& network,
                                        Outcome* outcome) {
  if (options.sanitize) return Sanitized(network, outcome);
  if (options.isolate) return Isolated(options, network, outcome);
  if (options.sweep) return Swept(network, outcome);
  return Stepped(options, network, outcome);
}

}  // namespace nodewise
