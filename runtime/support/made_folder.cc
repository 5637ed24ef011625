#include "nodewise/support/made_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  if (error) {
    return absl::UnavailableError(
        fmt::format("{}: cannot list the folder: {}", path, error.message()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

absl::StatusOr<MadeFolder> MadeFolder::Make(const std::string& path) {
  MadeFolder folder;
  folder.is_new_ = mkdir(path.c_str(), 0777) == 0;
  if (!folder.is_new_ && errno != EEXIST) {
    return SystemError(path, "cannot make the folder");
  }
  NODEWISE_ASSIGN_OR_RETURN(folder.before_, ListFolder(path));
  folder.path_ = path;
  return folder;
}

MadeFolder::MadeFolder(MadeFolder&& other) noexcept
    : path_(std::exchange(other.path_, "")),
      is_new_(other.is_new_),
      before_(std::move(other.before_)) {}

// The destructor cannot report that something could not be removed: a caller
// that destroys the folder has an error to report already.
MadeFolder::~MadeFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  const auto names = ListFolder(path_);
  if (names.ok()) {
    for (const std::string& name : *names) {
      if (std::binary_search(before_.begin(), before_.end(), name)) continue;
      fs::remove_all(fs::path(path_) / name, ignored);
    }
  }
  if (is_new_) fs::remove(path_, ignored);
}

}  // namespace nodewise
