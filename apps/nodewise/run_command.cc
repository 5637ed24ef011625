#include <algorithm>
#include <optional>
#include <utility>

#include "apps/nodewise/command.h"
#include "apps/nodewise/debug_run_options.h"
#include "apps/nodewise/foreign_target.h"
#include "apps/nodewise/load_options.h"
#include "apps/nodewise/output_path.h"
#include "fmt/format.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/report/model_report.h"
#include "nodewise/report/run_report.h"
#include "nodewise/report/target_report.h"
#include "nodewise/report/tensor_digest.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/thread_pool.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_file.h"

#ifdef NODEWISE_USE_PROFILER
#include "apps/nodewise/debug_run.h"
#else
#include "apps/nodewise/no_profiler.h"
#endif

namespace nodewise {
namespace {

constexpr uint64_t kMostRepeats = 1'000'000;

class RunNetwork : public Command {
 public:
  void AddOptions(OptionList* options) override {
    AddLoadOptions(options, &load_, &inputs_);
    options->AddText("-o,--output", "FILE",
                     "writes the outputs to a .npz, .params or (a single one) "
                     ".npy or .pb file",
                     &output_);
    options->AddNumber("--repeat", "N", "runs N times, to time it",
                       {&repeat_, 1, kMostRepeats});
    options->AddNumber("--threads", "N",
                       "threads for the compiled code's parallel loops",
                       {&threads_, 1, kMaxTasks});
    AddDebugRunOptions(options, &debug_);
    AddForeignOptions(options, &foreign_);
  }

  absl::StatusOr<Report> Run() override {
    NODEWISE_RETURN_IF_ERROR(CheckOutputPath(output_, 1));
    ShareWithOpaque(foreign_, &load_.model);
    if (NamesProgram(target())) return RunInOtherProgram();
    NODEWISE_RETURN_IF_ERROR(
        CheckNoForeignOptions(foreign_, target(), load_.model));
    if (threads_.has_value()) SetNumThreads(static_cast<int>(*threads_));
    NODEWISE_RETURN_IF_ERROR(CheckDebugging());
    Report report;
    // A model that is looked into must be a graph.
    NODEWISE_ASSIGN_OR_RETURN(
        const Session loaded,
        LoadTarget(
            load_, inputs_, &report,
            debug_.Given().empty() ? OpenSizes::kKept : OpenSizes::kRefused));
    if (report.status != Report::Status::kOk) return report;
    if (loaded.network != nullptr) KeepFreedMemory();
    NODEWISE_RETURN_IF_ERROR(loaded.target == nullptr
                                 ? RunNetworkOf(loaded, &report)
                                 : RunGraph(loaded, &report));
    if (loaded.opaque != nullptr) AddMissingOutputs(*loaded.opaque, &report);
    if (keeps_archive()) AddDigestsOf(loaded, &report);
    return report;
  }

 private:
  const std::string& target() const { return load_.target.target; }

  absl::StatusOr<Report> RunInOtherProgram() const {
    const std::string_view given =
        threads_.has_value() ? "--threads" : debug_.Given();
    if (!given.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: means nothing for {}, which another program runs",
                      given, target()));
    }
    Report report;
    LoadOptions load = load_;
    load.keeps_opaque = true;
    NODEWISE_ASSIGN_OR_RETURN(const Session loaded,
                              LoadForeign(load, foreign_, inputs_, &report));
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
    RunOptions options;
    options.repeats = repeat_.value_or(1);
    const auto result = runner->Run(loaded.NamedInputs(), options);
    if (!result.ok()) return At(loaded.name, result.status());
    ShowTarget(loaded, report);
    ShowResult(*result, report);
    return absl::OkStatus();
  }

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
    RunOptions options;
    options.repeats = repeat_.value_or(1);
    const auto result =
        runner->Run(NameInputs(runner->inputs(), loaded.inputs), options);
    if (!result.ok()) return At(target(), result.status());
    ShowTarget(loaded, report);
    ShowKernels(loaded, report);
    ShowResult(*result, report);
    return absl::OkStatus();
  }

  void ShowResult(const RunResult& result, Report* report) const {
    ShowOutputs(result.outputs, report);
    ShowTimes(result.durations_ns, report);
    Write(result.outputs, report);
  }

#ifdef NODEWISE_USE_PROFILER
  absl::Status CheckDebugging() const {
    NODEWISE_RETURN_IF_ERROR(CheckDebugRun(debug_));
    if (!debug_.Given().empty() && repeat_.has_value()) {
      return absl::InvalidArgumentError(
          "--repeat: means nothing together with a way to look into the run");
    }
    if (debug_.sweep && !output_.empty()) {
      return absl::InvalidArgumentError(
          "--output: --sweep has no outputs of one run to write");
    }
    return absl::OkStatus();
  }

  absl::Status RunDebugged(const Session& loaded, Report* report) const {
    ShowTarget(loaded, report);
    NODEWISE_ASSIGN_OR_RETURN(const DebugRunResult result,
                              DebugRun(debug_, loaded, report));
    ShowKernels(loaded, report);
    ShowOutputs(result.outputs, report);
    const bool could_judge = report->status != Report::Status::kError;
    if (could_judge && !result.outputs.empty()) {
      Write(result.outputs, report);
    }
    return absl::OkStatus();
  }
#else
  absl::Status CheckDebugging() const {
    if (debug_.Given().empty()) return absl::OkStatus();
    return NeedsProfiler(debug_.Given());
  }
#endif

  void Write(const std::vector<NamedTensor>& outputs, Report* report) const {
    if (output_.empty()) return;
    const absl::Status status = WriteTensorFile(output_, outputs);
    if (!status.ok()) return report->AddError(status);
    report->text += fmt::format("wrote {}\n", Printable(output_));
    report->json.Add("written", output_);
  }

  LoadOptions load_;
  InputOptions inputs_;
  std::string output_;
  std::optional<uint64_t> repeat_;
  std::optional<uint64_t> threads_;
  DebugRunOptions debug_;
  ForeignOptions foreign_;
};

}  // namespace

const CommandRow kRunCommand = {
    "run",
    "runs a network and shows its outputs",
    "examples:\n"
    "  nodewise run build/mlp --random-inputs 1\n"
    "  nodewise run build/mlp --input data=x.npy --output y.npz\n"
    "  nodewise run graph.json --lib lib.so --params params.params "
    "--inputs all.npz\n"
    "  nodewise run build/mlp --random-inputs 1 --stop-on nan\n"
    "  nodewise run model.onnx --input x=input_0.pb\n"
    "  nodewise run model.onnx --reference --random-inputs 1 --until conv1\n"
    "  nodewise run ort:model.onnx --ort-level disabled --random-inputs 1\n"
    "  nodewise run 'exec:./runtime --fast' --model model.onnx "
    "--random-inputs 1\n"
    "\nExit status: 0 it ran, 1 it ran and something was found, 2 it did not,\n"
    "or the outputs could not be written; then there is no file.\n",
    [] { return std::unique_ptr<Command>(new RunNetwork); },
    /*missing=*/nullptr,
    /*runs_code=*/true};

}  // namespace nodewise
