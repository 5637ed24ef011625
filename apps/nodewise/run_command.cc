#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/error_text.h"
#include "apps/nodewise/input_options.h"
#include "apps/nodewise/target_options.h"
#include "apps/nodewise/tensor_summary.h"
#include "apps/nodewise/text_table.h"
#include "nodewise/contrib/tensor_file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/thread_pool.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFirstValues = 8;
constexpr size_t kShownNames = 8;
constexpr uint64_t kMostRepeats = 1'000'000;

struct RunTimes {
  std::vector<double> milliseconds;  // By run.

  double Least() const {
    return *std::min_element(milliseconds.begin(), milliseconds.end());
  }
  double Median() const {
    std::vector<double> sorted = milliseconds;
    const size_t middle = sorted.size() / 2;
    std::nth_element(sorted.begin(), sorted.begin() + middle, sorted.end());
    return sorted[middle];
  }
};

// What can be known to be wrong with --output before the run: afterwards it
// would cost the run.
absl::Status CheckOutputPath(const std::string& path, size_t num_outputs) {
  if (path.empty()) return absl::OkStatus();
  const std::string extension = fs::path(path).extension();
  if (extension != ".npz" && extension != ".params" && extension != ".npy") {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: extension is \"%s\", expected .npz, .params or .npy", path,
        extension));
  }
  if (extension == ".npy" && num_outputs > 1) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: %d outputs do not go into a .npy file, expected .npz or .params",
        path, num_outputs));
  }
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, error)) {
    return absl::NotFoundError(absl::StrFormat(
        "%s: there is no folder %s to write to", path, folder.string()));
  }
  if (fs::is_directory(path, error)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: is a folder, expected a file to write", path));
  }
  return absl::OkStatus();
}

// Host copies of the outputs under names that are different from each other:
// one entry may be an output twice.
absl::StatusOr<std::vector<NamedTensor>> FetchOutputs(
    const GraphExecutor& executor) {
  std::vector<NamedTensor> outputs;
  std::set<std::string> taken;
  for (size_t i = 0; i < executor.NumOutputs(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray output, executor.GetOutput(i));
    NODEWISE_ASSIGN_OR_RETURN(NDArray copy, output.CopyToHost());
    const std::string name = executor.OutputInfo(i).name;
    std::string unique = name;
    for (int n = 2; !taken.insert(unique).second; ++n) {
      unique = absl::StrFormat("%s_%d", name, n);
    }
    outputs.push_back({std::move(unique), std::move(copy)});
  }
  return outputs;
}

std::string UnknownParamsNote(const std::vector<std::string>& names,
                              const std::string& from) {
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kShownNames); ++i) {
    list += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kShownNames) list += ", ...";
  return absl::StrFormat("%s: %s that the graph does not have: %s", from,
                         CountOf(names.size(), "parameter"), list);
}

void ShowInputs(const GraphExecutor& executor,
                const std::vector<InputSource>& sources, Outcome* outcome) {
  TextTable table;
  outcome->json.BeginArray("inputs");
  for (const InputSource& source : sources) {
    const TensorInfo info = executor.InputInfo(source.input);
    table.AddRow({"input", info.name, TypeToString(info.shape, info.dtype),
                  "from " + source.from});
    outcome->json.BeginObject();
    outcome->json.Add("name", info.name);
    outcome->json.Add("dtype", ToString(info.dtype));
    outcome->json.Add("shape", info.shape);
    outcome->json.Add("from", source.from);
    outcome->json.EndObject();
  }
  outcome->json.EndArray();
  outcome->text += table.ToString(0, 0);
}

std::string TextOf(const NamedTensor& output, const TensorSummary& summary) {
  std::string text = absl::StrFormat(
      "output  %s  %s\n", Printable(output.name),
      TypeToString(output.tensor.shape(), output.tensor.dtype()));
  if (summary.has_numbers) {
    text +=
        absl::StrFormat("  min %s  max %s  mean %s", ShortNumber(summary.min),
                        ShortNumber(summary.max), ShortNumber(summary.mean));
    text +=
        absl::StrFormat("  NaN %d  Inf %d\n", summary.nans, summary.infinities);
  }
  text += "  values";
  for (const std::string& value : summary.first) {
    text += " " + ShortNumber(value);
  }
  const auto elements = NumElements(output.tensor.shape()).value_or(0) *
                        output.tensor.dtype().lanes;
  const bool has_more = static_cast<size_t>(elements) > summary.first.size();
  return text + (has_more ? " ...\n" : elements == 0 ? " none\n" : "\n");
}

void ShowOutputs(const std::vector<NamedTensor>& outputs, Outcome* outcome) {
  outcome->json.BeginArray("outputs");
  for (const NamedTensor& output : outputs) {
    const TensorSummary summary = SummariseTensor(*output.tensor, kFirstValues);
    outcome->text += TextOf(output, summary);
    outcome->json.BeginObject();
    outcome->json.Add("name", output.name);
    outcome->json.Add("dtype", ToString(output.tensor.dtype()));
    outcome->json.Add("shape", output.tensor.shape());
    outcome->json.Add("bytes", uint64_t{output.tensor.bytes()});
    AddSummary(summary, &outcome->json);
    outcome->json.AddScalars("first", summary.first);
    outcome->json.EndObject();
  }
  outcome->json.EndArray();
}

void ShowTimes(const RunTimes& times, Outcome* outcome) {
  const size_t runs = times.milliseconds.size();
  outcome->text += runs == 1
                       ? absl::StrFormat("ran in %.3f ms\n", times.Least())
                       : absl::StrFormat(
                             "ran %d times in %.3f ms (median; least "
                             "%.3f ms)\n",
                             runs, times.Median(), times.Least());
  outcome->json.BeginObject("time");
  outcome->json.Add("runs", uint64_t{runs});
  outcome->json.Add("median_ms", times.Median());
  outcome->json.Add("min_ms", times.Least());
  outcome->json.EndObject();
}

class RunNetwork : public Command {
 public:
  void AddOptions(OptionList* options) override {
    AddTargetOptions(options, &target_);
    AddDeviceOption(options, &target_);
    AddInputOptions(options, &inputs_);
    options->AddText("--output", "FILE",
                     "writes the outputs to a .npz, .params or (a single one) "
                     ".npy file",
                     &output_);
    options->AddNumber("--repeat", "N", "runs N times, to time it",
                       {&repeat_, 1, kMostRepeats});
    options->AddNumber("--threads", "N",
                       "threads for the compiled code's parallel loops",
                       {&threads_, 1, kMaxTasks});
  }

  absl::StatusOr<Outcome> Run() override {
    NODEWISE_RETURN_IF_ERROR(CheckOutputPath(output_, 1));
    NODEWISE_ASSIGN_OR_RETURN(const ArtefactFiles files, FilesOf(target_));
    if (threads_.has_value()) SetNumThreads(static_cast<int>(*threads_));
    Outcome outcome;
    NODEWISE_ASSIGN_OR_RETURN(const auto executor, Load(files, &outcome));
    NODEWISE_RETURN_IF_ERROR(CheckOutputPath(output_, executor->NumOutputs()));
    FaultList faults;
    const std::vector<InputSource> sources =
        SetInputs(inputs_, executor.get(), &faults);
    if (faults.HasErrors()) return Failed(std::move(faults));
    NODEWISE_ASSIGN_OR_RETURN(const RunTimes times, RunAll(executor.get()));
    NODEWISE_ASSIGN_OR_RETURN(const auto outputs, FetchOutputs(*executor));
    ShowHead(files, *executor, &outcome);
    ShowInputs(*executor, sources, &outcome);
    ShowOutputs(outputs, &outcome);
    ShowTimes(times, &outcome);
    NODEWISE_RETURN_IF_ERROR(Write(outputs, &outcome));
    return outcome;
  }

 private:
  absl::StatusOr<std::unique_ptr<GraphExecutor>> Load(
      const ArtefactFiles& files, Outcome* outcome) const {
    GraphExecutor::Options options;
    NODEWISE_ASSIGN_OR_RETURN(options.devices, DevicesOf(target_));
    NODEWISE_ASSIGN_OR_RETURN(Artefact artefact, LoadArtefact(files));
    NODEWISE_ASSIGN_OR_RETURN(
        auto executor,
        GraphExecutor::Create(std::move(artefact.graph), artefact.library,
                              std::move(options)));
    const std::string& from =
        files.params.empty() ? files.library : files.params;
    const auto loaded = executor->LoadParams(artefact.params);
    if (!loaded.ok()) return At(from, loaded.status());
    if (!loaded->unknown.empty()) {
      outcome->notes.push_back(UnknownParamsNote(loaded->unknown, from));
    }
    return executor;
  }

  static Outcome Failed(FaultList faults) {
    Outcome outcome;
    outcome.status = Outcome::Status::kError;
    outcome.errors = std::move(faults.faults());
    return outcome;
  }

  absl::StatusOr<RunTimes> RunAll(GraphExecutor* executor) const {
    using Clock = std::chrono::steady_clock;
    RunTimes times;
    for (uint64_t i = 0; i < repeat_.value_or(1); ++i) {
      const Clock::time_point start = Clock::now();
      const absl::Status status = executor->Run();
      if (!status.ok()) return At(target_.target, status);
      times.milliseconds.push_back(
          std::chrono::duration<double, std::milli>(Clock::now() - start)
              .count());
    }
    return times;
  }

  void ShowHead(const ArtefactFiles& files, const GraphExecutor& executor,
                Outcome* outcome) const {
    size_t functions = 0;
    for (const GraphNode& node : executor.graph().nodes) {
      functions += node.kind == GraphNode::Kind::kFunction ? 1 : 0;
    }
    outcome->text = absl::StrFormat("%s: %s, %s\n", Printable(target_.target),
                                    CountOf(functions, "function node"),
                                    CountOf(executor.NumOutputs(), "output"));
    outcome->json.BeginObject("target");
    outcome->json.Add("graph", files.graph);
    outcome->json.Add("library", files.library);
    outcome->json.Add("params", files.params);
    outcome->json.EndObject();
    if (inputs_.seed.has_value()) outcome->json.Add("seed", *inputs_.seed);
  }

  absl::Status Write(const std::vector<NamedTensor>& outputs,
                     Outcome* outcome) const {
    if (output_.empty()) return absl::OkStatus();
    NODEWISE_RETURN_IF_ERROR(WriteTensorFile(output_, outputs));
    outcome->text += absl::StrFormat("wrote %s\n", Printable(output_));
    outcome->json.Add("written", output_);
    return absl::OkStatus();
  }

  TargetOptions target_;
  InputOptions inputs_;
  std::string output_;
  std::optional<uint64_t> repeat_;
  std::optional<uint64_t> threads_;
};

}  // namespace

const CommandRow kRunCommand = {
    "run", "runs a compiled network and shows its outputs",
    "examples:\n"
    "  nodewise run build/mlp --random-inputs 1\n"
    "  nodewise run build/mlp --input data=x.npy --output y.npz\n"
    "  nodewise run graph.json --lib lib.so --params params.params "
    "--inputs all.npz\n"
    "\nExit status: 0 it ran, 2 it did not; then nothing is written.\n",
    [] { return std::unique_ptr<Command>(new RunNetwork); }};

}  // namespace nodewise
