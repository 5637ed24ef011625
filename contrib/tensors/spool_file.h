#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/file.h"

namespace nodewise {

// Bytes put aside on the disk: a file without a name, which is gone with the
// process, however that ends. Move-only.
class SpoolFile {
 public:
  // The file lies beside `path`, where there is room for what goes there.
  // Errors name `path`.
  static absl::StatusOr<SpoolFile> Create(const std::string& path);

  // The file lies in the folder for temporary files. Fails with kNotFound if
  // there is none.
  static absl::StatusOr<SpoolFile> CreateTemporary();

  SpoolFile(SpoolFile&& other) noexcept;
  SpoolFile& operator=(SpoolFile&&) = delete;
  ~SpoolFile();

  absl::Status Write(const void* data, size_t size);
  // Writes there instead of at the end.
  absl::Status WriteAt(size_t offset, const void* data, size_t size);
  // Writes all of it to `to`, a piece at a time.
  absl::Status CopyTo(OutputFile* to) const;
  // Returns a part that was written as a tensor, which stays where it is and is
  // read where it is looked at; it must not be written to. `owner` (may be
  // null) is kept for as long as the result lives. Fails with kDataLoss if the
  // file ends before the part, and as mapping it does. REQUIRES: `shape` and
  // `dtype` take `bytes`, which are not 0.
  absl::StatusOr<NDArray> Load(size_t offset, size_t bytes,
                               absl::Span<const int64_t> shape,
                               DLDataType dtype,
                               std::shared_ptr<void> owner) const;

 private:
  SpoolFile(std::string path, int descriptor);

  std::string path_;  // For messages.
  int descriptor_ = -1;
};

}  // namespace nodewise
