#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <clocale>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace nodewise {

// The state that all code of a process shares, apart from memory: a function
// that leaves it changed harms code that runs later, which then looks guilty.
// Opened descriptors, mapped memory and new threads are not part of it, since
// functions may keep such things for their next call.
class ProcessState {
 public:
  // Returns how it is now; the signal mask is the calling thread's.
  static ProcessState Capture();

  // Returns what differs in a later state, each in words: "the working folder
  // is /tmp, which was /home", "descriptor 7 is closed". What the system did
  // not tell of one of them is not a change.
  std::vector<std::string> ChangesIn(const ProcessState& later) const;

  // Makes it again as it was, as far as it can: descriptors that are closed
  // remain so.
  void Restore() const;

 private:
  struct Descriptor {
    dev_t device = 0;
    ino_t inode = 0;
    int flags = 0;
  };

  using Changes = std::vector<std::string>;
  void AddDescriptorChanges(const ProcessState& later, Changes* changes) const;
  void AddSignalChanges(const ProcessState& later, Changes* changes) const;
  void AddLimitChanges(const ProcessState& later, Changes* changes) const;

  std::string folder_;
  // Lines of /proc/thread-self/status by their names: users, rights, the file
  // creation mask.
  std::map<std::string, std::string> lines_;
  // Without a value if the descriptor is open and nothing more can be told.
  std::map<int, std::optional<Descriptor>> descriptors_;
  bool has_all_descriptors_ = false;
  bool has_no_descriptor_left_ = false;
  std::array<struct sigaction, NSIG> actions_{};
  sigset_t mask_{};
  std::array<rlimit, RLIM_NLIMITS> limits_{};
  std::array<bool, 3> timers_{};  // Whether each of setitimer() runs.
  std::string locale_;
  locale_t thread_locale_ = nullptr;
  size_t environment_ = 0;  // Its hash.
};

}  // namespace nodewise
