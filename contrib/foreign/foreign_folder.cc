#include "contrib/foreign/foreign_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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

// Opens a regular file in a folder; the caller closes it.
absl::StatusOr<int> OpenIn(int folder, const std::string& name,
                           uint64_t* size) {
  // O_NONBLOCK: a named pipe must be refused, not waited for.
  const int file = openat(folder, name.c_str(),
                          O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0 && errno == ELOOP) {
    return absl::DataLossError(
        fmt::format("{}: is a link, expected a regular file", name));
  }
  if (file < 0) return SystemError(name, "cannot open");
  struct stat status;
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(file);
    return absl::DataLossError(
        fmt::format("{}: is not a regular file, expected one", name));
  }
  *size = static_cast<uint64_t>(status.st_size);
  return file;
}

// Reads up to `size` bytes and closes the file; returns how many there were.
size_t ReadAndClose(int file, void* data, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t got =
        read(file, static_cast<char*>(data) + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  close(file);
  return done;
}

absl::Status Shrank(const std::string& name) {
  return absl::DataLossError(name + ": was cut while it was read");
}

}  // namespace

absl::StatusOr<ForeignFolder> ForeignFolder::Create() {
  NODEWISE_ASSIGN_OR_RETURN(TemporaryFolder made,
                            TemporaryFolder::Create("nodewise_foreign"));
  ForeignFolder folder(std::move(made));
  constexpr int kOpen = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  folder.opened_ = open(folder.path().c_str(), kOpen);
  if (folder.opened_ < 0 || mkdirat(folder.opened_, "outputs", 0700) != 0) {
    return SystemError(folder.outputs_path(), "cannot make a folder");
  }
  folder.outputs_ = openat(folder.opened_, "outputs", kOpen);
  if (folder.outputs_ < 0) {
    return SystemError(folder.outputs_path(), "cannot open");
  }
  return folder;
}

ForeignFolder::ForeignFolder(ForeignFolder&& other) noexcept
    : folder_(std::move(other.folder_)),
      opened_(std::exchange(other.opened_, -1)),
      outputs_(std::exchange(other.outputs_, -1)) {}

ForeignFolder::~ForeignFolder() {
  if (outputs_ >= 0) close(outputs_);
  if (opened_ >= 0) close(opened_);
}

absl::StatusOr<std::string> ForeignFolder::Write(const std::string& name,
                                                 const void* data,
                                                 size_t size) const {
  std::string path = this->path() + "/" + name;
  NODEWISE_ASSIGN_OR_RETURN(GrowingFile file, GrowingFile::Create(path));
  NODEWISE_RETURN_IF_ERROR(file.Write(data, size));
  NODEWISE_RETURN_IF_ERROR(file.Close());
  return path;
}

absl::StatusOr<std::string> ForeignFolder::WriteModel(
    const std::string& bytes, const UserModel* file) const {
  if (file == nullptr || file->external_files().empty()) {
    return Write("model.onnx", bytes.data(), bytes.size());
  }
  // A folder of its own, in which no file of ours has one of their names.
  const fs::path folder = fs::path(path()) / "model";
  const fs::path from = fs::path(file->path()).parent_path();
  std::error_code error;
  for (const std::string& name : file->external_files()) {
    fs::create_directories((folder / name).parent_path(), error);
    // Runtimes refuse links that lead out of the model's folder.
    fs::create_hard_link(from / name, folder / name, error);
    if (error) fs::copy_file(from / name, folder / name, error);
    if (error) {
      return absl::UnavailableError(
          fmt::format("{}: cannot be had beside a copy of its model: {}",
                      (from / name).string(), error.message()));
    }
  }
  std::string name = "model/model.onnx";
  while (file->external_files().contains(name.substr(6))) name += ".onnx";
  return Write(name, bytes.data(), bytes.size());
}

absl::StatusOr<std::string> ForeignFolder::Read(const std::string& name,
                                                size_t most_bytes) const {
  uint64_t size = 0;
  NODEWISE_ASSIGN_OR_RETURN(const int file, OpenIn(opened_, name, &size));
  if (size > most_bytes) {
    close(file);
    return absl::DataLossError(fmt::format(
        "{}: has {} bytes, expected {} at most", name, size, most_bytes));
  }
  std::string text(size, '\0');
  if (ReadAndClose(file, text.data(), size) != size) return Shrank(name);
  return text;
}

absl::StatusOr<NDArray> ForeignFolder::ReadOutput(
    const std::string& name, absl::Span<const int64_t> shape,
    DLDataType dtype) const {
  uint64_t size = 0;
  NODEWISE_ASSIGN_OR_RETURN(const int file, OpenIn(outputs_, name, &size));
  const size_t expected = *TensorBytes(shape, dtype);
  // Known before memory is taken: a file is smaller than what it may claim.
  if (size != expected) {
    close(file);
    return absl::DataLossError(
        fmt::format("{}: has {} bytes, expected {} for {}", name, size,
                    expected, TypeToString(shape, dtype)));
  }
  auto tensor = NDArray::Empty(shape, dtype, kCpu);
  if (!tensor.ok()) {
    close(file);
    return tensor;
  }
  if (ReadAndClose(file, tensor->data(), size) != size) return Shrank(name);
  return tensor;
}

}  // namespace nodewise
