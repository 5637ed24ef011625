// Glow's network debugger: its flags and lines, over DiagnoseLayers().

#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/network-debugger/flags.h"
#include "apps/network-debugger/input_files.h"
#include "apps/network-debugger/layer_log.h"
#include "fmt/format.h"
#include "nodewise/diagnose/diagnose.h"
#include "nodewise/emit_c/emit_c.h"
#include "nodewise/foreign/foreign_runner.h"
#include "nodewise/graph/finding.h"
#include "nodewise/locate/layer_comparator.h"
#include "nodewise/locate/node_check.h"
#include "nodewise/module/module.h"
#include "nodewise/ops/ops.h"
#include "nodewise/precision/precision.h"
#include "nodewise/runner/network_runner.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/file.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/status.h"
#include "nodewise/support/temporary.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

extern char** environ;

namespace nodewise {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExec = "exec:";
// Beside the folder that the program is in, in the build and where it is
// installed.
constexpr const char* kAdapters = "../share/nodewise/adapters";

struct AdapterRow {
  const char* backend;
  const char* name;
  const char* file;
};
constexpr AdapterRow kAdapterRows[] = {
    {"ort", "onnxruntime", "onnxruntime_adapter.py"},
    {"onnx", "onnx", "onnx_evaluator_adapter.py"},
};

// Returns the command of a backend that is a program; none if it is not one.
absl::StatusOr<std::optional<ForeignCommand>> ProgramOf(
    const DebuggerFlags& flags) {
  std::string_view name = flags.backend;
  if (name.starts_with(kExec)) {
    NODEWISE_ASSIGN_OR_RETURN(ForeignCommand command,
                              ParseForeignCommand(name.substr(kExec.size())));
    return std::optional(std::move(command));
  }
  if (name.ends_with(':')) name.remove_suffix(1);
  for (const AdapterRow& row : kAdapterRows) {
    if (name != row.backend) continue;
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    const std::string path =
        (self.parent_path() / kAdapters / row.file).lexically_normal();
    NODEWISE_RETURN_IF_ERROR(CheckReadable(path));
    const char* const chosen = std::getenv("NODEWISE_PYTHON");
    std::string python = flags.python;
    if (python.empty()) python = chosen == nullptr ? "python3" : chosen;
    // -I: the packages of this Python, and nothing of the folder that it is
    // started in.
    return std::optional(ForeignCommand{row.name, {python, "-I", path}});
  }
  return std::optional<ForeignCommand>();
}

// A folder for the compiler that is gone with the object.
class WorkFolder {
 public:
  WorkFolder() {
    std::error_code error;
    fs::path pattern = fs::temp_directory_path(error);
    if (error) pattern = "/tmp";
    path_ = (pattern / "network-debugger.XXXXXX").string();
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~WorkFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Runs a program without a shell, and waits for it. What it says goes to our
// own stderr, beside the message here.
absl::Status RunCompiler(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_t child = 0;
  int status = posix_spawnp(&child, pointers[0], nullptr, nullptr,
                            pointers.data(), environ);
  if (status != 0) {
    return Unavailable("-compiler: {} cannot be started: {}", arguments[0],
                       std::strerror(status));
  }
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return Unavailable(
      "-compiler: {} failed, expected a library of the C that was emitted",
      arguments[0]);
}

// Compiles the functions of the module's graph, which names them from then on.
// The folder is gone when this returns, and the library stays mapped.
absl::StatusOr<LayerBackend> CompileC(const DebuggerFlags& flags,
                                      LayerModule* mod) {
  NODEWISE_ASSIGN_OR_RETURN(EmittedC emitted,
                            EmitC(mod->graph, AllOperators()));
  const WorkFolder folder;
  if (folder.path().empty()) {
    return Unavailable("-backend=c: no temporary folder can be made");
  }
  const std::string source = folder.path() + "/layers.c";
  const std::string library = folder.path() + "/layers.so";
  NODEWISE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(source));
  NODEWISE_RETURN_IF_ERROR(file.Write(emitted.source));
  NODEWISE_RETURN_IF_ERROR(file.Commit());
  const auto words = ParseForeignCommand(flags.compiler);
  if (!words.ok()) return At("-compiler", words.status());
  std::vector<std::string> arguments = words->arguments;
  arguments.insert(arguments.end(),
                   {"-shared", "-fPIC", source, "-o", library, "-lm"});
  NODEWISE_RETURN_IF_ERROR(RunCompiler(std::move(arguments)));
  NODEWISE_ASSIGN_OR_RETURN(Ref<Module> module, LoadModule(library));
  mod->graph = std::move(emitted.graph);
  return LayerBackend("c", LibraryOf(std::move(module)));
}

// A backend, and the network as it is compiled for both sides.
struct OpenedBackend {
  LayerModule mod;
  LayerBackend backend;
};

// Opens what -backend names: one of LayerBackendNames(), "c", which is compiled
// here, "ort" and "onnx", which adapters run, or "exec:COMMAND". Fails with
// kNotFound for another name, with kUnimplemented for operations that there is
// no C for, and with kUnavailable if they cannot be compiled.
absl::StatusOr<OpenedBackend> OpenBackend(const DebuggerFlags& flags,
                                          const Network& network,
                                          std::vector<ImportedCall> calls) {
  NODEWISE_ASSIGN_OR_RETURN(auto program, ProgramOf(flags));
  const bool is_c = flags.backend == "c";
  // Only kernels of this build know layouts that no model has.
  const Backend layouts =
      program.has_value() || is_c ? Backend::kReference : Backend::kFastest;
  NODEWISE_ASSIGN_OR_RETURN(LayerModule mod,
                            MakeLayerModule(network, flags.model, flags.fuse,
                                            layouts, std::move(calls)));
  if (program.has_value()) {
    return OpenedBackend{std::move(mod),
                         LayerBackend(flags.backend, *std::move(program))};
  }
  if (!is_c) return OpenedBackend{std::move(mod), LayerBackend(flags.backend)};
  NODEWISE_ASSIGN_OR_RETURN(LayerBackend backend, CompileC(flags, &mod));
  return OpenedBackend{std::move(mod), std::move(backend)};
}

constexpr double kBytesPerMiB = 1 << 20;
// The last line names so many broken layers, and counts the others; each has
// had lines of its own before.
constexpr size_t kNamedLayers = 8;

// Glow's flags have no such thing: the other command does.
constexpr std::pair<Way, std::string_view> kCommands[] = {
    {Way::kDims, "nodewise convert --dim"},
    {Way::kFreeze, "nodewise convert --freeze"},
    {Way::kInputs, "nodewise convert --inputs FILE"},
    {Way::kOpaqueProgram, "nodewise locate --opaque ort"},
    {Way::kSanitizer, "nodewise run --sanitize"},
    {Way::kMoreTime, "nodewise locate --node-timeout"},
    {Way::kNodeByNode, "nodewise locate"},
    {Way::kModelBeside, "nodewise locate --reference MODEL.onnx"},
};

std::string_view CommandFor(Way way) {
  for (const auto& [known, command] : kCommands) {
    if (known == way) return command;
  }
  return "";
}

// Errors of the model, all of them, one a line.
absl::Status AllOf(const DiagnosticList& diagnostics,
                   const absl::Status& first) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics.items()) {
    text += (text.empty() ? "" : "\n") + diagnostic.ToString();
  }
  return text.empty() ? first : WithMessage(first, text);
}

// Reads the model and all samples, and converts the model to what both backends
// are to run.
absl::StatusOr<OpenedBackend> Load(const DebuggerFlags& flags,
                                   std::vector<SampleInputs>* samples) {
  DiagnosticList diagnostics;
  ImportOptions import;
  import.glow = {flags.fused_fp16, flags.sls_fp16};
  std::vector<ImportedCall> calls;
  import.calls = &calls;
  auto network = LoadModelFile(flags.model, import, &diagnostics);
  if (!network.ok()) return AllOf(diagnostics, network.status());
  NODEWISE_ASSIGN_OR_RETURN(*samples, ReadSamples(flags.inputs, *network));
  // Layers are compiled for fixed sizes.
  BindSizes((*samples)[0].inputs, &*network);
  if (flags.fp16) {
    PrecisionOptions options;
    options.precision = Precision::kFloat16;
    options.clip = flags.clip_fp16;
    NODEWISE_ASSIGN_OR_RETURN(const PrecisionReport report,
                              LowerPrecision(options, *network));
    LogLine(fmt::format("converted to float16: {}",
                        CountOf(report.changes.size(), "operation")));
  } else if (flags.clip_fp16) {
    LogLine(
        "-glow_clip_fp16: nothing is converted to float16, so there is "
        "nothing to clip (-glow_global_fp16)");
  }
  return OpenBackend(flags, *network, std::move(calls));
}

// Glow's own threshold knows neither the size of numbers nor how many were
// summed up, and calls healthy networks wrong. Any other threshold is the
// user's choice, and is obeyed.
bool JudgesByBounds(const DebuggerFlags& flags) {
  return flags.threshold == kGlowThreshold;
}

// Both backends get the one module, so that their layers are the same.
LayerQuestion QuestionOf(const DebuggerFlags& flags,
                         const OpenedBackend& opened) {
  LayerQuestion question{opened.mod, opened.backend};
  if (!JudgesByBounds(flags)) {
    question.rule = {Rule::Kind::kAbsolute, {.absolute = flags.threshold}};
  }
  question.is_recursive = flags.is_recursive;
  question.all_alone = flags.all_alone;
  return question;
}

// Glow prints no summary; these lines come behind all that it prints.
void LogResult(const DebuggerFlags& flags, const Answer& answer) {
  const LayerCost& cost = *answer.evidence.cost;
  const LocateResult& located = *answer.evidence.located;
  LogLine(fmt::format(
      "{} comparator: {} in {:.2f} s, at most {:.1f} MiB of memory (VmHWM less "
      "what was resident before)",
      flags.is_recursive ? "Recursive" : "Intermediate",
      CountOf(located.nodes.size(), "layer"), cost.seconds,
      static_cast<double>(cost.peak_bytes) / kBytesPerMiB));
  std::vector<std::string> names;
  for (const Culprit& culprit : located.culprits) {
    const NodeReport& layer = located.nodes[culprit.report];
    if (!EndsRuns(layer.verdict)) {
      names.push_back(layer.key);
      continue;
    }
    LogLine(fmt::format("{} {}: {}", Printable(layer.key),
                        NameOf(layer.verdict), layer.reason));
  }
  const size_t inherits = located.CountOf(NodeVerdict::kInherits);
  const size_t unclear = located.CountOf(NodeVerdict::kInconclusive);
  if (names.empty() && inherits + unclear == 0) return;
  LogLine(fmt::format("{} broken{}{}, {} inherit, {} inconclusive",
                      names.size(), names.empty() ? "" : ": ",
                      names.empty() ? "" : ListOf(names, kNamedLayers),
                      inherits, unclear));
}

// Whether the layers match by the rule.
bool DoMatch(const DebuggerFlags& flags, const Answer& answer) {
  const LocateResult& located = *answer.evidence.located;
  // Rounding errors add up from layer to layer, so that results drift apart
  // where no layer is wrong.
  if (JudgesByBounds(flags) && answer.culprits.empty()) return true;
  return located.CountOf(NodeVerdict::kHealthy) == located.nodes.size();
}

// Returns whether all layers match on all samples. The network is compiled
// once, for the sizes of the first sample.
absl::StatusOr<bool> CompareAll(const DebuggerFlags& flags) {
  LogLine(
      fmt::format("Comparing the {} backend against the Interpreter "
                  "(reference backend)",
                  Printable(flags.backend)));
  std::vector<SampleInputs> samples;
  NODEWISE_ASSIGN_OR_RETURN(const OpenedBackend opened, Load(flags, &samples));
  LayerQuestion question = QuestionOf(flags, opened);
  bool all_match = true;
  for (size_t i = 0; i < samples.size(); ++i) {
    std::string folder = flags.dump_tensors ? flags.dump_dir : "";
    if (samples.size() > 1) {
      LogLine("Inputs: " + Printable(samples[i].from));
      // No sample's files are in the place of another's.
      if (!folder.empty()) folder += fmt::format("/sample_{}", i + 1);
    }
    LayerLog log(std::move(folder), JudgesByBounds(flags)
                                        ? std::nullopt
                                        : std::optional(flags.threshold));
    question.observer = &log;
    NODEWISE_ASSIGN_OR_RETURN(const Answer answer,
                              DiagnoseLayers(question, samples[i].inputs));
    LogResult(flags, answer);
    const bool match = DoMatch(flags, answer);
    if (match) {
      NODEWISE_RETURN_IF_ERROR(
          At(samples[i].from, CheckGivenNumbers(samples[i].inputs)));
    }
    all_match &= match;
  }
  return all_match;
}

// Memory may run out anywhere, also in the libraries that we call.
absl::StatusOr<bool> Compare(const DebuggerFlags& flags) {
  try {
    auto match = CompareAll(flags);
    const auto shortage = FirstShortage();
    if (match.ok() && shortage.has_value()) return *shortage;
    return match;
  } catch (...) {
    return StatusOfHandled(flags.model);
  }
}

// The exit status is 0 if all layers match, 1 if some do not and 2 where that
// could not be found out.
int Main(const std::vector<std::string>& arguments) {
  const auto flags = ParseFlags(arguments);
  if (flags.ok() && flags->wants_help) {
    const std::string help = FlagsHelp();
    return std::fwrite(help.data(), 1, help.size(), stdout) == help.size() ? 0
                                                                           : 2;
  }
  const auto match =
      flags.ok() ? Compare(*flags) : absl::StatusOr<bool>(flags.status());
  for (const Finding& finding : TakeFloatFindings()) {
    LogLine("warning: " + Printable(finding.ToString()));
  }
  if (!match.ok()) {
    std::fputs(fmt::format("network-debugger: {}\n",
                           std::string(MessageOf(match.status())))
                   .c_str(),
               stderr);
    return 2;
  }
  LogLine(*match ? "All layers match with no errors" : "Errors found!");
  return *match ? 0 : 1;
}

}  // namespace
}  // namespace nodewise

int main(int argc, char** argv) {
  const nodewise::DefaultFloatEnvironment floats;
  nodewise::SetNamesOfWays(&nodewise::CommandFor);
  nodewise::CleanUpOnSignals();
  nodewise::EndWithStatus("network-debugger", 2);
  return nodewise::Main({argv + std::min(argc, 1), argv + argc});
}
