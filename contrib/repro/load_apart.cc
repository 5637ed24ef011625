#include <filesystem>
#include <string>
#include <system_error>

#include "fmt/format.h"
#include "nodewise/repro/repro_case.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/temporary.h"

namespace nodewise {

namespace fs = std::filesystem;

absl::StatusOr<Ref<Library>> LoadApart(const ArtefactFiles& files) {
  NODEWISE_ASSIGN_OR_RETURN(const TemporaryFolder folder,
                            TemporaryFolder::Create("nodewise_apart"));
  const fs::path copy =
      fs::path(folder.path()) / fs::path(files.library).filename();
  std::error_code error;
  if (!fs::copy_file(files.library, copy, error)) {
    return absl::UnavailableError(fmt::format(
        "{}: cannot be copied to a temporary folder: {} (set TMPDIR to a "
        "folder with room)",
        files.library, error.message()));
  }
  // The code stays mapped when its file is gone.
  ArtefactFiles apart = files;
  apart.library = copy.string();
  if (apart.target == files.library) apart.target = apart.library;
  NODEWISE_ASSIGN_OR_RETURN(const Artefact artefact, LoadArtefact(apart));
  return artefact.library;
}

}  // namespace nodewise
