#include "nodewise/support/path_kind.h"

#include <sys/stat.h>

#include <cerrno>

#include "nodewise/support/file.h"

namespace nodewise {

absl::StatusOr<PathKind> KindOfPath(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return PathKind::kNothing;
    return SystemError(path, "cannot look at it");
  }
  if (S_ISREG(status.st_mode)) return PathKind::kFile;
  return S_ISDIR(status.st_mode) ? PathKind::kFolder : PathKind::kOther;
}

absl::StatusOr<uint64_t> SizeOfFile(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) {
    return SystemError(path, "cannot look at it");
  }
  return static_cast<uint64_t>(status.st_size);
}

}  // namespace nodewise
