#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/support/temporary.h"

namespace nodewise {

// Owns an open descriptor, and closes it. Move-only.
class OpenDescriptor {
 public:
  explicit OpenDescriptor(int number = -1) : number_(number) {}
  OpenDescriptor(OpenDescriptor&& other) noexcept
      : number_(std::exchange(other.number_, -1)) {}
  OpenDescriptor& operator=(OpenDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~OpenDescriptor() { Close(); }

  // Returns the number, below 0 if there is none.
  int get() const { return number_; }
  // Returns false if the system says that something was not written.
  bool Close();

 private:
  int number_;
};

// A whole file, mapped read-only. Move-only; the bytes stay where they are
// until it is destroyed. Any thread may read. The file must not be truncated
// while it is mapped: reading the missing part raises SIGBUS.
class MappedFile {
 public:
  // Fails with kNotFound if there is no such file, kInvalidArgument if it is
  // not a regular file, kPermissionDenied if it cannot be read.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  absl::Span<const uint8_t> bytes() const {
    return {data_.get(), data_ == nullptr ? 0 : data_.get_deleter().size};
  }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(data_.get()), bytes().size()};
  }

 private:
  struct Unmap {
    void operator()(const uint8_t* data) const;
    size_t size;
  };
  std::unique_ptr<const uint8_t, Unmap> data_;
};

// A file that appears under its name only when it is complete: it is written
// next to its place and renamed by Commit(). Without Commit() nothing is left.
// It has the mode of the file that it replaces. A link stays a link, and the
// file that it leads to is replaced; a device or a pipe, which cannot be
// replaced, is written to directly.
class OutputFile {
 public:
  static absl::StatusOr<OutputFile> Create(const std::string& path);

  OutputFile(OutputFile&& other) noexcept = default;
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

  std::string path_;       // For messages.
  std::string place_;      // `path_` with links resolved.
  std::string temporary_;  // Renamed to `place_`.
  LeftBehind unfinished_;  // A signal must not leave `temporary_`.
  std::optional<mode_t> kept_mode_;
  OpenDescriptor descriptor_;
  std::string buffer_;
};

// A new file that exists from the start and grows as it is written, so that a
// process that is killed leaves what it has written. Unbuffered, move-only.
class GrowingFile {
 public:
  // Fails with kAlreadyExists rather than touch an existing file.
  static absl::StatusOr<GrowingFile> Create(const std::string& path);

  const std::string& path() const { return path_; }
  // An error names the path and what the system said; the bytes that fitted are
  // written.
  absl::Status Write(const void* data, size_t size);
  absl::Status Close();

 private:
  std::string path_;
  OpenDescriptor descriptor_;
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

// Files whose names are ours, in folders that others may write to as well. An
// OutputFile follows a link under its name, as a user who gives that name wants
// it; another user's link under a name of ours would have a file written over
// that neither of us has named.

// Makes a file in place of anything that stands at `path`, which is neither
// followed nor written to. `write` gets a path beside it, with its extension,
// makes a complete file there, and may use an OutputFile for that. A regular
// file's mode is kept. Returns the error of `write`, which speaks of `path`
// then. Any thread may call.
absl::Status ReplaceFile(
    const std::string& path,
    absl::FunctionRef<absl::Status(const std::string& beside)> write);
absl::Status ReplaceFile(const std::string& path, std::string_view text);

// Returns whether a file's name is one that files have until they are complete:
// a process that was killed has left it, or another one is writing it.
bool IsPartName(std::string_view name);

// Waits until what was written to a file is on the disk.
absl::Status SyncFile(const std::string& path);
// Does so for an open file; `path` is for the message. What cannot be synced,
// such as a pipe, is left as it is.
absl::Status SyncDescriptor(int descriptor, const std::string& path);

enum class PathKind { kNothing, kFile, kFolder, kOther };

// Returns what lies at a path, links followed. A place that cannot be looked at
// is an error, and not one where nothing is: a file that is missed for a fault
// of the disk would make another result.
absl::StatusOr<PathKind> KindOfPath(const std::string& path);

// Returns the names in a folder, in order, since the order in which a file
// system lists names is not the one of the next machine.
absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& path);
// Returns the names in a folder of /proc that are numbers, until an error;
// names that are none come out as 0.
std::vector<int> NumbersInFolder(const std::string& path,
                                 std::error_code* error);

// Returns how many bytes a file has.
absl::StatusOr<uint64_t> SizeOfFile(const std::string& path);

// A folder whose files belong together: unless Keep() is called, what has come
// into it since is removed again, and the folder, too, if it was made here.
// What lay there before stays. Move-only.
class MadeFolder {
 public:
  // Makes the folder if there is none; its parent must exist. Fails with what
  // the system says if it cannot be made or listed.
  static absl::StatusOr<MadeFolder> Make(const std::string& path);

  MadeFolder(MadeFolder&& other) noexcept;
  MadeFolder& operator=(MadeFolder&&) = delete;
  ~MadeFolder();

  void Keep() { path_.clear(); }

 private:
  MadeFolder() = default;

  std::string path_;  // Empty: nothing is to be removed.
  bool is_new_ = false;
  std::vector<std::string> before_;  // The names in it, in order.
};

}  // namespace nodewise
