#include "apps/nodewise/artefact_folder.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "fmt/format.h"
#include "nodewise/graph/params.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGraphFile = "graph.json";
constexpr const char* kParamsFile = "params.params";
constexpr const char* kSourceFile = "lib.c";

// One that holds something else would be another artefact afterwards than the
// one that was meant: so would one with a library of functions that are not the
// graph's.
absl::Status Prepare(const std::string& folder, bool has_source) {
  std::error_code error;
  fs::create_directory(folder, error);
  if (error) {
    return absl::UnavailableError(
        fmt::format("{}: cannot make the folder: {}", folder, error.message()));
  }
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name == kGraphFile || name == kParamsFile) continue;
    if (has_source && name == kSourceFile) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}: holds {}, expected an empty folder, or what convert left there",
        folder, name));
  }
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("{}: cannot list the folder: {}", folder, error.message()));
}

absl::Status WriteText(const fs::path& path, std::string_view text) {
  NODEWISE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  NODEWISE_RETURN_IF_ERROR(file.Write(text));
  return file.Commit();
}

}  // namespace

// The graph comes last: a folder with a graph is complete.
absl::Status WriteArtefactFolder(const std::string& folder,
                                 const ArtefactTexts& texts,
                                 const Params& params) {
  const bool has_source = !texts.source.empty();
  NODEWISE_RETURN_IF_ERROR(Prepare(folder, has_source));
  const fs::path path = folder;
  if (has_source) {
    NODEWISE_RETURN_IF_ERROR(WriteText(path / kSourceFile, texts.source));
  }
  NODEWISE_RETURN_IF_ERROR(WriteParams(path / kParamsFile, params.tensors));
  return WriteText(path / kGraphFile, texts.graph);
}

}  // namespace nodewise
