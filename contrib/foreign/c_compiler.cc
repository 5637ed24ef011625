#include "nodewise/foreign/c_compiler.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <utility>

#include "fmt/format.h"
#include "nodewise/foreign/foreign_process.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// The name under which systems have their C compiler, whichever that is.
constexpr std::string_view kUsualCompiler = "cc";
constexpr std::string_view kTrivialSource =
    "#include <math.h>\n"
    "#include <stdint.h>\n"
    "#include <stdio.h>\n"
    "#include <stdlib.h>\n"
    "#include <string.h>\n"
    "double nodewise_trivial(double x) { return floor(x); }\n";

// Far more than a compiler takes for one of our files. They keep a broken one
// from filling the disk or never ending, and nothing else depends on them.
constexpr int64_t kLimitMs = 600'000;
constexpr uint64_t kMostPrintedBytes = 1 << 26;
constexpr uint64_t kMostFileBytes = uint64_t{1} << 32;
constexpr uint64_t kMostFolderBytes = uint64_t{1} << 36;
constexpr size_t kMostFolderFiles = 1 << 20;

// What compilers quote of the system, or say of a part of theirs that it has
// ended: none of it is about the source. A trivial file may still fit where a
// large one does not.
constexpr std::array<std::string_view, 10> kMachineWords = {
    "No space left on device",
    "Disk quota exceeded",
    "Cannot allocate memory",
    "out of memory",
    "virtual memory exhausted",
    "Read-only file system",
    "Input/output error",
    "Too many open files",
    "Resource temporarily unavailable",
    "Killed signal"};

bool IsMachineFailure(std::string_view message) {
  return std::ranges::any_of(kMachineWords, [&](std::string_view words) {
    return message.find(words) != message.npos;
  });
}

absl::Status MachineFailure(std::string_view what) {
  return Unavailable(
      "the C compiler does not work here: {} (set CC and TMPDIR)", what);
}

}  // namespace

CCompiler::CCompiler(ForeignCommand command, TemporaryFolder folder)
    : command_(std::move(command)), folder_(std::move(folder)) {}

absl::StatusOr<std::shared_ptr<const CCompiler>> CCompiler::Create(
    std::string_view command) {
  const char* const chosen = std::getenv("CC");
  if (command.empty() && chosen != nullptr) command = chosen;
  if (command.find_first_not_of(" \t") == command.npos) {
    command = kUsualCompiler;
  }
  NODEWISE_ASSIGN_OR_RETURN(ForeignCommand parsed,
                            ParseForeignCommand(command));
  auto folder = TemporaryFolder::Create("nodewise_autotest");
  if (!folder.ok()) return MachineFailure(MessageOf(folder.status()));
  const std::shared_ptr<const CCompiler> compiler(
      new CCompiler(std::move(parsed), *std::move(folder)));
  NODEWISE_RETURN_IF_ERROR(compiler->Try());
  return compiler;
}

absl::Status CCompiler::Try() const {
  const auto library = Run(kTrivialSource, "-O0");
  if (!library.ok()) return MachineFailure(MessageOf(library.status()));
  RemoveTree(library->c_str());
  return absl::OkStatus();
}

absl::StatusOr<std::string> CCompiler::Compile(
    std::string_view source, std::string_view optimisation) const {
  auto library = Run(source, optimisation);
  if (library.ok()) return library;
  const std::string_view message = MessageOf(library.status());
  if (IsMachineFailure(message)) return MachineFailure(message);
  // If the trivial file fails now as well, something has happened to the
  // machine since Create().
  NODEWISE_RETURN_IF_ERROR(Try());
  return absl::AbortedError(std::string(message));
}

absl::StatusOr<std::string> CCompiler::Run(
    std::string_view source, std::string_view optimisation) const {
  // Children that were forked count on from the same number, so that their
  // process is in the name as well.
  static std::atomic<int> count = 0;
  const std::string stem =
      fmt::format("{}/source_{}_{}", folder_.path(), getpid(), count++);
  const std::string file = stem + ".c";
  std::string library = stem + ".so";
  NODEWISE_ASSIGN_OR_RETURN(GrowingFile to, GrowingFile::Create(file));
  NODEWISE_RETURN_IF_ERROR(to.Write(source.data(), source.size()));
  NODEWISE_RETURN_IF_ERROR(to.Close());
  ForeignProcess process{
      Printable(command_.name), command_.arguments, kLimitMs,
      kMostPrintedBytes,        kMostFileBytes,     folder_.path(),
      kMostFolderBytes,         kMostFolderFiles};
  process.arguments.insert(process.arguments.end(),
                           {std::string(optimisation), "-shared", "-fPIC", file,
                            "-o", library, "-lm"});
  const absl::Status status = RunForeignProcess(process);
  RemoveTree(file.c_str());
  // Wrapper scripts may end with status 0 without having compiled anything.
  if (status.ok() && access(library.c_str(), R_OK) == 0) return library;
  RemoveTree(library.c_str());
  if (!status.ok()) return status;
  return Unavailable(
      "{}: ended with status 0 and made no library, expected one",
      process.name);
}

}  // namespace nodewise
