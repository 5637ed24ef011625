#include "contrib/tensors/spool_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

}  // namespace

absl::StatusOr<SpoolFile> SpoolFile::Create(const std::string& path) {
  std::string name = path + ".XXXXXX";
  const int descriptor = mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) return SystemError(path, "cannot create beside it");
  unlink(name.c_str());
  return SpoolFile(path, descriptor);
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

// It has no name of its own, but the system has one for what is open.
absl::StatusOr<MappedFile> SpoolFile::Map() const {
  return MappedFile::Open(fmt::format("/proc/self/fd/{}", descriptor_));
}

}  // namespace nodewise
