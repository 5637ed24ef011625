#include "apps/nodewise/debug_run.h"

#include <algorithm>
#include <utility>

#include "apps/nodewise/command.h"
#include "apps/nodewise/terminal.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/memcheck/plan_sanitizer.h"
#include "nodewise/process/isolation.h"
#include "nodewise/report/debug_run_report.h"
#include "nodewise/runner/debug_runner.h"
#include "nodewise/runner/input_files.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"
#include "nodewise/sweep/sweep.h"
#include "nodewise/tensors/channels_last.h"

namespace nodewise {
namespace {

using NamedTensors = std::vector<NamedTensor>;

absl::StatusOr<StopValues> ParseStopOn(const std::vector<std::string>& words) {
  constexpr std::string_view kAbove = "abs>";
  StopValues values;
  for (const std::string& word : words) {
    const std::string_view text = word;
    if (text == "nan") {
      values.nan = true;
    } else if (text == "inf") {
      values.infinity = true;
    } else if (text.starts_with(kAbove)) {
      double limit = 0;
      // A limit that is NaN would never be exceeded.
      if (!ReadNumber(text.substr(kAbove.size()), &limit) || !(limit >= 0)) {
        return BadValue("--stop-on", word, "a number behind abs>");
      }
      // Each limit asks for a stop, so the smallest one counts.
      values.above = std::min(values.above.value_or(limit), limit);
    } else {
      return BadValue(
          "--stop-on", word,
          "nan, inf or abs>LIMIT" + DidYouMean(word, {"nan", "inf"}));
    }
  }
  return values;
}

absl::StatusOr<TensorPatch> ParsePatch(const GraphIndex& index,
                                       const std::string& text) {
  // A node's name may hold "=", a file's rarely does.
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos) {
    return BadValue("--patch", text, "ENTRY=FILE, as in conv1:0=x.npy");
  }
  const std::string entry = text.substr(0, equals);
  const std::string file = text.substr(equals + 1);
  if (!file.empty()) return ReadPatch(index, entry, file, "--patch");
  // A misspelt node is worse than a file that is missing, and is said first.
  const auto known = index.FindEntry(entry);
  if (!known.ok()) return At("--patch", known.status());
  return BadValue("--patch", text, "a file behind the =");
}

absl::StatusOr<RunOptions> StepOptions(const DebugRunOptions& options,
                                       const GraphIndex& index) {
  // This run is to make what a plain one makes, so the floating-point
  // environment goes from node to node as it does there.
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

// Runs node by node, up to one of them or to a value, with tensors of the
// user's in the place of some that nodes make.
absl::StatusOr<NamedTensors> Stepped(const DebugRunOptions& options,
                                     const Session& loaded, Report* report) {
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
  for (const std::string& note : result->notes) report->notes.push_back(note);
  ShowStop(*result, !options.stop_on.empty(), report);
  // Inside a graph a tensor may have its channels last; outputs of the whole
  // graph are in the model's order already.
  if (result->stopped.has_value()) {
    for (NamedTensor& output : result->outputs) {
      NODEWISE_ASSIGN_OR_RETURN(const EntryId entry,
                                target.index().FindEntry(output.name));
      NODEWISE_ASSIGN_OR_RETURN(
          output.tensor, InModelOrder(target.index(), entry, output.tensor));
    }
  }
  return std::move(result->outputs);
}

// Runs the network several times, with memory around each tensor watched. The
// outputs are compared with those of a run that nothing watches, since memory
// that is laid out otherwise may hide a fault, or make one.
absl::StatusOr<NamedTensors> Sanitized(const Session& loaded, Report* report) {
  const GraphTarget& target = *loaded.target;
  absl::Status made;
  auto checked =
      Sanitize(MakerOfDebugExecutors(target, loaded.inputs, &made), {});
  // What the first run found stands even if no executor can be made for a later
  // one.
  if (!checked.ok()) {
    return made.ok() ? At(target.name(), checked.status()) : made;
  }
  ShowSanitized(*checked, report);
  ShowCheck(CheckAgainstPlainChild(target, loaded.inputs, checked->outputs),
            report);
  return std::move(checked->outputs);
}

// Each node has a process of its own, so that a crash names it and the run goes
// on with the next.
absl::StatusOr<NamedTensors> Isolated(const DebugRunOptions& options,
                                      const Session& loaded, Report* report) {
  const GraphTarget& target = *loaded.target;
  NODEWISE_ASSIGN_OR_RETURN(const auto executor,
                            MakerOfDebugExecutors(target, loaded.inputs)({}));
  IsolationOptions isolation;
  if (options.time_limit_ms.has_value()) {
    isolation.time_limit_ms = static_cast<int64_t>(*options.time_limit_ms);
  }
  const auto isolated = RunIsolated(executor.get(), isolation);
  if (!isolated.ok()) return At(target.name(), isolated.status());
  ShowIsolated(*isolated, executor->index(), report);
  if (CountFaults(isolated->findings) > 0) {
    report->text += "outputs: not compared, since nodes failed\n";
    return NamedTensors();
  }
  NODEWISE_ASSIGN_OR_RETURN(NamedTensors outputs, FetchOutputs(*executor));
  // The plain run, whose nodes share one process, may crash; so a child runs
  // it.
  ShowCheck(CheckAgainstPlainChild(target, loaded.inputs, outputs), report);
  return outputs;
}

// There are as many runs as ways to run, so no outputs stand for all of them.
absl::StatusOr<NamedTensors> Swept(const Session& loaded, Report* report) {
  const GraphTarget& target = *loaded.target;
  SweepOptions options;
  Progress progress("sweep");
  options.progress = progress.Updater();
  absl::Status made;
  const auto swept =
      Sweep(MakerOfDebugExecutors(target, loaded.inputs, &made), options);
  NODEWISE_RETURN_IF_ERROR(made);
  if (!swept.ok()) return At(target.name(), swept.status());
  ShowSwept(*swept, report);
  return NamedTensors();
}

}  // namespace

absl::Status CheckDebugRun(const DebugRunOptions& options) {
  // --until, --patch and --stop-on are one way to run, and go together.
  const bool steps = !options.until.empty() || !options.patches.empty() ||
                     !options.stop_on.empty();
  if (steps + options.sanitize + options.isolate + options.sweep > 1) {
    return InvalidArgument(
        "options: found several ways to run, expected one of --sanitize, "
        "--isolate and --sweep, or --until, --patch and --stop-on");
  }
  if (options.time_limit_ms.has_value() && !options.isolate) {
    return InvalidArgument("--time-limit-ms: means nothing without --isolate");
  }
  return ParseStopOn(options.stop_on).status();
}

absl::StatusOr<std::vector<NamedTensor>> DebugRun(
    const DebugRunOptions& options, const Session& loaded, Report* report) {
  if (options.sanitize) return Sanitized(loaded, report);
  if (options.isolate) return Isolated(options, loaded, report);
  if (options.sweep) return Swept(loaded, report);
  return Stepped(options, loaded, report);
}

}  // namespace nodewise
