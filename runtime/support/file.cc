#include "nodewise/support/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/status.h"
#include "nodewise/support/temporary.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

// Records are written field by field; these small writes are gathered.
constexpr size_t kBufferBytes = 1 << 18;

absl::StatusOr<OpenDescriptor> OpenRegular(const std::string& path,
                                           size_t* size = nullptr) {
  // O_NONBLOCK: a named pipe must be refused, not waited for.
  OpenDescriptor descriptor(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.get() < 0) return SystemError(path, "cannot open");
  struct stat status;
  if (fstat(descriptor.get(), &status) != 0) {
    return SystemError(path, "cannot stat");
  }
  if (!S_ISREG(status.st_mode)) {
    return InvalidArgument(
        "{}: is {}, expected a regular file", path,
        S_ISDIR(status.st_mode) ? "a directory" : "not a regular file");
  }
  if (size != nullptr) *size = static_cast<size_t>(status.st_size);
  return descriptor;
}

// When a file may grow no more, the system returns an error, but also sends a
// signal that ends an unprepared process: the error is enough.
class NoFileSizeSignal {
 public:
  NoFileSizeSignal() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  NoFileSizeSignal(const NoFileSizeSignal&) = delete;
  NoFileSizeSignal& operator=(const NoFileSizeSignal&) = delete;
  ~NoFileSizeSignal() {
    // A thread that blocks the signal keeps it pending.
    if (sigismember(&before_, SIGXFSZ) != 0) return;
    constexpr timespec kNoTime{};
    while (came_ && sigtimedwait(&signal_, nullptr, &kNoTime) < 0 &&
           errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  void MarkReceived() { came_ = true; }

 private:
  sigset_t signal_, before_;
  bool came_ = false;
};

// A write may take a part only, and may be interrupted by a signal that
// something else handles.
absl::Status WriteAll(const OpenDescriptor& descriptor, const std::string& path,
                      const char* data, size_t size) {
  if (size == 0) return absl::OkStatus();
  NoFileSizeSignal no_signal;
  while (size > 0) {
    const ssize_t written = write(descriptor.get(), data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      if (errno == EFBIG) no_signal.MarkReceived();
      return SystemError(path, "cannot write");
    }
    data += written;
    size -= static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

// What a file is called until it is complete: IsPartName() knows the form.
constexpr std::string_view kPart = ".part";
constexpr size_t kLongestStem = 150;  // Names may have 255 bytes.

// The name cannot be guessed, so that no link stands under it beforehand.
std::string PathBeside(const std::filesystem::path& path) {
  uint64_t number = 0;
  if (getrandom(&number, sizeof(number), 0) !=
      static_cast<ssize_t>(sizeof(number))) {
    number = static_cast<uint64_t>(getpid());
  }
  return path.parent_path() /
         fmt::format("{}.{}_{}{}{}",
                     path.stem().string().substr(0, kLongestStem), getpid(),
                     number, kPart, path.extension().string());
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  if (error) {
    return Unavailable("{}: cannot list the folder: {}", path, error.message());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<int> NumbersInFolder(const std::string& path,
                                 std::error_code* error) {
  std::vector<int> numbers;
  for (fs::directory_iterator at(path, *error), end; !*error && at != end;
       at.increment(*error)) {
    numbers.push_back(std::atoi(at->path().filename().c_str()));
  }
  return numbers;
}

// A path through what is not a folder leads nowhere, too.
absl::StatusOr<PathKind> KindOfPath(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return PathKind::kNothing;
    return SystemError(path, "cannot look at it");
  }
  if (S_ISREG(status.st_mode)) return PathKind::kFile;
  return S_ISDIR(status.st_mode) ? PathKind::kFolder : PathKind::kOther;
}

absl::StatusOr<uint64_t> SizeOfFile(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) {
    return SystemError(path, "cannot look at it");
  }
  return static_cast<uint64_t>(status.st_size);
}

// The code says what a caller can do: another name, other rights, more room on
// the disk, or try again.
absl::Status SystemError(const std::string& path, const char* doing) {
  const int error = errno;
  const std::string text =
      fmt::format("{}: {}: {}", path, doing, std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(text);
  if (error == EEXIST) return absl::AlreadyExistsError(text);
  if (error == EACCES || error == EPERM || error == EROFS) {
    return absl::PermissionDeniedError(text);
  }
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return absl::ResourceExhaustedError(text);
  }
  return absl::UnavailableError(text);
}

bool OpenDescriptor::Close() {
  return number_ < 0 || close(std::exchange(number_, -1)) == 0;
}

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  MappedFile file;
  size_t size = 0;
  NODEWISE_ASSIGN_OR_RETURN(const OpenDescriptor descriptor,
                            OpenRegular(path, &size));
  // mmap refuses an empty file; it is still a file.
  if (size == 0) return file;
  // The mapping outlives the descriptor.
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
  if (data == MAP_FAILED) return SystemError(path, "cannot map");
  file.data_ = {static_cast<const uint8_t*>(data), Unmap{size}};
  return file;
}

void MappedFile::Unmap::operator()(const uint8_t* data) const {
  munmap(const_cast<uint8_t*>(data), size);
}

// A link leads to the file that the user means, so a new file must not take the
// place of the link.
absl::StatusOr<OutputFile> OutputFile::Create(const std::string& path) {
  OutputFile file(path);
  mode_t mode = 0666;
  struct stat status;
  if (stat(path.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode)) {
      NODEWISE_RETURN_IF_ERROR(file.OpenInPlace());
      return file;
    }
    mode = status.st_mode & 0777;
    std::error_code error;
    file.place_ = std::filesystem::canonical(path, error);
    if (error) return SystemError(path, "cannot follow");
    file.kept_mode_ = mode;
  } else if (lstat(path.c_str(), &status) == 0) {
    return NotFound(
        "{}: cannot create: it is a link to a file that is not there", path);
  }
  NODEWISE_RETURN_IF_ERROR(file.OpenBeside(mode));
  return file;
}

// O_NOCTTY: a terminal must not become that of the process.
absl::Status OutputFile::OpenInPlace() {
  // O_NONBLOCK: a pipe without a reader is refused, not waited for.
  descriptor_ = OpenDescriptor(
      open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  const int number = descriptor_.get();
  if (number < 0) return SystemError(path_, "cannot write");
  fcntl(number, F_SETFL, fcntl(number, F_GETFL) & ~O_NONBLOCK);
  return absl::OkStatus();
}

// Chooses a name that shows where the file belongs and is not too long.
absl::Status OutputFile::OpenBeside(mode_t mode) {
  static std::atomic<unsigned> count = 0;
  const std::filesystem::path place(place_);
  const std::string begin = place.filename().string().substr(0, 200);
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  while (true) {
    const std::string name =
        fmt::format("{}.{}_{}.part", begin, getpid(), count++);
    temporary_ = place.parent_path() / name;
    // A signal right behind open() must find the file registered.
    unfinished_ = LeftBehind::Path(temporary_);
    descriptor_ = OpenDescriptor(open(temporary_.c_str(), flags, mode));
    if (descriptor_.get() >= 0) return absl::OkStatus();
    const int error = errno;
    // What stands there is another's, and not to be removed.
    unfinished_.Forget();
    errno = error;
    if (errno != EEXIST) return SystemError(path_, "cannot create");
  }
}

OutputFile::~OutputFile() {
  if (descriptor_.get() < 0) return;
  descriptor_.Close();
  if (!is_in_place()) unlink(temporary_.c_str());
}

absl::Status OutputFile::Write(const void* data, size_t size) {
  const char* bytes = static_cast<const char*>(data);
  if (buffer_.size() + size > kBufferBytes) NODEWISE_RETURN_IF_ERROR(Flush());
  if (size > kBufferBytes) return WriteAll(descriptor_, path_, bytes, size);
  buffer_.append(bytes, size);
  return absl::OkStatus();
}

absl::Status OutputFile::Flush() {
  NODEWISE_RETURN_IF_ERROR(
      WriteAll(descriptor_, path_, buffer_.data(), buffer_.size()));
  buffer_.clear();
  return absl::OkStatus();
}

// Until the name is given the old file, if there is one, stays as it is.
absl::Status OutputFile::Commit() {
  NODEWISE_RETURN_IF_ERROR(Flush());
  // A new file's mode comes from the process's mask.
  if (kept_mode_.has_value()) fchmod(descriptor_.get(), *kept_mode_);
  // A name in the file system may come to the disk before the contents do:
  // after a crash of the machine it would be that of an empty file.
  absl::Status status = SyncDescriptor(descriptor_.get(), path_);
  if (!descriptor_.Close() ||
      (status.ok() && !is_in_place() &&
       rename(temporary_.c_str(), place_.c_str()) != 0)) {
    status.Update(SystemError(path_, "cannot write"));
  }
  if (!is_in_place() && !status.ok()) unlink(temporary_.c_str());
  unfinished_.Forget();
  return status;
}

// O_EXCL: what stands there, be it a link, is not followed.
absl::StatusOr<GrowingFile> GrowingFile::Create(const std::string& path) {
  GrowingFile file;
  file.descriptor_ = OpenDescriptor(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.descriptor_.get() < 0) return SystemError(path, "cannot create");
  file.path_ = path;
  return file;
}

absl::Status GrowingFile::Write(const void* data, size_t size) {
  return WriteAll(descriptor_, path_, static_cast<const char*>(data), size);
}

absl::Status GrowingFile::Close() {
  if (descriptor_.Close()) return absl::OkStatus();
  return SystemError(path_, "cannot write");
}

// The file may be larger than memory.
absl::Status AppendFile(const std::string& path, uint64_t offset,
                        OutputFile* to) {
  NODEWISE_ASSIGN_OR_RETURN(const OpenDescriptor descriptor, OpenRegular(path));
  std::string piece(kBufferBytes, '\0');
  while (true) {
    const ssize_t got = pread(descriptor.get(), piece.data(), piece.size(),
                              static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError(path, "cannot read");
    if (got == 0) return absl::OkStatus();
    NODEWISE_RETURN_IF_ERROR(to->Write(piece.data(), static_cast<size_t>(got)));
    offset += static_cast<uint64_t>(got);
  }
}

absl::Status CheckReadable(const std::string& path) {
  return OpenRegular(path).status();
}

absl::Status ReplaceFile(
    const std::string& path,
    absl::FunctionRef<absl::Status(const std::string& beside)> write) {
  const std::string beside = PathBeside(path);
  const LeftBehind unfinished = LeftBehind::Path(beside);
  absl::Status status = write(beside);
  struct stat before;
  if (status.ok() && lstat(path.c_str(), &before) == 0 &&
      S_ISREG(before.st_mode)) {
    chmod(beside.c_str(), before.st_mode & 0777);
  }
  if (status.ok() && rename(beside.c_str(), path.c_str()) != 0) {
    status = SystemError(path, "cannot write");
  }
  if (status.ok()) return status;
  unlink(beside.c_str());
  const std::string_view message = MessageOf(status);
  if (!message.starts_with(beside)) return status;
  return absl::Status(status.code(),
                      fmt::format("{}{}", path, message.substr(beside.size())));
}

absl::Status ReplaceFile(const std::string& path, std::string_view text) {
  return ReplaceFile(path, [&](const std::string& beside) -> absl::Status {
    NODEWISE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(beside));
    NODEWISE_RETURN_IF_ERROR(file.Write(text));
    return file.Commit();
  });
}

// "NAME.NUMBER_NUMBER.part", or with an extension behind it. OutputFile and
// ReplaceFile() name their files alike.
bool IsPartName(std::string_view name) {
  const size_t part = name.rfind(kPart);
  if (part == name.npos) return false;
  const std::string_view behind = name.substr(part + kPart.size());
  if (!behind.empty() && (behind[0] != '.' || behind.rfind('.') != 0)) {
    return false;
  }
  name = name.substr(0, part);
  const size_t dot = name.rfind('.');
  if (dot == name.npos || dot == 0) return false;
  const std::string_view numbers = name.substr(dot + 1);
  const size_t line = numbers.find('_');
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  };
  return line != numbers.npos && is_number(numbers.substr(0, line)) &&
         is_number(numbers.substr(line + 1));
}

absl::Status SyncFile(const std::string& path) {
  const OpenDescriptor descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.get() < 0) return SystemError(path, "cannot open");
  return SyncDescriptor(descriptor.get(), path);
}

// Some file systems and all pipes answer that they cannot: there is nothing to
// wait for then.
absl::Status SyncDescriptor(int descriptor, const std::string& path) {
  int rc = 0;
  do {
    rc = fsync(descriptor);
  } while (rc != 0 && errno == EINTR);
  if (rc == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS) {
    return absl::OkStatus();
  }
  return SystemError(path, "cannot write to the disk");
}

// Files that the folder holds already are remembered by name, and stay.
absl::StatusOr<MadeFolder> MadeFolder::Make(const std::string& path) {
  MadeFolder folder;
  folder.is_new_ = mkdir(path.c_str(), 0777) == 0;
  if (!folder.is_new_ && errno != EEXIST) {
    return SystemError(path, "cannot make the folder");
  }
  NODEWISE_ASSIGN_OR_RETURN(folder.before_, ListFolder(path));
  folder.path_ = path;
  return folder;
}

MadeFolder::MadeFolder(MadeFolder&& other) noexcept
    : path_(std::exchange(other.path_, "")),
      is_new_(other.is_new_),
      before_(std::move(other.before_)) {}

// The destructor cannot report that something could not be removed: a caller
// that destroys the folder has an error to report already.
MadeFolder::~MadeFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  const auto names = ListFolder(path_);
  if (names.ok()) {
    for (const std::string& name : *names) {
      if (std::binary_search(before_.begin(), before_.end(), name)) continue;
      fs::remove_all(fs::path(path_) / name, ignored);
    }
  }
  if (is_new_) fs::remove(path_, ignored);
}

}  // namespace nodewise
