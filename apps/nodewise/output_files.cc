#include "apps/nodewise/output_files.h"

#include <filesystem>
#include <system_error>

#include "fmt/format.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

}  // namespace

absl::Status CheckFilePath(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  // Whether the folder may be written to shows when it is: permissions say
  // little for root, and a disk may be full by then.
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, error)) {
    return NotFound("{}: there is no folder {} to write to", path,
                    folder.string());
  }
  if (fs::is_directory(path, error)) {
    return InvalidArgument("{}: is a folder, expected a file to write", path);
  }
  return absl::OkStatus();
}

absl::Status CheckOutputPath(const std::string& path, size_t num_outputs) {
  if (path.empty()) return absl::OkStatus();
  const std::string extension = fs::path(path).extension();
  const bool holds_one = extension == ".npy" || extension == ".pb";
  if (extension != ".npz" && extension != ".params" && !holds_one) {
    return InvalidArgument(
        "{}: extension is \"{}\", expected .npz, .params, .npy or .pb", path,
        extension);
  }
  // How many outputs there are is only known when the network is loaded; before
  // that, this is asked with one.
  if (holds_one && num_outputs > 1) {
    return InvalidArgument(
        "{}: {} outputs do not go into a {} file, expected .npz or .params",
        path, num_outputs, extension);
  }
  return CheckFilePath(path);
}

// Until Commit() the old file stays as it is, so that a run which fails halfway
// leaves no half of a file.
absl::Status WriteWholeFile(const std::string& path, std::string_view content) {
  NODEWISE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  NODEWISE_RETURN_IF_ERROR(file.Write(content));
  return file.Commit();
}

absl::Status WriteAskedFile(const std::string& path, std::string_view content,
                            std::string_view key, Report* report) {
  NODEWISE_RETURN_IF_ERROR(WriteWholeFile(path, content));
  report->text += fmt::format("wrote {}\n", Printable(path));
  report->json.Add(key, path);
  return absl::OkStatus();
}

}  // namespace nodewise
