#include "apps/nodewise/output_path.h"

#include <filesystem>
#include <system_error>

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

}  // namespace

absl::Status CheckOutputPath(const std::string& path, size_t num_outputs) {
  if (path.empty()) return absl::OkStatus();
  const std::string extension = fs::path(path).extension();
  const bool holds_one = extension == ".npy" || extension == ".pb";
  if (extension != ".npz" && extension != ".params" && !holds_one) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: extension is \"{}\", expected .npz, .params, .npy or .pb", path,
        extension));
  }
  if (holds_one && num_outputs > 1) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: {} outputs do not go into a {} file, expected .npz or .params",
        path, num_outputs, extension));
  }
  return CheckFilePath(path);
}

absl::Status CheckFilePath(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, error)) {
    return absl::NotFoundError(fmt::format(
        "{}: there is no folder {} to write to", path, folder.string()));
  }
  if (fs::is_directory(path, error)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: is a folder, expected a file to write", path));
  }
  return absl::OkStatus();
}

}  // namespace nodewise
