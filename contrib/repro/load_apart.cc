#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "fmt/format.h"
#include "nodewise/repro/repro_case.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

// A folder that is gone with it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code error;
    std::string path =
        (fs::temp_directory_path(error) / "nodewise_XXXXXX").string();
    if (mkdtemp(path.data()) != nullptr) path_ = path;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }

  const fs::path& path() const { return path_; }  // Empty if there is none.

 private:
  fs::path path_;
};

}  // namespace

absl::StatusOr<Ref<Library>> LoadApart(const ArtefactFiles& files) {
  const TemporaryFolder folder;
  const fs::path copy = folder.path() / fs::path(files.library).filename();
  std::error_code error;
  const bool is_copied =
      !folder.path().empty() && fs::copy_file(files.library, copy, error);
  if (!is_copied) {
    return absl::UnavailableError(
        fmt::format("{}: cannot be copied to a temporary folder{}{}",
                    files.library, error ? ": " : "", error.message()));
  }
  // The code stays mapped when its file is gone.
  ArtefactFiles apart = files;
  apart.library = copy.string();
  if (apart.target == files.library) apart.target = apart.library;
  NODEWISE_ASSIGN_OR_RETURN(const Artefact artefact, LoadArtefact(apart));
  return artefact.library;
}

}  // namespace nodewise
