#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace nodewise {

// A whole file, mapped read-only. Move-only; the bytes stay where they are
// until it is destroyed. Any thread may read. The file must not be truncated
// while it is mapped: reading the missing part raises SIGBUS.
class MappedFile {
 public:
  // Fails with kNotFound if there is no such file, kInvalidArgument if it is
  // not a regular file, kPermissionDenied if it cannot be read.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  absl::Span<const uint8_t> bytes() const { return {data_, size_}; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(data_), size_};
  }

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

// A file that appears under its name only when it is complete: it is written
// next to its place and renamed by Commit(). Without Commit() nothing is left.
// It has the mode of the file that it replaces. A link stays a link, and the
// file that it leads to is replaced; a device or a pipe, which cannot be
// replaced, is written to directly.
class OutputFile {
 public:
  static absl::StatusOr<OutputFile> Create(const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  // Writes are buffered. An error names the path and what the system said.
  absl::Status Write(const void* data, size_t size);
  absl::Status Write(std::string_view text) {
    return Write(text.data(), text.size());
  }
  absl::Status Commit();

 private:
  explicit OutputFile(const std::string& path) : path_(path), place_(path) {}
  absl::Status OpenInPlace();
  absl::Status OpenBeside(mode_t mode);
  bool is_in_place() const { return temporary_.empty(); }
  absl::Status Flush();
  absl::Status WriteOut(const char* data, size_t size);

  std::string path_;       // For messages.
  std::string place_;      // `path_` with links resolved.
  std::string temporary_;  // Renamed to `place_`.
  std::optional<mode_t> kept_mode_;
  int descriptor_ = -1;
  std::string buffer_;
};

// A new file that exists from the start and grows as it is written, so that a
// process that is killed leaves what it has written. Unbuffered, move-only.
class GrowingFile {
 public:
  // Fails with kAlreadyExists rather than touch an existing file.
  static absl::StatusOr<GrowingFile> Create(const std::string& path);

  GrowingFile() = default;
  GrowingFile(GrowingFile&& other) noexcept;
  GrowingFile& operator=(GrowingFile&& other) noexcept;
  ~GrowingFile();

  const std::string& path() const { return path_; }
  // An error names the path and what the system said; the bytes that fitted are
  // written.
  absl::Status Write(const void* data, size_t size);
  absl::Status Close();

 private:
  std::string path_;
  int descriptor_ = -1;
};

// Copies the file `path` from byte `offset` on into `to`, a piece at a time.
absl::Status AppendFile(const std::string& path, uint64_t offset,
                        OutputFile* to);

// Returns what errno says about `path`: "PATH: cannot open: No such file or
// directory".
absl::Status SystemError(const std::string& path, const char* doing);

// Returns OK if `path` can be opened for reading and is a regular file;
// otherwise fails as MappedFile::Open does.
absl::Status CheckReadable(const std::string& path);

}  // namespace nodewise
