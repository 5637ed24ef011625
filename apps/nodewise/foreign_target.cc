#include "apps/nodewise/foreign_target.h"

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "apps/nodewise/opaque_text.h"
#include "apps/nodewise/target_text.h"
#include "fmt/format.h"
#include "nodewise/runner/input_collector.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr std::string_view kOrt = "ort:";
constexpr std::string_view kExec = "exec:";
constexpr uint64_t kMostLimitS = 86'400;
constexpr const char* kPythonVariable = "NODEWISE_PYTHON";
// Beside the folder that the program is in, in the build and where it is
// installed.
constexpr const char* kAdapters = "../share/nodewise/adapters";

bool IsOrt(const std::string& target) { return target.starts_with(kOrt); }

absl::StatusOr<std::string> FindAdapter(const char* file) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::string path = (self.parent_path() / kAdapters / file).lexically_normal();
  const absl::Status status = CheckReadable(path);
  if (status.ok()) return path;
  return absl::NotFoundError(fmt::format(
      "{}, expected an adapter there (install nodewise with its share folder)",
      MessageOf(status)));
}

std::string PythonOf(const ForeignOptions& options) {
  if (!options.python.empty()) return options.python;
  const char* const chosen = std::getenv(kPythonVariable);
  return chosen == nullptr || *chosen == '\0' ? "python3" : chosen;
}

absl::Status CheckOnlyOrt(const ForeignOptions& options,
                          const std::string& target) {
  const std::pair<bool, const char*> given[] = {
      {!options.python.empty(), "--python"},
      {!options.ort_provider.empty(), "--ort-provider"},
      {!options.ort_level.empty(), "--ort-level"},
  };
  for (const auto& [is_given, name] : given) {
    if (!is_given) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}: means nothing for {}, expected ort:MODEL.onnx with it",
                    name, target));
  }
  return absl::OkStatus();
}

absl::StatusOr<ForeignCommand> OrtCommand(const ForeignOptions& options) {
  NODEWISE_ASSIGN_OR_RETURN(std::string adapter,
                            FindAdapter("onnxruntime_adapter.py"));
  ForeignCommand command;
  command.name = "onnxruntime";
  // -I: the packages of this Python, and nothing of the folder that it is
  // started in or of the user's environment.
  command.arguments = {PythonOf(options), "-I", std::move(adapter)};
  const std::pair<const char*, const std::string&> chosen[] = {
      {"--provider", options.ort_provider}, {"--level", options.ort_level}};
  for (const auto& [name, value] : chosen) {
    if (value.empty()) continue;
    command.arguments.push_back(fmt::format("{}={}", name, value));
  }
  return command;
}

// The evaluator of ONNX's own Python package.
absl::StatusOr<ForeignCommand> EvaluatorCommand(const ForeignOptions& options) {
  NODEWISE_ASSIGN_OR_RETURN(std::string adapter,
                            FindAdapter("onnx_evaluator_adapter.py"));
  ForeignCommand command;
  command.name = "onnx";
  command.arguments = {PythonOf(options), "-I", std::move(adapter)};
  return command;
}

absl::Status CheckOrtOptions(const ForeignOptions& options) {
  const std::vector<std::string> levels = {"disabled", "basic", "extended",
                                           "all"};
  if (!options.model.empty()) {
    return absl::InvalidArgumentError(
        "--model: means nothing for ort:, whose model stands behind the colon");
  }
  for (const std::string& level : levels) {
    if (options.ort_level.empty() || options.ort_level == level) {
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(fmt::format(
      "--ort-level: found \"{}\", expected disabled, basic, extended or all{}",
      Printable(options.ort_level), DidYouMean(options.ort_level, levels)));
}

// Sets the command, and the path of the model.
absl::Status ReadTarget(const std::string& target,
                        const ForeignOptions& options, ForeignTarget* foreign) {
  foreign->name = target;
  if (IsOrt(target)) {
    NODEWISE_RETURN_IF_ERROR(CheckOrtOptions(options));
    foreign->model_file = target.substr(kOrt.size());
    if (foreign->model_file.empty()) {
      return absl::InvalidArgumentError(
          "ort:: has no model, expected ort:MODEL.onnx");
    }
    NODEWISE_ASSIGN_OR_RETURN(foreign->command, OrtCommand(options));
    return absl::OkStatus();
  }
  NODEWISE_RETURN_IF_ERROR(CheckOnlyOrt(options, target));
  foreign->model_file = options.model;
  if (options.model.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: has no model, expected --model FILE with it", target));
  }
  NODEWISE_ASSIGN_OR_RETURN(foreign->command,
                            ParseForeignCommand(target.substr(kExec.size())));
  return absl::OkStatus();
}

void SetLimits(const ForeignOptions& options, ForeignTarget* target) {
  if (!options.limit_s.has_value()) return;
  target->limits.time_ms = static_cast<int64_t>(*options.limit_s) * 1000;
}

// What is about a graph, or what computes it, means nothing here.
absl::Status CheckNoGraphOptions(const LoadOptions& load,
                                 const std::string& target) {
  const TargetOptions& files = load.target;
  const LoweringOptions& lowering = load.lowering;
  const std::pair<bool, const char*> given[] = {
      {!files.library.empty(), "--lib"},
      {!files.params.empty(), "--params"},
      {!files.devices.empty(), "--device"},
      {!files.function.empty(), "--function"},
      {lowering.reference, "--reference"},
      {!lowering.backend.empty(), "--backend"},
      {lowering.no_fuse, "--no-fuse"},
      {lowering.no_reuse, "--no-reuse"},
      {lowering.no_layouts, "--no-layouts"},
      {load.keeps_opaque && !load.model.opaque.empty(), "--opaque"},
  };
  for (const auto& [is_given, name] : given) {
    if (!is_given) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}: means nothing for {}, which another program runs", name, target));
  }
  return absl::OkStatus();
}

}  // namespace

void AddForeignOptions(OptionList* options, ForeignOptions* foreign) {
  options->AddText("--model", "FILE",
                   "of TARGET exec:COMMAND: the ONNX model to run",
                   &foreign->model);
  options->AddText("--python", "PROGRAM",
                   "of TARGET ort:MODEL.onnx: the Python that has onnxruntime "
                   "($NODEWISE_PYTHON, "
                   "or python3)",
                   &foreign->python);
  options->AddText("--ort-provider", "NAME",
                   "of ort: the execution provider (CPU)",
                   &foreign->ort_provider);
  options->AddText("--ort-level", "LEVEL",
                   "of ort: its graph optimisations: disabled, basic, extended "
                   "or all (all)",
                   &foreign->ort_level);
  options->AddNumber(
      "--foreign-limit", "S",
      "of ort: and exec: how many seconds one run of the program "
      "may take (600)",
      {&foreign->limit_s, 1, kMostLimitS});
}

void AddObservationOption(OptionList* options, ForeignOptions* foreign) {
  options->AddNumber("--at-once", "N",
                     "of ort: and exec: how many values are asked for in one "
                     "run of the program (all)",
                     {&foreign->at_once, 1});
}

bool IsForeign(const std::string& target) {
  return IsOrt(target) || target.starts_with(kExec);
}

void ShareWithOpaque(const ForeignOptions& options, ModelOptions* model) {
  model->opaque_python = options.python;
  model->opaque_limit_s = options.limit_s;
}

absl::Status CheckNoForeignOptions(const ForeignOptions& given_options,
                                   const std::string& target,
                                   const ModelOptions& model) {
  ForeignOptions options = given_options;
  if (!model.opaque.empty()) {
    options.python.clear();
    options.limit_s.reset();
  }
  NODEWISE_RETURN_IF_ERROR(CheckOnlyOrt(options, target));
  const std::pair<bool, const char*> given[] = {
      {!options.model.empty(), "--model"},
      {options.limit_s.has_value(), "--foreign-limit"},
      {options.at_once.has_value(), "--at-once"},
  };
  for (const auto& [is_given, name] : given) {
    if (!is_given) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}: means nothing for {}, expected exec:COMMAND or ort:MODEL.onnx "
        "with it",
        name, target));
  }
  return absl::OkStatus();
}

absl::StatusOr<ForeignTarget> ProgramNamed(const std::string& option,
                                           const std::string& text,
                                           const ForeignOptions& options) {
  ForeignTarget target;
  target.name = text;
  SetLimits(options, &target);
  if (text.starts_with(kExec)) {
    NODEWISE_ASSIGN_OR_RETURN(target.command,
                              ParseForeignCommand(text.substr(kExec.size())));
    return target;
  }
  if (text == "onnx") {
    NODEWISE_ASSIGN_OR_RETURN(target.command, EvaluatorCommand(options));
    return target;
  }
  if (text != "ort") {
    return absl::InvalidArgumentError(
        fmt::format("{}: found \"{}\", expected ort, onnx or exec:COMMAND",
                    option, Printable(text)));
  }
  ForeignOptions ort = options;
  ort.model.clear();
  if (ort.ort_level.empty()) ort.ort_level = "disabled";
  NODEWISE_RETURN_IF_ERROR(CheckOrtOptions(ort));
  NODEWISE_ASSIGN_OR_RETURN(target.command, OrtCommand(ort));
  return target;
}

absl::StatusOr<LoadedForeign> LoadForeign(const LoadOptions& load,
                                          const ForeignOptions& foreign,
                                          const InputOptions& inputs,
                                          Outcome* outcome) {
  const std::string& name = load.target.target;
  LoadedForeign loaded;
  NODEWISE_RETURN_IF_ERROR(ReadTarget(name, foreign, &loaded.target));
  NODEWISE_RETURN_IF_ERROR(CheckNoGraphOptions(load, name));
  SetLimits(foreign, &loaded.target);
  loaded.target.most_at_once = foreign.at_once.value_or(0);
  LoadOptions model = load;
  model.target.target = loaded.target.model_file;
  NODEWISE_ASSIGN_OR_RETURN(const TargetSpec spec, SpecOf(model, inputs));
  InputFiles input_files;
  DiagnosticList faults;
  auto opened = OpenNetwork(spec, &input_files, &faults);
  NODEWISE_ASSIGN_OR_RETURN(const Session read,
                            Opened(std::move(opened), faults, outcome));
  if (read.network == nullptr) return loaded;
  loaded.target.network = read.network;
  // The file says nothing of what was changed since it was read.
  const bool is_changed =
      !load.model.freeze.empty() || !load.precision.precision.empty() ||
      (!read.opaque->operators.empty() && read.opaque->program.empty());
  loaded.opaque = read.opaque;
  if (is_changed) loaded.target.model_file.clear();
  loaded.list = ListInputs(*loaded.target.network);
  DiagnosticList diagnostics;
  loaded.inputs =
      CollectInputs(spec.inputs, *loaded.list, input_files, &diagnostics);
  if (diagnostics.HasErrors()) outcome->AddErrors(diagnostics);
  return loaded;
}

void ShowForeign(const LoadedForeign& loaded, const InputOptions& options,
                 Outcome* outcome) {
  const Network& network = *loaded.target.network;
  outcome->text += fmt::format("{}: {}, {}\n", Printable(loaded.target.name),
                               CountOf(network.order().size(), "operation"),
                               CountOf(network.outputs().size(), "output"));
  outcome->json.BeginObject("target");
  outcome->json.Add("foreign", loaded.target.name);
  outcome->json.Add("command", loaded.target.command.arguments);
  outcome->json.EndObject();
  ShowOpaque(*loaded.opaque, outcome);
  ShowInputs(*loaded.list, loaded.inputs, options, outcome);
}

}  // namespace nodewise
