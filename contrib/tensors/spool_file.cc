#include "contrib/tensors/spool_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "nodewise/support/status.h"
#include "nodewise/support/temporary.h"

namespace nodewise {
namespace {

// How much CopyTo() copies at once: enough for the calls not to count, and
// little beside the tensors themselves.
constexpr size_t kPieceBytes = size_t{1} << 20;

// Calls write_some(at, size, done) until all is written: the system may write
// less than it was asked for, and a signal may come between.
template <typename F>
absl::Status WriteAll(const std::string& path, const void* data, size_t size,
                      F write_some) {
  const char* const from = static_cast<const char*>(data);
  for (size_t done = 0; done < size;) {
    const ssize_t written = write_some(from + done, size - done, done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError(path, "cannot write beside it");
    done += static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SpoolFile> SpoolFile::Create(const std::string& path) {
  // A file that has no name leaves none behind, however the process ends.
  const std::string folder = std::filesystem::path(path).parent_path();
  const int nameless = open(folder.empty() ? "." : folder.c_str(),
                            O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (nameless >= 0) return SpoolFile(path, nameless);
  // Not every file system has files without names.
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
  return WriteAll(path_, data, size,
                  [this](const char* at, size_t left, size_t) {
                    return write(descriptor_, at, left);
                  });
}

absl::Status SpoolFile::WriteAt(size_t offset, const void* data, size_t size) {
  return WriteAll(
      path_, data, size, [&](const char* at, size_t left, size_t done) {
        return pwrite(descriptor_, at, left, static_cast<off_t>(offset + done));
      });
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
  // Touching a mapped page behind the end of a file ends the process with
  // SIGBUS, and the disk may have been full when the part was written.
  struct stat status;
  if (fstat(descriptor_, &status) != 0) return SystemError(path_, "cannot map");
  if (static_cast<size_t>(status.st_size) < offset + bytes) {
    return DataLoss("{}: the file beside it has {} bytes, expected {} at least",
                    path_, status.st_size, offset + bytes);
  }
  // A mapping begins at a page, so what stands before the part on its page is
  // mapped as well. Only the pages that are read take memory, and the system
  // can drop them again.
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
