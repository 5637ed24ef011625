#include <optional>

#include "apps/nodewise/build_parts.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/debug_run.h"
#include "apps/nodewise/foreign_target.h"
#include "apps/nodewise/load_options.h"
#include "apps/nodewise/output_files.h"
#include "fmt/format.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/report/model_report.h"
#include "nodewise/report/run_report.h"
#include "nodewise/report/tensor_summary.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_file.h"

namespace nodewise {

// One of the options that were given is enough for a message.
std::string_view DebugRunOptions::Given() const {
  if (!until.empty()) return "--until";
  if (!patches.empty()) return "--patch";
  if (!stop_on.empty()) return "--stop-on";
  if (sanitize) return "--sanitize";
  if (isolate) return "--isolate";
  if (sweep) return "--sweep";
  return time_limit_ms.has_value() ? "--time-limit-ms" : "";
}

namespace {

// A day, in ms: the most that a run of a node in its own process may be given.
constexpr uint64_t kLongestLimit = 86'400'000;
// Every run leaves a time in memory, for the table of them.
constexpr uint64_t kMostRepeats = 1'000'000;

void AddDebugRunOptions(OptionList* options, DebugRunOptions* debug) {
  options->Add({
      {"--until", "NODE",
       "stops after this node and shows what it made; NODE is a name or "
       "#NUMBER",
       &debug->until},
      {"--patch", "ENTRY=FILE",
       "gives NODE or NODE:OUTPUT the tensor of that name in a file, or its "
       "only one, instead of running it; may be given again",
       &debug->patches},
      {"--stop-on", "VALUE",
       "stops at the first node that makes such a value: nan, inf or "
       "abs>LIMIT; may be given again",
       &debug->stop_on},
      {"--sanitize", "",
       "finds nodes that write or read memory that is not theirs, and faults "
       "of the storage plan",
       &debug->sanitize},
      {"--isolate", "",
       "runs every node in a process of its own, so that one that crashes or "
       "hangs is named",
       &debug->isolate},
      {"--time-limit-ms", "MS", "with --isolate: for one node (10000)",
       NumberOption{&debug->time_limit_ms, 1, kLongestLimit}},
      {"--sweep", "",
       "repeats the run over thread counts and buffer addresses, and finds "
       "nodes that do not always make the same",
       &debug->sweep},
  });
}

// Runs in one of four ways: as a graph, under the debug executor, as a network
// in the interpreter, or in another program. All of them end with outputs.
class RunNetwork : public Command {
 public:
  void AddOptions(OptionList* options) override {
    AddLoadOptions(options, &load_);
    options->Add({
        {"-o,--output", "FILE",
         "writes the outputs to a .npz, .params or (a single one) .npy or .pb "
         "file",
         &output_},
        {"--repeat", "N", "runs N times, to time it",
         NumberOption{&repeat_, 1, kMostRepeats}},
        ThreadsOption(&threads_),
    });
    AddDebugRunOptions(options, &debug_);
    AddForeignOptions(options, &foreign_);
  }

  absl::StatusOr<Report> Run() override {
    // The number of outputs is not known yet; the extension is.
    NODEWISE_RETURN_IF_ERROR(CheckOutputPath(output_, 1));
    ShareWithOpaque(foreign_, &load_.model);
    if (NamesProgram(target())) return RunInOtherProgram();
    NODEWISE_RETURN_IF_ERROR(CheckNoForeignOptions(foreign_, load_));
    UseThreads(threads_);
    NODEWISE_RETURN_IF_ERROR(CheckDebugging());
    Report report;
    // A model that is looked into must be a graph.
    NODEWISE_ASSIGN_OR_RETURN(
        const Session loaded,
        LoadTarget(
            load_, &report,
            debug_.Given().empty() ? OpenSizes::kKept : OpenSizes::kRefused));
    if (report.status != Report::Status::kOk) return report;
    // The interpreter makes and drops a tensor for each operation.
    if (loaded.network != nullptr) KeepFreedMemory();
    NODEWISE_RETURN_IF_ERROR(loaded.target == nullptr
                                 ? RunNetworkOf(loaded, &report)
                                 : RunGraph(loaded, &report));
    // Where nothing runs an opaque operation, what depends on it is missing.
    if (loaded.opaque != nullptr) AddMissingOutputs(*loaded.opaque, &report);
    if (keeps_archive()) AddDigestsOf(loaded, &report);
    return report;
  }

 private:
  const std::string& target() const { return load_.target.target; }

  // Nothing can be looked into in another program: only its outputs come back.
  absl::StatusOr<Report> RunInOtherProgram() {
    const std::string_view given =
        threads_.has_value() ? "--threads" : debug_.Given();
    if (!given.empty()) {
      return InvalidArgument(
          "{}: means nothing for {}, which another program runs", given,
          target());
    }
    // That program may know operations which are not known here.
    load_.keeps_opaque = true;
    Report report;
    NODEWISE_ASSIGN_OR_RETURN(const Session loaded,
                              LoadForeign(load_, foreign_, &report));
    if (report.status != Report::Status::kOk) return report;
    NODEWISE_RETURN_IF_ERROR(RunNetworkOf(loaded, &report));
    if (keeps_archive()) AddDigestsOf(loaded, &report);
    return report;
  }

  // Runs a target that stays a network: another program runs it, or the
  // interpreter.
  absl::Status RunNetworkOf(const Session& loaded, Report* report) const {
    NODEWISE_RETURN_IF_ERROR(
        CheckOutputPath(output_, loaded.network->outputs().size()));
    NODEWISE_ASSIGN_OR_RETURN(const auto runner, MakeNetworkRunner(loaded));
    const auto result = runner->Run(loaded.NamedInputs(), PlainOptions());
    if (!result.ok()) return At(loaded.name, result.status());
    ShowTarget(loaded, report);
    return ShowResult(*result, report);
  }

  // The plain executor is the one that a program would use: no node is watched.
  absl::Status RunGraph(const Session& loaded, Report* report) const {
    NODEWISE_RETURN_IF_ERROR(
        CheckOutputPath(output_, loaded.target->graph().heads.size()));
#ifdef NODEWISE_USE_PROFILER
    if (!debug_.Given().empty()) return RunDebugged(loaded, report);
#endif
    NODEWISE_ASSIGN_OR_RETURN(
        const RunnerMaker maker,
        MakerOf("plain", RunnerTarget{target(), loaded.target}));
    NODEWISE_ASSIGN_OR_RETURN(const auto runner, maker());
    const auto result = runner->Run(NameInputs(runner->inputs(), loaded.inputs),
                                    PlainOptions());
    if (!result.ok()) return At(target(), result.status());
    ShowTarget(loaded, report);
    ShowKernels(loaded, report);
    return ShowResult(*result, report);
  }

  RunOptions PlainOptions() const {
    RunOptions options;
    options.repeats = repeat_.value_or(1);
    return options;
  }

  absl::Status ShowResult(const RunResult& result, Report* report) const {
    ShowOutputs(result.outputs, report);
    ShowTimes(result.durations_ns, report);
    Write(result.outputs, report);
    return absl::OkStatus();
  }

#ifdef NODEWISE_USE_PROFILER
  // Each way to look into a run decides itself how often it runs.
  absl::Status CheckDebugging() const {
    NODEWISE_RETURN_IF_ERROR(CheckDebugRun(debug_));
    if (!debug_.Given().empty() && repeat_.has_value()) {
      return InvalidArgument(
          "--repeat: means nothing together with a way to look into the run");
    }
    if (debug_.sweep && !output_.empty()) {
      return InvalidArgument(
          "--output: --sweep has no outputs of one run to write");
    }
    return absl::OkStatus();
  }

  absl::Status RunDebugged(const Session& loaded, Report* report) const {
    ShowTarget(loaded, report);
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<NamedTensor> outputs,
                              DebugRun(debug_, loaded, report));
    ShowKernels(loaded, report);
    ShowOutputs(outputs, report);
    // A file says that its tensors can be relied on.
    const bool could_judge = report->status != Report::Status::kError;
    if (could_judge && !outputs.empty()) Write(outputs, report);
    return absl::OkStatus();
  }
#else
  absl::Status CheckDebugging() const {
    if (debug_.Given().empty()) return absl::OkStatus();
    return NeedsProfiler(debug_.Given());
  }
#endif

  // What the run has found stands, even where the file cannot be written.
  void Write(const std::vector<NamedTensor>& outputs, Report* report) const {
    if (output_.empty()) return;
    const absl::Status status = WriteTensorFile(output_, outputs);
    if (!status.ok()) return report->AddError(status);
    report->text += fmt::format("wrote {}\n", Printable(output_));
    report->json.Add("written", output_);
  }

  LoadOptions load_;
  std::string output_;
  std::optional<uint64_t> repeat_, threads_;
  DebugRunOptions debug_;
  ForeignOptions foreign_;
};

}  // namespace

const CommandRow kRunCommand = {"run", "runs a network and shows its outputs",
                                R"(examples:
  nodewise run build/mlp --random-inputs 1
  nodewise run build/mlp --input data=x.npy --output y.npz
  nodewise run graph.json --lib lib.so --params params.params --inputs all.npz
  nodewise run build/mlp --random-inputs 1 --stop-on nan
  nodewise run model.onnx --input x=input_0.pb
  nodewise run model.onnx --reference --random-inputs 1 --until conv1
  nodewise run ort:model.onnx --ort-level disabled --random-inputs 1
  nodewise run 'exec:./runtime --fast' --model model.onnx --random-inputs 1

Exit status: 0 it ran, 1 it ran and something was found, 2 it did not,
or the outputs could not be written; then there is no file.
)",
                                &MakeCommand<RunNetwork>,
                                /*runs_code=*/true};

}  // namespace nodewise
