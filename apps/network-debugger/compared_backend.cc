#include "apps/network-debugger/compared_backend.h"

#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "nodewise/emit_c/emit_c.h"
#include "nodewise/foreign/foreign_runner.h"
#include "nodewise/locate/layer_comparator.h"
#include "nodewise/module/module.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"

extern char** environ;

namespace nodewise {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExec = "exec:";
// A path from the program's folder, which holds in the build and where the
// program is installed.
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

// The module's graph names the compiled functions from then on. The library
// stays mapped when the folder is gone.
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

}  // namespace

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

}  // namespace nodewise
