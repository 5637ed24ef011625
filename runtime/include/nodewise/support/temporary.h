#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace nodewise {

// One thing that a process would leave behind if a signal ended it: a file, a
// folder or a running process group. It is registered as long as the object
// lives. Only a program that has called CleanUpOnSignals() removes it then: a
// library leaves signals to its host. Move-only; any thread may call.
class LeftBehind {
 public:
  // A file, or a folder with all that is in it by then.
  static LeftBehind Path(std::string_view path);
  // Killed before anything is removed, so that it makes nothing new.
  static LeftBehind ProcessGroup(pid_t group);

  // From now on a signal leaves it as it is.
  void Forget() { entry_.reset(); }

 private:
  friend void RemoveLeftBehind();
  class Entry;

  struct Clear {
    void operator()(Entry* entry) const;
  };

  static LeftBehind Register(pid_t group, std::string_view path);

  std::unique_ptr<Entry, Clear> entry_;
};

// Has SIGHUP, SIGINT, SIGTERM and the other signals that programs are usually
// ended with call RemoveLeftBehind() and then end the process as they would
// have. A signal that is ignored, or handled, stays so. For main(), once.
void CleanUpOnSignals();

// Kills and removes what this process has registered; what a process registered
// before it forked is not the child's. For a program that is about to end
// without destructors. Calls only what a signal handler may.
void RemoveLeftBehind();

// Removes a file, or a folder with all in it, as far as possible. Follows no
// link. Calls only what a signal handler may.
void RemoveTree(const char* path);

// Returns the absolute path of $TMPDIR, or of /tmp if that is not set or empty.
// Fails with the path, and what to set, if it is not a folder.
absl::StatusOr<std::string> TemporaryRoot();

// A new folder below TemporaryRoot() that only its user may enter. It is
// removed with all in it when the object is destroyed or, as above, by a
// signal. Move-only.
class TemporaryFolder {
 public:
  // Its name is `prefix`, "_" and six random characters.
  static absl::StatusOr<TemporaryFolder> Create(std::string_view prefix);

  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  const std::string& path() const { return path_; }
  // Leaves the folder where it is, and returns its path.
  std::string Keep();

 private:
  explicit TemporaryFolder(std::string path);

  std::string path_;  // Empty: it is not this object's.
  pid_t owner_;
  LeftBehind left_behind_;
};

}  // namespace nodewise
