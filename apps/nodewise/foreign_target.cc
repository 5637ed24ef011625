#include "apps/nodewise/foreign_target.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr std::string_view kOrt = "ort:";
constexpr std::string_view kExec = "exec:";
constexpr uint64_t kMostLimitS = 86'400;

bool IsOrt(const std::string& target) { return target.starts_with(kOrt); }

// Refuses options that are for adapters, or for onnxruntime's alone.
absl::Status CheckAdapterOptions(const ForeignOptions& options,
                                 const std::string& target) {
  const bool has_adapter = NamesProgram(target) && !target.starts_with(kExec);
  struct Given {
    bool is_given;
    const char* name;
    bool is_known;
  };
  const Given given[] = {
      {!options.python.empty(), "--python", has_adapter},
      {!options.runtime_options.empty(), "--runtime-option", has_adapter},
      {!options.ort_provider.empty(), "--ort-provider", IsOrt(target)},
      {!options.ort_level.empty(), "--ort-level", IsOrt(target)},
  };
  for (const auto& [is_given, name, is_known] : given) {
    if (!is_given || is_known) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}: means nothing for {}, expected ort:MODEL.onnx with it",
                    name, target));
  }
  return absl::OkStatus();
}

absl::Status CheckLevel(const ForeignOptions& options) {
  const std::vector<std::string> levels = OrtLevels();
  if (options.ort_level.empty() ||
      std::find(levels.begin(), levels.end(), options.ort_level) !=
          levels.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format(
      "--ort-level: found \"{}\", expected disabled, basic, extended or all{}",
      Printable(options.ort_level), DidYouMean(options.ort_level, levels)));
}

absl::Status CheckGiven(const ForeignOptions& options,
                        const std::string& target) {
  NODEWISE_RETURN_IF_ERROR(CheckAdapterOptions(options, target));
  if (!options.model.empty() && !target.starts_with(kExec)) {
    return absl::InvalidArgumentError(fmt::format(
        "--model: means nothing for {}, whose model stands behind the colon",
        target.substr(0, target.find(':') + 1)));
  }
  return CheckLevel(options);
}

// Options about a graph, or about what computes it, mean nothing here.
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
                   "of TARGET ort:MODEL.onnx and its like: the Python that has "
                   "the runtime ($NODEWISE_PYTHON, or python3)",
                   &foreign->python);
  options->AddText("--ort-provider", "NAME",
                   "of ort: the execution provider (CPU)",
                   &foreign->ort_provider);
  options->AddText("--ort-level", "LEVEL",
                   "of ort: its graph optimisations: disabled, basic, extended "
                   "or all (all)",
                   &foreign->ort_level);
  options->AddTexts("--runtime-option", "NAME=VALUE",
                    "of openvino: and its like: an option of the runtime; may "
                    "be given again (docs/adapters.md lists them)",
                    &foreign->runtime_options);
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
    options.runtime_options.clear();
    options.limit_s.reset();
  }
  NODEWISE_RETURN_IF_ERROR(CheckAdapterOptions(options, target));
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

ProgramSpec SpecOf(const ForeignOptions& options, const std::string& text) {
  ProgramSpec spec{text,
                   options.model,
                   options.python,
                   options.ort_provider,
                   options.ort_level,
                   options.runtime_options};
  if (options.limit_s.has_value()) {
    spec.limit_ms = static_cast<int64_t>(*options.limit_s) * 1000;
  }
  spec.most_at_once = options.at_once.value_or(0);
  return spec;
}

absl::StatusOr<ForeignTarget> ProgramNamed(const std::string& option,
                                           const std::string& text,
                                           const ForeignOptions& options) {
  if (text == "ort") NODEWISE_RETURN_IF_ERROR(CheckLevel(options));
  auto program = ProgramForParts(SpecOf(options, text));
  if (!program.ok()) return At(option, program.status());
  return program;
}

absl::StatusOr<TargetSpec> ForeignSpec(const LoadOptions& load,
                                       const ForeignOptions& foreign,
                                       const InputOptions& inputs) {
  const std::string& name = load.target.target;
  NODEWISE_RETURN_IF_ERROR(CheckGiven(foreign, name));
  NODEWISE_ASSIGN_OR_RETURN(ForeignTarget target,
                            ProgramWithModel(SpecOf(foreign, name)));
  NODEWISE_RETURN_IF_ERROR(CheckNoGraphOptions(load, name));
  LoadOptions model = load;
  model.target.target = target.model_file;
  NODEWISE_ASSIGN_OR_RETURN(TargetSpec spec, SpecOf(model, inputs));
  spec.program = ProgramOf(std::move(target));
  return spec;
}

absl::StatusOr<Session> LoadForeign(const LoadOptions& load,
                                    const ForeignOptions& foreign,
                                    const InputOptions& inputs,
                                    Report* report) {
  NODEWISE_ASSIGN_OR_RETURN(const TargetSpec spec,
                            ForeignSpec(load, foreign, inputs));
  DiagnosticList faults;
  auto opened = OpenTarget(spec, &faults);
  return Opened(std::move(opened), faults, report);
}

}  // namespace nodewise
