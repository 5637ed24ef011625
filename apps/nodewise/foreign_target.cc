#include "apps/nodewise/foreign_target.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr std::string_view kOrt = "ort:";
constexpr std::string_view kExec = "exec:";
// A day, as for a node that runs in a process of its own.
constexpr uint64_t kMostLimitS = 86'400;

// Refuses options that are for adapters, or for onnxruntime's alone: a command
// of the user's own knows nothing of them.
absl::Status CheckAdapterOptions(const ForeignOptions& options,
                                 const std::string& target) {
  const bool lacks_adapter = !NamesProgram(target) || target.starts_with(kExec);
  const bool is_other = !target.starts_with(kOrt);
  return RefuseGiven(
      {{!options.python.empty() && lacks_adapter, "--python"},
       {!options.runtime_options.empty() && lacks_adapter, "--runtime-option"},
       {!options.ort_provider.empty() && is_other, "--ort-provider"},
       {!options.ort_level.empty() && is_other, "--ort-level"}},
      "",
      fmt::format(": means nothing for {}, expected ort:MODEL.onnx with it",
                  target));
}

// The library checks levels as well, and calls them by what they are in its own
// interface; here the option is named.
absl::Status CheckLevel(const ForeignOptions& options) {
  const std::vector<std::string> levels = OrtLevels();
  if (options.ort_level.empty() ||
      std::ranges::count(levels, options.ort_level) > 0) {
    return absl::OkStatus();
  }
  return BadValue("--ort-level", Printable(options.ort_level),
                  "disabled, basic, extended or all" +
                      DidYouMean(options.ort_level, levels));
}

absl::Status CheckGiven(const ForeignOptions& options,
                        const std::string& target) {
  NODEWISE_RETURN_IF_ERROR(CheckAdapterOptions(options, target));
  if (!options.model.empty() && !target.starts_with(kExec)) {
    return InvalidArgument(
        "--model: means nothing for {}, whose model stands behind the colon",
        target.substr(0, target.find(':') + 1));
  }
  return CheckLevel(options);
}

// Options about a graph, or about what computes it, mean nothing here.
absl::Status CheckNoGraphOptions(const LoadOptions& load,
                                 const std::string& target) {
  const LoweringOptions& lowering = load.lowering;
  GivenOptions given = GivenOptionsOf(load.target);
  given.insert(given.end(),
               {{lowering.reference, "--reference"},
                {!lowering.backend.empty(), "--backend"},
                {lowering.no_fuse, "--no-fuse"},
                {lowering.no_reuse, "--no-reuse"},
                {lowering.no_layouts, "--no-layouts"},
                {load.keeps_opaque && !load.model.opaque.empty(), "--opaque"}});
  return RefuseGiven(
      given, "",
      fmt::format(": means nothing for {}, which another program runs",
                  target));
}

}  // namespace

void AddForeignOptions(OptionList* options, ForeignOptions* foreign) {
  options->Add({
      {"--model", "FILE", "for TARGET exec:COMMAND: the ONNX model to run",
       &foreign->model},
      {"--python", "PROGRAM",
       "for TARGET ort:MODEL.onnx and its like: the Python that has the "
       "runtime ($NODEWISE_PYTHON, or python3)",
       &foreign->python},
      {"--ort-provider", "NAME", "for ort: the execution provider (CPU)",
       &foreign->ort_provider},
      {"--ort-level", "LEVEL",
       "for ort: its graph optimisations: disabled, basic, extended or all "
       "(all)",
       &foreign->ort_level},
      {"--runtime-option", "NAME=VALUE",
       "for openvino: and its like: an option of the runtime; may be given "
       "again (docs/adapters.md lists them)",
       &foreign->runtime_options},
      {"--foreign-limit", "S",
       "for ort: and exec: how many seconds one run of the program may take "
       "(600)",
       NumberOption{&foreign->limit_s, 1, kMostLimitS}},
  });
}

CommandOption ObservationOption(ForeignOptions* foreign) {
  return {"--at-once", "N",
          "for ort: and exec: how many values are asked for in one run of the "
          "program (all)",
          NumberOption{&foreign->at_once, 1}};
}

// All programs of a run share one Python and one limit. A second Python can be
// named in an exec: command.
void ShareWithOpaque(const ForeignOptions& options, ModelOptions* model) {
  model->opaque_python = options.python;
  model->opaque_limit_s = options.limit_s;
}

// ShareWithOpaque() has given its options to the program of --opaque, so that
// these have a meaning wherever there is one.
absl::Status CheckNoForeignOptions(const ForeignOptions& given,
                                   const LoadOptions& load) {
  ForeignOptions options = given;
  if (!load.model.opaque.empty()) {
    options.python.clear();
    options.runtime_options.clear();
    options.limit_s.reset();
  }
  const std::string& target = load.target.target;
  NODEWISE_RETURN_IF_ERROR(CheckAdapterOptions(options, target));
  return RefuseGiven({{!options.model.empty(), "--model"},
                      {options.limit_s.has_value(), "--foreign-limit"},
                      {options.at_once.has_value(), "--at-once"}},
                     "",
                     fmt::format(": means nothing for {}, expected "
                                 "exec:COMMAND or ort:MODEL.onnx with it",
                                 target));
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
  // 0 stands for all values in one run.
  spec.most_at_once = options.at_once.value_or(0);
  return spec;
}

absl::StatusOr<ForeignTarget> ProgramNamed(const std::string& option,
                                           const std::string& text,
                                           const ForeignOptions& options) {
  // Only onnxruntime has levels, so a level beside another program is refused
  // elsewhere.
  if (text == "ort") NODEWISE_RETURN_IF_ERROR(CheckLevel(options));
  auto program = ProgramForParts(SpecOf(options, text));
  if (!program.ok()) return At(option, program.status());
  return program;
}

// The model is read here as if it were TARGET itself: its inputs and its sizes
// are those of the model, whichever program runs it.
absl::StatusOr<TargetSpec> ForeignSpec(const LoadOptions& load,
                                       const ForeignOptions& foreign) {
  const std::string& name = load.target.target;
  NODEWISE_RETURN_IF_ERROR(CheckGiven(foreign, name));
  NODEWISE_ASSIGN_OR_RETURN(ForeignTarget target,
                            ProgramWithModel(SpecOf(foreign, name)));
  NODEWISE_RETURN_IF_ERROR(CheckNoGraphOptions(load, name));
  LoadOptions model = load;
  model.target.target = target.model_file;
  NODEWISE_ASSIGN_OR_RETURN(TargetSpec spec, SpecOf(model));
  spec.program = ProgramOf(std::move(target));
  return spec;
}

absl::StatusOr<Session> LoadForeign(const LoadOptions& load,
                                    const ForeignOptions& foreign,
                                    Report* report) {
  NODEWISE_ASSIGN_OR_RETURN(const TargetSpec spec, ForeignSpec(load, foreign));
  return OpenReported(spec, report);
}

}  // namespace nodewise
