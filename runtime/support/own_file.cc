#include "nodewise/support/own_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "fmt/format.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/temporary.h"

namespace nodewise {
namespace {

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

// "NAME.NUMBER_NUMBER.part", or with an extension behind it.
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
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return SystemError(path, "cannot open");
  const absl::Status status = SyncDescriptor(descriptor, path);
  close(descriptor);
  return status;
}

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

}  // namespace nodewise
