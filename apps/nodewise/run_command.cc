#include <algorithm>
#include <optional>
#include <utility>

#include "apps/nodewise/command.h"
#include "apps/nodewise/debug_run_options.h"
#include "apps/nodewise/foreign_run.h"
#include "apps/nodewise/foreign_target.h"
#include "apps/nodewise/interpreted_run.h"
#include "apps/nodewise/load_options.h"
#include "apps/nodewise/opaque_text.h"
#include "apps/nodewise/outputs.h"
#include "apps/nodewise/target_text.h"
#include "fmt/format.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/runner/runner_list.h"
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

double Median(std::vector<double> values) {
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void ShowTimes(const std::vector<int64_t>& durations_ns, Outcome* outcome) {
  std::vector<double> milliseconds;
  for (const int64_t duration : durations_ns) {
    milliseconds.push_back(static_cast<double>(duration) * 1e-6);
  }
  const size_t runs = milliseconds.size();
  const double min =
      *std::min_element(milliseconds.begin(), milliseconds.end());
  const double median = Median(std::move(milliseconds));
  outcome->text += runs == 1 ? fmt::format("ran in {:.3f} ms\n", min)
                             : fmt::format(
                                   "ran {} times in {:.3f} ms (median; min "
                                   "{:.3f} ms)\n",
                                   runs, median, min);
  outcome->json.BeginObject("time");
  outcome->json.Add("runs", uint64_t{runs});
  outcome->json.Add("median_ms", median);
  outcome->json.Add("min_ms", min);
  outcome->json.EndObject();
}

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

  absl::StatusOr<Outcome> Run() override {
    NODEWISE_RETURN_IF_ERROR(CheckOutputPath(output_, 1));
    ShareWithOpaque(foreign_, &load_.model);
    if (IsForeign(target())) return RunInOtherProgram();
    NODEWISE_RETURN_IF_ERROR(
        CheckNoForeignOptions(foreign_, target(), load_.model));
    if (threads_.has_value()) SetNumThreads(static_cast<int>(*threads_));
    NODEWISE_RETURN_IF_ERROR(CheckDebugging());
    Outcome outcome;
    // A model that is looked into must be a graph.
    NODEWISE_ASSIGN_OR_RETURN(
        const Session loaded,
        LoadTarget(
            load_, inputs_, &outcome,
            debug_.Given().empty() ? OpenSizes::kKept : OpenSizes::kRefused));
    if (outcome.status != Outcome::Status::kOk) return outcome;
    if (loaded.network != nullptr) KeepFreedMemory();
    NODEWISE_RETURN_IF_ERROR(loaded.target == nullptr
                                 ? RunWithInterpreter(loaded, &outcome)
                                 : RunGraph(loaded, &outcome));
    if (loaded.opaque != nullptr) AddMissingOutputs(*loaded.opaque, &outcome);
    return outcome;
  }

 private:
  const std::string& target() const { return load_.target.target; }

  absl::StatusOr<Outcome> RunInOtherProgram() const {
    const std::string_view given =
        threads_.has_value() ? "--threads" : debug_.Given();
    if (!given.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: means nothing for {}, which another program runs",
                      given, target()));
    }
    Outcome outcome;
    LoadOptions load = load_;
    load.keeps_opaque = true;
    NODEWISE_ASSIGN_OR_RETURN(const LoadedForeign loaded,
                              LoadForeign(load, foreign_, inputs_, &outcome));
    if (outcome.status != Outcome::Status::kOk) return outcome;
    NODEWISE_RETURN_IF_ERROR(
        CheckOutputPath(output_, loaded.target.network->outputs().size()));
    RunOptions options;
    options.repeats = repeat_.value_or(1);
    NODEWISE_ASSIGN_OR_RETURN(const RunResult result,
                              RunForeign(loaded, loaded.target, options));
    ShowForeign(loaded, inputs_, &outcome);
    ShowResult(result, &outcome);
    return outcome;
  }

  absl::Status RunWithInterpreter(const Session& loaded,
                                  Outcome* outcome) const {
    NODEWISE_ASSIGN_OR_RETURN(const RunResult result,
                              RunInterpreted(target(), loaded, inputs_, output_,
                                             repeat_.value_or(1), outcome));
    ShowOpaque(*loaded.opaque, outcome);
    ShowResult(result, outcome);
    return absl::OkStatus();
  }

  absl::Status RunGraph(const Session& loaded, Outcome* outcome) const {
    NODEWISE_RETURN_IF_ERROR(
        CheckOutputPath(output_, loaded.target->graph().heads.size()));
#ifdef NODEWISE_USE_PROFILER
    if (!debug_.Given().empty()) return RunDebugged(loaded, outcome);
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
    ShowTarget(loaded, inputs_, outcome);
    ShowKernels(loaded, outcome);
    ShowResult(*result, outcome);
    return absl::OkStatus();
  }

  void ShowResult(const RunResult& result, Outcome* outcome) const {
    ShowOutputs(result.outputs, outcome);
    ShowTimes(result.durations_ns, outcome);
    Write(result.outputs, outcome);
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

  absl::Status RunDebugged(const Session& loaded, Outcome* outcome) const {
    ShowTarget(loaded, inputs_, outcome);
    NODEWISE_ASSIGN_OR_RETURN(const DebugRunResult result,
                              DebugRun(debug_, loaded, outcome));
    ShowKernels(loaded, outcome);
    ShowOutputs(result.outputs, outcome);
    const bool could_judge = outcome->status != Outcome::Status::kError;
    if (could_judge && !result.outputs.empty()) {
      Write(result.outputs, outcome);
    }
    return absl::OkStatus();
  }
#else
  absl::Status CheckDebugging() const {
    if (debug_.Given().empty()) return absl::OkStatus();
    return NeedsProfiler(debug_.Given());
  }
#endif

  void Write(const std::vector<NamedTensor>& outputs, Outcome* outcome) const {
    if (output_.empty()) return;
    const absl::Status status = WriteTensorFile(output_, outputs);
    if (!status.ok()) return outcome->AddError(status);
    outcome->text += fmt::format("wrote {}\n", Printable(output_));
    outcome->json.Add("written", output_);
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
