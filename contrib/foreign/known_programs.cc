#include "nodewise/foreign/known_programs.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr std::string_view kOrt = "ort:";
constexpr std::string_view kExec = "exec:";
constexpr const char* kPythonVariable = "NODEWISE_PYTHON";
// Beside the folder that the program is in, in the build and where nodewise is
// installed.
constexpr const char* kAdapters = "../share/nodewise/adapters";
// For programs that use the libraries from elsewhere.
constexpr const char* kInstalledAdapters = NODEWISE_ADAPTERS;

absl::StatusOr<std::string> FindAdapter(const char* file) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  std::string path = (self.parent_path() / kAdapters / file).lexically_normal();
  const absl::Status status = CheckReadable(path);
  if (status.ok()) return path;
  std::string installed = fs::path(kInstalledAdapters) / file;
  if (CheckReadable(installed).ok()) return installed;
  return absl::NotFoundError(fmt::format(
      "{}, expected an adapter there (install nodewise with its share folder)",
      MessageOf(status)));
}

std::string PythonOf(const ProgramSpec& spec) {
  if (!spec.python.empty()) return spec.python;
  const char* const chosen = std::getenv(kPythonVariable);
  return chosen == nullptr || *chosen == '\0' ? "python3" : chosen;
}

// -I: the packages of this Python, and nothing of the folder that it is started
// in or of the user's environment.
absl::StatusOr<ForeignCommand> AdapterCommand(const ProgramSpec& spec,
                                              std::string name,
                                              const char* file) {
  NODEWISE_ASSIGN_OR_RETURN(std::string adapter, FindAdapter(file));
  return ForeignCommand{std::move(name),
                        {PythonOf(spec), "-I", std::move(adapter)}};
}

absl::StatusOr<ForeignCommand> OrtCommand(const ProgramSpec& spec) {
  const std::vector<std::string> levels = OrtLevels();
  if (!spec.level.empty() &&
      std::find(levels.begin(), levels.end(), spec.level) == levels.end()) {
    return absl::InvalidArgumentError(fmt::format(
        "level of onnxruntime: found \"{}\", expected one of {}{}",
        Printable(spec.level), ListOf(levels), DidYouMean(spec.level, levels)));
  }
  NODEWISE_ASSIGN_OR_RETURN(
      ForeignCommand command,
      AdapterCommand(spec, "onnxruntime", "onnxruntime_adapter.py"));
  const std::pair<const char*, const std::string&> chosen[] = {
      {"--provider", spec.provider}, {"--level", spec.level}};
  for (const auto& [name, value] : chosen) {
    if (value.empty()) continue;
    command.arguments.push_back(fmt::format("{}={}", name, value));
  }
  return command;
}

ForeignTarget TargetOf(const ProgramSpec& spec) {
  ForeignTarget target;
  target.name = spec.text;
  if (spec.limit_ms.has_value()) target.limits.time_ms = *spec.limit_ms;
  target.most_at_once = spec.most_at_once;
  return target;
}

}  // namespace

bool NamesProgram(std::string_view text) {
  return text.starts_with(kOrt) || text.starts_with(kExec);
}

std::vector<std::string> OrtLevels() {
  return {"disabled", "basic", "extended", "all"};
}

absl::StatusOr<ForeignTarget> ProgramWithModel(const ProgramSpec& spec) {
  ForeignTarget target = TargetOf(spec);
  target.takes_other_forms = true;
  if (spec.text.starts_with(kOrt)) {
    target.model_file = spec.text.substr(kOrt.size());
    if (target.model_file.empty()) {
      return absl::InvalidArgumentError(
          "ort:: has no model, expected ort:MODEL.onnx");
    }
    NODEWISE_ASSIGN_OR_RETURN(target.command, OrtCommand(spec));
    return target;
  }
  target.model_file = spec.model;
  if (spec.model.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: has no model, expected {} with it",
                    Printable(spec.text), NameOf(Way::kModelOfProgram)));
  }
  NODEWISE_ASSIGN_OR_RETURN(target.command,
                            ParseForeignCommand(spec.text.substr(
                                std::min(kExec.size(), spec.text.size()))));
  return target;
}

absl::StatusOr<ForeignTarget> ProgramForParts(const ProgramSpec& spec) {
  ForeignTarget target = TargetOf(spec);
  if (spec.text.starts_with(kExec)) {
    NODEWISE_ASSIGN_OR_RETURN(
        target.command, ParseForeignCommand(spec.text.substr(kExec.size())));
    return target;
  }
  if (spec.text == "onnx") {
    NODEWISE_ASSIGN_OR_RETURN(
        target.command,
        AdapterCommand(spec, "onnx", "onnx_evaluator_adapter.py"));
    return target;
  }
  if (spec.text != "ort") {
    return absl::InvalidArgumentError(
        fmt::format("found \"{}\", expected ort, onnx or exec:COMMAND",
                    Printable(spec.text)));
  }
  ProgramSpec ort = spec;
  if (ort.level.empty()) ort.level = "disabled";
  NODEWISE_ASSIGN_OR_RETURN(target.command, OrtCommand(ort));
  return target;
}

}  // namespace nodewise
