#include "contrib/tensors/spool_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/temporary.h"

namespace nodewise {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

}  // namespace

absl::StatusOr<SpoolFile> SpoolFile::Create(const std::string& path) {
  // A file that has no name leaves none behind, however the process ends.
  const std::string folder = std::filesystem::path(path).parent_path();
  const int nameless = open(folder.empty() ? "." : folder.c_str(),
                            O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (nameless >= 0) return SpoolFile(path, nameless);
  // Not every file system has such files.
  std::string name = path + ".XXXXXX";
  const int descriptor = mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) return SystemError(path, "cannot create beside it");
  unlink(name.c_str());
  return SpoolFile(path, descriptor);
}

absl::StatusOr<SpoolFile> SpoolFile::CreateTemporary() {
  NODEWISE_ASSIGN_OR_RETURN(const std::string folder, TemporaryRoot());
  return Create(folder + "/nodewise_tensors");
}

SpoolFile::SpoolFile(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

SpoolFile::SpoolFile(SpoolFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

SpoolFile::~SpoolFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status SpoolFile::Write(const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = write(descriptor_, at, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError(path_, "cannot write beside it");
    at += written;
    size -= static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

absl::Status SpoolFile::WriteAt(size_t offset, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written =
        pwrite(descriptor_, at, size, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError(path_, "cannot write beside it");
    at += written;
    offset += static_cast<size_t>(written);
    size -= static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

absl::Status SpoolFile::CopyTo(OutputFile* to) const {
  std::string piece(kPieceBytes, '\0');
  off_t offset = 0;
  while (true) {
    const ssize_t size = pread(descriptor_, piece.data(), piece.size(), offset);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return SystemError(path_, "cannot read beside it");
    if (size == 0) return absl::OkStatus();
    NODEWISE_RETURN_IF_ERROR(
        to->Write(piece.data(), static_cast<size_t>(size)));
    offset += size;
  }
}

absl::StatusOr<NDArray> SpoolFile::Load(size_t offset, size_t bytes,
                                        absl::Span<const int64_t> shape,
                                        DLDataType dtype,
                                        std::shared_ptr<void> owner) const {
  struct stat status;
  if (fstat(descriptor_, &status) != 0) return SystemError(path_, "cannot map");
  if (static_cast<size_t>(status.st_size) < offset + bytes) {
    return absl::DataLossError(
        fmt::format("{}: the file beside it has {} bytes, expected {} at least",
                    path_, status.st_size, offset + bytes));
  }
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t before = offset % page;
  void* const data = mmap(nullptr, before + bytes, PROT_READ, MAP_PRIVATE,
                          descriptor_, static_cast<off_t>(offset - before));
  if (data == MAP_FAILED) return SystemError(path_, "cannot map");
  DLTensor tensor{};
  tensor.data = static_cast<char*>(data) + before;
  tensor.device = kCpu;
  tensor.ndim = static_cast<int32_t>(shape.size());
  tensor.dtype = dtype;
  tensor.shape = const_cast<int64_t*>(shape.data());
  const std::shared_ptr<void> mapping(
      data, [size = before + bytes, owner = std::move(owner)](void* mapped) {
        munmap(mapped, size);
      });
  NDArray loaded = NDArray::Borrow(tensor, mapping);
  loaded.MakeReadOnly();
  return loaded;
}

}  // namespace nodewise
