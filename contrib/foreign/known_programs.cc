#include "nodewise/foreign/known_programs.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Splits a command; the rules are in the header. None if a quote or a \ has no
// end.
std::optional<std::vector<std::string>> SplitCommand(std::string_view text) {
  std::vector<std::string> words;
  // A pair of quotes makes a word, also one without characters.
  std::optional<std::string> word;
  char quote = '\0';
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool is_last = i + 1 == text.size();
    if (quote == '\0' && (c == ' ' || c == '\t')) {
      if (word.has_value()) words.push_back(*std::exchange(word, {}));
      continue;
    }
    if (!word.has_value()) word.emplace();
    const bool is_escape =
        c == '\\' &&
        (quote == '\0' || (quote == '"' && !is_last &&
                           (text[i + 1] == '"' || text[i + 1] == '\\')));
    if (is_escape) {
      if (is_last) return std::nullopt;
      *word += text[++i];
    } else if (c == quote) {
      quote = '\0';
    } else if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
    } else {
      *word += c;
    }
  }
  if (quote != '\0') return std::nullopt;
  if (word.has_value()) words.push_back(*std::move(word));
  return words;
}

// A runtime that an adapter of ours runs models in. A row is all that a further
// runtime needs here; what differs between runtimes is in the adapters.
struct KnownProgram {
  std::string_view prefix;  // What a TARGET begins with, before a colon.
  const char* name;         // What messages call it.
  const char* adapter;
};

constexpr KnownProgram kPrograms[] = {
    {"ort", "onnxruntime", "onnxruntime_adapter.py"},
    {"openvino", "OpenVINO", "openvino_adapter.py"},
    {"litert", "LiteRT", "litert_adapter.py"},
    {"ncnn", "ncnn", "ncnn_adapter.py"},
    {"iree", "IREE", "iree_adapter.py"},
    {"torch", "PyTorch", "torch_adapter.py"},
    {"tensorrt", "TensorRT", "tensorrt_adapter.py"},
    {"coreml", "Core ML", "coreml_adapter.py"},
};
constexpr std::string_view kOrt = "ort";
constexpr std::string_view kExec = "exec:";

const KnownProgram* FindProgram(std::string_view prefix) {
  const auto found =
      std::ranges::find(kPrograms, prefix, &KnownProgram::prefix);
  return found == std::end(kPrograms) ? nullptr : &*found;
}

// The program of a text such as "ort:model.onnx"; null if it names none.
const KnownProgram* ProgramIn(std::string_view text) {
  const size_t colon = text.find(':');
  return colon == std::string_view::npos ? nullptr
                                         : FindProgram(text.substr(0, colon));
}

// An environment variable, so that tests and scripts need not pass the option
// through every command.
constexpr const char* kPythonVariable = "NODEWISE_PYTHON";
// Beside the folder that the program is in, in the build and where nodewise is
// installed.
constexpr const char* kAdapters = "../share/nodewise/adapters";
// For programs that use the libraries from elsewhere.
constexpr const char* kInstalledAdapters = NODEWISE_ADAPTERS;

// The packages of a runtime are often in an environment of their own, so users
// can name its Python.
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
  NODEWISE_ASSIGN_OR_RETURN(std::string adapter, AdapterFile(file));
  ForeignCommand command{std::move(name),
                         {PythonOf(spec), "-I", std::move(adapter)}};
  for (const std::string& option : spec.options) {
    // An adapter reads options as --NAME=VALUE.
    if (option.find('=') == std::string::npos || option.starts_with('-')) {
      return InvalidArgument("{}: found \"{}\", expected NAME=VALUE",
                             NameOf(Way::kRuntimeOption), Printable(option));
    }
    command.arguments.push_back("--" + option);
  }
  return command;
}

absl::StatusOr<ForeignCommand> CommandOf(const KnownProgram& program,
                                         const ProgramSpec& spec) {
  const std::vector<std::string> levels = OrtLevels();
  if (!spec.level.empty() &&
      std::ranges::find(levels, spec.level) == levels.end()) {
    return InvalidArgument(
        "level of onnxruntime: found \"{}\", expected one of {}{}",
        Printable(spec.level), ListOf(levels), DidYouMean(spec.level, levels));
  }
  NODEWISE_ASSIGN_OR_RETURN(
      ForeignCommand command,
      AdapterCommand(spec, program.name, program.adapter));
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
absl::StatusOr<ForeignCommand> ParseForeignCommand(std::string_view text) {
  auto words = SplitCommand(text);
  if (!words.has_value()) {
    return InvalidArgument(
        "command {}: ends within quotes or after a backslash, expected their "
        "end",
        Printable(text));
  }
  ForeignCommand command;
  command.arguments = *std::move(words);
  if (command.arguments.empty() || command.arguments[0].empty()) {
    return InvalidArgument("command \"{}\": has no program, expected one",
                           Printable(text));
  }
  command.name =
      std::filesystem::path(command.arguments[0]).filename().string();
  return command;
}

absl::StatusOr<std::string> AdapterFile(const char* name) {
  namespace fs = std::filesystem;
  std::error_code error;
  // The build and an installation have the same folders, so that both find
  // their own adapters and never those of the other.
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  std::string path = (self.parent_path() / kAdapters / name).lexically_normal();
  const absl::Status status = CheckReadable(path);
  if (status.ok()) return path;
  std::string installed = fs::path(kInstalledAdapters) / name;
  if (CheckReadable(installed).ok()) return installed;
  return NotFound(
      "{}, expected an adapter there (install nodewise with its share folder)",
      MessageOf(status));
}

bool NamesProgram(std::string_view text) {
  return ProgramIn(text) != nullptr || text.starts_with(kExec);
}

std::string PartsProgramOf(std::string_view target) {
  const KnownProgram* const known = ProgramIn(target);
  return std::string(known == nullptr ? target : known->prefix);
}

std::vector<std::string> KnownPrograms() {
  std::vector<std::string> names;
  for (const KnownProgram& each : kPrograms) names.emplace_back(each.prefix);
  return names;
}

std::vector<std::string> OrtLevels() {
  return {"disabled", "basic", "extended", "all"};
}

absl::StatusOr<ForeignTarget> ProgramWithModel(const ProgramSpec& spec) {
  ForeignTarget target = TargetOf(spec);
  // Runtimes are free in the form of a model's outputs, and a user compares
  // numbers.
  target.takes_other_forms = true;
  if (const KnownProgram* const known = ProgramIn(spec.text)) {
    target.model_file = spec.text.substr(known->prefix.size() + 1);
    if (target.model_file.empty()) {
      return InvalidArgument("{0}:: has no model, expected {0}:MODEL.onnx",
                             known->prefix);
    }
    NODEWISE_ASSIGN_OR_RETURN(target.command, CommandOf(*known, spec));
    return target;
  }
  target.model_file = spec.model;
  if (spec.model.empty()) {
    return InvalidArgument("{}: has no model, expected {} with it",
                           Printable(spec.text), NameOf(Way::kModelOfProgram));
  }
  NODEWISE_ASSIGN_OR_RETURN(target.command,
                            ParseForeignCommand(spec.text.substr(
                                std::min(kExec.size(), spec.text.size()))));
  return target;
}

absl::StatusOr<ForeignTarget> ProgramForParts(const ProgramSpec& spec) {
  ForeignTarget target = TargetOf(spec);
  if (spec.text.starts_with(kExec) || spec.text == "onnx") {
    NODEWISE_ASSIGN_OR_RETURN(
        target.command,
        spec.text == "onnx"
            ? AdapterCommand(spec, "onnx", "onnx_evaluator_adapter.py")
            : ParseForeignCommand(spec.text.substr(kExec.size())));
    return target;
  }
  const KnownProgram* const known = FindProgram(spec.text);
  if (known == nullptr) {
    return InvalidArgument("found \"{}\", expected {}, onnx or exec:COMMAND",
                           Printable(spec.text),
                           fmt::join(KnownPrograms(), ", "));
  }
  // A part is compared with what the same operations gave before: a runtime
  // that rewrites it would compute something else.
  ProgramSpec parts = spec;
  if (parts.level.empty() && known->prefix == kOrt) parts.level = "disabled";
  NODEWISE_ASSIGN_OR_RETURN(target.command, CommandOf(*known, parts));
  return target;
}

}  // namespace nodewise
