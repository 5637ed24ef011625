#include "apps/nodewise/debug_run.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "apps/nodewise/output_check.h"
#include "apps/nodewise/progress.h"
#include "fmt/format.h"
#include "nodewise/graph/float_findings.h"
#include "nodewise/graph/named_outputs.h"
#include "nodewise/memcheck/plan_sanitizer.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/process/isolation.h"
#include "nodewise/runner/debug_target.h"
#include "nodewise/runner/patch_file.h"
#include "nodewise/runner/runner_list.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/text_table.h"
#include "nodewise/support/words.h"
#include "nodewise/sweep/sweep.h"
#include "nodewise/tensors/model_order.h"

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

// Parses "ENTRY=FILE" and reads the file.
absl::StatusOr<TensorPatch> ParsePatch(const GraphIndex& index,
                                       const std::string& text) {
  // A node's name may hold "=", a file's rarely does.
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos) {
    return absl::InvalidArgumentError(fmt::format(
        "--patch: found \"{}\", expected ENTRY=FILE, as in conv1:0=x.npy",
        text));
  }
  const std::string entry = text.substr(0, equals);
  const std::string file = text.substr(equals + 1);
  if (!file.empty()) return ReadPatch(index, entry, file, "--patch");
  const auto known = index.FindEntry(entry);
  if (!known.ok()) return At("--patch", known.status());
  return absl::InvalidArgumentError(
      fmt::format("--patch: found \"{}\", expected a file behind the =", text));
}

absl::StatusOr<RunOptions> StepOptions(const DebugRunOptions& options,
                                       const GraphIndex& index) {
  RunOptions run;
  run.leaves_floats = true;
  for (const std::string& text : options.patches) {
    NODEWISE_ASSIGN_OR_RETURN(TensorPatch patch, ParsePatch(index, text));
    run.patches.push_back(std::move(patch));
  }
  if (options.until.empty() && options.stop_on.empty()) return run;
  StopRule& stop = run.stop.emplace();
  stop.node = options.until;
  stop.where = "--until";
  if (!options.stop_on.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(stop.values, ParseStopOn(options.stop_on));
  }
  return run;
}

void ShowUnread(const std::vector<UnreadTensor>& unread, Outcome* outcome) {
  std::vector<std::string> names;
  std::vector<std::string> shown;
  for (const UnreadTensor& tensor : unread) {
    names.push_back(tensor.name);
    shown.push_back(
        fmt::format("{} ({})", tensor.name, ToString(tensor.dtype)));
  }
  outcome->json.Add("not_looked_at", names);
  if (unread.empty()) return;
  outcome->notes.push_back(fmt::format(
      "--stop-on: did not look at {}, whose types it cannot read: {}",
      CountOf(unread.size(), "output"), ListOf(shown, 8)));
}

void ShowStop(const DebugRunOptions& options, const RunResult& result,
              Outcome* outcome) {
  const bool looks = !options.stop_on.empty();
  const auto& stop = result.stopped;
  const bool made_value = stop.has_value() && stop->made_value;
  if (looks && !made_value) {
    outcome->text += result.unread.empty()
                         ? "no node made such a value\n"
                         : "no node that was looked at made such a value\n";
  }
  if (stop.has_value()) {
    outcome->text += fmt::format(
        "stopped after {}{}{}\n", Printable(stop->title),
        stop->function.empty() ? ", an input"
                               : ", function " + Printable(stop->function),
        made_value ? ": the first to make such a value" : "");
  }
  if (looks || stop.has_value()) {
    outcome->json.Add("stopped_at", stop.has_value() ? stop->key : "");
  }
  if (!looks) return;
  outcome->json.Add("made_the_value", made_value);
  ShowUnread(result.unread, outcome);
  if (made_value) outcome->status = Outcome::Status::kDiffers;
}

absl::StatusOr<DebugRunResult> Stepped(const DebugRunOptions& options,
                                       const Session& loaded,
                                       Outcome* outcome) {
  const GraphTarget& target = *loaded.target;
  NODEWISE_ASSIGN_OR_RETURN(
      const RunnerMaker maker,
      MakerOf("debug", RunnerTarget{target.name(), loaded.target}));
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, maker());
  const auto run = [&]() -> absl::StatusOr<RunResult> {
    NODEWISE_ASSIGN_OR_RETURN(const RunOptions asked,
                              StepOptions(options, target.index()));
    return runner->Run(NameInputs(target.inputs(), loaded.inputs), asked);
  };
  auto result = run();
  if (!result.ok()) return At(target.name(), result.status());
  outcome->notes.insert(outcome->notes.end(), result->notes.begin(),
                        result->notes.end());
  ShowStop(options, *result, outcome);
  if (result->stopped.has_value()) {
    for (NamedTensor& output : result->outputs) {
      NODEWISE_ASSIGN_OR_RETURN(const EntryId entry,
                                target.index().FindEntry(output.name));
      NODEWISE_ASSIGN_OR_RETURN(
          output.tensor, InModelOrder(target.index(), entry, output.tensor));
    }
  }
  return DebugRunResult{std::move(result->outputs)};
}

void ShowFindings(std::string_view what, const std::vector<Finding>& findings,
                  Outcome* outcome) {
  for (const Finding& finding : findings) {
    outcome->text += Printable(finding.ToString()) + "\n";
  }
  AddFindings(what, findings, &outcome->json);
  if (!findings.empty()) outcome->status = Outcome::Status::kDiffers;
}

size_t CountChangedFloats(const std::vector<Finding>& findings) {
  return static_cast<size_t>(std::count_if(
      findings.begin(), findings.end(), [](const Finding& finding) {
        return finding.kind == float_kinds::kLeftChanged;
      }));
}

std::string ChangedFloatsText(size_t count) {
  if (count == 0) return "";
  return fmt::format(", {} left floats changed", CountOf(count, "node"));
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

absl::StatusOr<DebugRunResult> Sanitized(const Session& loaded,
                                         Outcome* outcome) {
  const GraphTarget& target = *loaded.target;
  absl::Status made;
  auto checked =
      Sanitize(MakerOfDebugExecutors(target, loaded.inputs, &made), {});
  // What the first run found stands even if no executor can be made for a later
  // one.
  if (!checked.ok()) {
    return made.ok() ? At(target.name(), checked.status()) : made;
  }
  SanitizeReport& report = *checked;
  const size_t floats = CountChangedFloats(report.findings);
  outcome->text += fmt::format(
      "sanitized {}: {}{}{}\n", CountOf(report.nodes, "node"),
      CountOf(report.findings.size() - floats, "memory fault"),
      ChangedFloatsText(floats),
      report.had_more_findings ? ", and more that are not listed" : "");
  ShowFindings("memory_faults", report.findings, outcome);
  outcome->json.Add("more_faults", report.had_more_findings);
  ShowNotCompared(report, outcome);
  ShowCheck(CheckAgainstPlainChild(target, loaded.inputs, report.outputs),
            outcome);
  return DebugRunResult{std::move(report.outputs)};
}

absl::StatusOr<DebugRunResult> Isolated(const DebugRunOptions& options,
                                        const Session& loaded,
                                        Outcome* outcome) {
  const GraphTarget& target = *loaded.target;
  NODEWISE_ASSIGN_OR_RETURN(const auto executor,
                            MakerOfDebugExecutors(target, loaded.inputs)({}));
  IsolationOptions isolation;
  if (options.time_limit_ms.has_value()) {
    isolation.time_limit_ms = static_cast<int64_t>(*options.time_limit_ms);
  }
  const auto isolated = RunIsolated(executor.get(), isolation);
  if (!isolated.ok()) return At(target.name(), isolated.status());
  const IsolationReport& report = *isolated;
  const size_t floats = CountChangedFloats(report.findings);
  const size_t failures = report.findings.size() - floats;
  outcome->text +=
      fmt::format("isolated {}: {}{}\n", CountOf(report.nodes, "node"),
                  CountOf(failures, "failure"), ChangedFloatsText(floats));
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
  if (failures > 0) {
    outcome->text += "outputs: not compared, since nodes failed\n";
    return result;
  }
  NODEWISE_ASSIGN_OR_RETURN(result.outputs, FetchOutputs(*executor));
  ShowCheck(CheckAgainstPlainChild(target, loaded.inputs, result.outputs),
            outcome);
  return result;
}

absl::StatusOr<DebugRunResult> Swept(const Session& loaded, Outcome* outcome) {
  const GraphTarget& target = *loaded.target;
  SweepOptions options;
  Progress progress("sweep");
  options.progress = progress.Updater();
  absl::Status made;
  const auto swept =
      Sweep(MakerOfDebugExecutors(target, loaded.inputs, &made), options);
  NODEWISE_RETURN_IF_ERROR(made);
  if (!swept.ok()) return At(target.name(), swept.status());
  const SweepReport& report = *swept;
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
                                        const Session& loaded,
                                        Outcome* outcome) {
  if (options.sanitize) return Sanitized(loaded, outcome);
  if (options.isolate) return Isolated(options, loaded, outcome);
  if (options.sweep) return Swept(loaded, outcome);
  return Stepped(options, loaded, outcome);
}

}  // namespace nodewise
