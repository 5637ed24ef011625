#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "nodewise/support/file.h"

namespace nodewise {

// Bytes put aside on the disk: a file without a name, which is gone with the
// process, however that ends. Move-only.
class SpoolFile {
 public:
  // The file lies beside `path`, where there is room for what goes there.
  // Errors name `path`.
  static absl::StatusOr<SpoolFile> Create(const std::string& path);

  SpoolFile(SpoolFile&& other) noexcept;
  SpoolFile& operator=(SpoolFile&&) = delete;
  ~SpoolFile();

  absl::Status Write(const void* data, size_t size);
  // Writes all of it to `to`, a piece at a time.
  absl::Status CopyTo(OutputFile* to) const;
  // Maps all that was written so far, which stays where it is.
  absl::StatusOr<MappedFile> Map() const;

 private:
  SpoolFile(std::string path, int descriptor);

  std::string path_;  // For messages.
  int descriptor_ = -1;
};

}  // namespace nodewise
