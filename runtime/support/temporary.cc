#include "nodewise/support/temporary.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// What shells, terminals and schedulers end programs with. SIGKILL cannot be
// caught; what a fault raises says that nothing here may be trusted.
constexpr int kEndingSignals[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGPIPE,
                                  SIGALRM, SIGTERM, SIGXCPU};

// Folders may be as deep as another program made them, and this runs on any
// stack that a signal meets.
constexpr int kDeepest = 64;
constexpr size_t kNamesBytes = 1024;  // Holds three of the longest names.

// What the kernel writes for each name in a folder; libc has no reader of
// folders that a signal handler may call. The layout is that of struct
// linux_dirent64, which libc does not declare.
struct FolderEntry {
  uint64_t inode;
  int64_t next;
  uint16_t bytes;
  uint8_t kind;
  char name[256];
};

void RemoveIn(int folder, const char* name, int depth);

// Removes what is in an open folder. Some systems skip names while others are
// removed, so it looks again until it finds nothing that it can remove.
void RemoveContents(int folder, int depth) {
  bool has_removed = true;
  while (has_removed) {
    has_removed = false;
    lseek(folder, 0, SEEK_SET);
    alignas(FolderEntry) char names[kNamesBytes];
    long size = 0;
    while ((size = syscall(SYS_getdents64, folder, names, sizeof(names))) > 0) {
      for (long at = 0; at < size;) {
        const auto* const entry =
            reinterpret_cast<const FolderEntry*>(names + at);
        at += entry->bytes;
        const char* const name = entry->name;
        if (std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0) {
          continue;
        }
        RemoveIn(folder, name, depth);
        struct stat status;
        has_removed |= fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0;
      }
    }
  }
}

void RemoveIn(int folder, const char* name, int depth) {
  if (unlinkat(folder, name, 0) == 0 || depth == kDeepest) return;
  const int inner =
      openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (inner < 0) return;
  RemoveContents(inner, depth + 1);
  close(inner);
  unlinkat(folder, name, AT_REMOVEDIR);
}

// Six letters of 62 are 56 thousand million names; one that is taken is tried
// again.
std::string RandomLetters() {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  constexpr size_t kCount = 6;
  std::array<uint8_t, kCount> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) !=
      static_cast<ssize_t>(bytes.size())) {
    // Systems without it are old; no two names of one process are the same.
    static std::atomic<uint32_t> count = 0;
    const uint64_t number =
        uint64_t{count++} << 24 ^ static_cast<uint64_t>(getpid());
    std::memcpy(bytes.data(), &number, bytes.size());
  }
  std::string letters;
  for (const uint8_t byte : bytes) letters += kLetters[byte % kLetters.size()];
  return letters;
}

absl::Status WithHint(const absl::Status& status, const char* hint) {
  return WithMessage(status, fmt::format("{} ({})", MessageOf(status), hint));
}

// The process ends by the signal itself, so that its parent sees why.
void OnEndingSignal(int signal_number) {
  RemoveLeftBehind();
  // Blocked until this handler returns, and then ends the process.
  std::signal(signal_number, SIG_DFL);
  raise(signal_number);
}

}  // namespace

// A list that only grows, since a signal may walk along it at any time; free
// entries are used again. Owner and signal take a thing by exchange, so that
// only one of them has it at a time.
class LeftBehind::Entry {
 public:
  struct Thing {
    pid_t owner;
    pid_t group;  // 0: a path.
    std::string path;
  };

  // Entries are never freed, as a handler may stand on one.
  static Entry* Put(std::unique_ptr<Thing> thing) {
    for (Entry* entry = first_; entry != nullptr; entry = entry->next_) {
      Thing* none = nullptr;
      if (!entry->thing_.compare_exchange_strong(none, thing.get())) continue;
      (void)thing.release();
      return entry;
    }
    auto* const entry = new Entry();
    entry->thing_ = thing.release();
    entry->next_ = first_;
    while (!first_.compare_exchange_weak(entry->next_, entry)) {
    }
    return entry;
  }

  void Empty() { delete thing_.exchange(nullptr); }

  template <typename Function>
  static void ForEachOf(pid_t owner, const Function& function) {
    for (Entry* entry = first_; entry != nullptr; entry = entry->next_) {
      Thing* const thing = entry->thing_.exchange(nullptr);
      if (thing == nullptr) continue;
      if (thing->owner == owner) function(*thing);
      // If another thing has been put there meanwhile, this thing is lost, not
      // freed.
      Thing* none = nullptr;
      entry->thing_.compare_exchange_strong(none, thing);
    }
  }

 private:
  static std::atomic<Entry*> first_;

  std::atomic<Thing*> thing_ = nullptr;
  Entry* next_ = nullptr;
};

std::atomic<LeftBehind::Entry*> LeftBehind::Entry::first_ = nullptr;

// The owner is noted, since a forked child has the same list.
LeftBehind LeftBehind::Register(pid_t group, std::string_view path) {
  LeftBehind left_behind;
  left_behind.entry_.reset(Entry::Put(std::make_unique<Entry::Thing>(
      Entry::Thing{getpid(), group, std::string(path)})));
  return left_behind;
}

LeftBehind LeftBehind::Path(std::string_view path) { return Register(0, path); }

LeftBehind LeftBehind::ProcessGroup(pid_t group) { return Register(group, ""); }

void LeftBehind::Clear::operator()(Entry* entry) const { entry->Empty(); }

void CleanUpOnSignals() {
  struct sigaction action {};
  action.sa_handler = &OnEndingSignal;
  sigemptyset(&action.sa_mask);
  for (const int signal_number : kEndingSignals) {
    sigaddset(&action.sa_mask, signal_number);
  }
  for (const int signal_number : kEndingSignals) {
    struct sigaction before {};
    sigaction(signal_number, nullptr, &before);
    if (before.sa_handler != SIG_DFL) continue;
    sigaction(signal_number, &action, nullptr);
  }
}

// Processes first: one that still runs could make new files.
void RemoveLeftBehind() {
  using Thing = LeftBehind::Entry::Thing;
  const pid_t self = getpid();
  LeftBehind::Entry::ForEachOf(self, [](const Thing& thing) {
    if (thing.group > 0) kill(-thing.group, SIGKILL);
  });
  LeftBehind::Entry::ForEachOf(self, [](const Thing& thing) {
    if (thing.group == 0) RemoveTree(thing.path.c_str());
  });
}

void RemoveTree(const char* path) { RemoveIn(AT_FDCWD, path, 0); }

// A TMPDIR that is wrong is an error: files would otherwise land where the user
// does not look for them.
absl::StatusOr<std::string> TemporaryRoot() {
  const char* const chosen = std::getenv("TMPDIR");
  const std::string root =
      chosen == nullptr || *chosen == '\0' ? "/tmp" : chosen;
  struct stat status;
  if (stat(root.c_str(), &status) != 0) {
    return WithHint(SystemError(root, "no folder for temporary files"),
                    "set TMPDIR");
  }
  if (!S_ISDIR(status.st_mode)) {
    return InvalidArgument(
        "{}: is not a folder, expected one for temporary files (set TMPDIR)",
        root);
  }
  // Other programs get the path, too, wherever they run.
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(root, error);
  return error ? root : whole.string();
}

absl::StatusOr<TemporaryFolder> TemporaryFolder::Create(
    std::string_view prefix) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string root, TemporaryRoot());
  while (true) {
    // The folder is registered before it is made: a signal between the two
    // would leave it behind otherwise. So the name must be one that no other
    // folder has.
    std::string path = fmt::format("{}/{}_{}", root, prefix, RandomLetters());
    TemporaryFolder folder(std::move(path));
    if (mkdir(folder.path_.c_str(), 0700) == 0) return folder;
    const int error = errno;
    folder.Keep();
    if (error == EEXIST) continue;
    errno = error;
    return WithHint(SystemError(root, "cannot make a folder in it"),
                    "set TMPDIR to a folder for temporary files");
  }
}

TemporaryFolder::TemporaryFolder(std::string path)
    : path_(std::move(path)),
      owner_(getpid()),
      left_behind_(LeftBehind::Path(path_)) {}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : path_(std::exchange(other.path_, "")),
      owner_(other.owner_),
      left_behind_(std::move(other.left_behind_)) {}

// A forked child has a copy of the object, but the folder is its parent's.
TemporaryFolder::~TemporaryFolder() {
  if (!path_.empty() && owner_ == getpid()) RemoveTree(path_.c_str());
}

// The folder is the caller's from here on.
std::string TemporaryFolder::Keep() {
  left_behind_.Forget();
  return std::exchange(path_, "");
}

}  // namespace nodewise
