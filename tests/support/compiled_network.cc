#include "tests/support/compiled_network.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "nodewise/emit_c/emit_c.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// The library gets its name when it is complete, so that several processes may
// make it at once.
absl::Status CompileTo(const std::string& source, const std::string& library) {
  const std::string stem = fmt::format("{}.{}", library, getpid());
  std::ofstream(stem + ".c") << source;
  const std::string command =
      fmt::format("cc -O2 -shared -fPIC '{0}.c' -o '{0}.so' -lm", stem);
  const bool is_compiled = std::system(command.c_str()) == 0;
  std::error_code error;
  std::filesystem::remove(stem + ".c", error);
  if (!is_compiled) {
    return absl::InternalError(
        fmt::format("{}: has failed, expected a library", command));
  }
  std::filesystem::rename(stem + ".so", library, error);
  if (!error) return absl::OkStatus();
  return absl::InternalError(
      fmt::format("{}: cannot be written: {}", library, error.message()));
}

}  // namespace

absl::StatusOr<CompiledNetwork> CompileNetwork(const Graph& graph,
                                               const OpSet& ops,
                                               const std::string& folder) {
  NODEWISE_ASSIGN_OR_RETURN(EmittedC emitted, EmitC(graph, ops));
  const std::string library =
      fmt::format("{}/functions_{:016x}.so", folder,
                  HashBytes(emitted.source.data(), emitted.source.size()));
  if (!std::filesystem::exists(library)) {
    NODEWISE_RETURN_IF_ERROR(CompileTo(emitted.source, library));
  }
  NODEWISE_ASSIGN_OR_RETURN(Ref<Module> module, LoadModule(library));
  return CompiledNetwork{std::move(emitted.graph),
                         LibraryOf(std::move(module))};
}

}  // namespace nodewise
