#include "nodewise/artefact/artefact_folder.h"

#include <filesystem>
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

// Another user of the folder may have put a link there, to have a file of ours
// written over.
absl::Status CheckOurs(const fs::directory_entry& entry) {
  std::error_code error;
  const fs::file_status status = entry.symlink_status(error);
  if (!error && status.type() == fs::file_type::regular)
    return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{}: is {}, expected a file that convert left there, or none",
      entry.path().string(),
      status.type() == fs::file_type::symlink ? "a link"
                                              : "not a regular file"));
}

// A folder that holds something else would afterwards be another artefact than
// the one that was meant; so would one with a library of functions that are not
// the graph's. Files left by a process that was killed do no harm.
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
    if (IsPartName(name)) continue;
    if (name == kGraphFile || name == kParamsFile ||
        (has_source && name == kSourceFile)) {
      NODEWISE_RETURN_IF_ERROR(CheckOurs(*at));
      continue;
    }
    return absl::InvalidArgumentError(fmt::format(
        "{}: holds {}, expected an empty folder, or what convert left there",
        folder, name));
  }
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("{}: cannot list the folder: {}", folder, error.message()));
}

// The graph comes last: a folder with a graph is complete.
absl::Status WriteFiles(const fs::path& path, const ArtefactTexts& texts,
                        const Params& params) {
  if (!texts.source.empty()) {
    NODEWISE_RETURN_IF_ERROR(ReplaceFile(path / kSourceFile, texts.source));
  }
  NODEWISE_RETURN_IF_ERROR(
      ReplaceFile(path / kParamsFile, [&](const std::string& beside) {
        return WriteParams(beside, params.tensors);
      }));
  return ReplaceFile(path / kGraphFile, texts.graph);
}

}  // namespace

absl::Status WriteArtefactFolder(const std::string& folder,
                                 const ArtefactTexts& texts,
                                 const Params& params) {
  NODEWISE_ASSIGN_OR_RETURN(MadeFolder made, MadeFolder::Make(folder));
  NODEWISE_RETURN_IF_ERROR(Prepare(folder, !texts.source.empty()));
  const absl::Status status = WriteFiles(folder, texts, params);
  if (status.ok()) {
    made.Keep();
  } else if (!absl::IsInvalidArgument(status)) {
    // Parameters beside the graph of another network would be worse than none.
    std::error_code ignored;
    fs::remove(fs::path(folder) / kGraphFile, ignored);
  }
  return status;
}

}  // namespace nodewise
