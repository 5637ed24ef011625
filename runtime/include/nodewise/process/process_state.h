#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <clocale>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace nodewise {

// Which threads the nodes of a run have left behind. What such a thread does
// later, while another node runs, is not that node's doing.
//
// The threads of our pool and of OpenMP belong to no node: they work for the
// one that runs.
class ThreadCensus {
 public:
  // The threads that exist by then belong to no node.
  ThreadCensus();
  ~ThreadCensus();
  ThreadCensus(const ThreadCensus&) = delete;
  ThreadCensus& operator=(const ThreadCensus&) = delete;

  // Puts down to `node`, which has just returned, the threads that are new.
  void Note(uint32_t node);
  // Returns the node that has left the first of the threads that are still
  // there; none if there are none.
  std::optional<uint32_t> FirstMaker() const;
  bool HasStrays() const { return FirstMaker().has_value(); }
  // Returns the node that has left the calling thread behind; none for other
  // threads. May be called in a signal handler.
  std::optional<uint32_t> MakerOfThisThread() const;

  // Returns the one that lives and was made last, or null.
  static const ThreadCensus* Current();

 private:
  static constexpr size_t kMostStrays = 256;

  struct Stray {
    std::atomic<pid_t> thread{0};
    uint32_t node = 0;
  };

  std::set<pid_t> known_;
  size_t count_ = 0;  // How many threads there were.
  std::array<Stray, kMostStrays> strays_;
  std::atomic<size_t> num_strays_{0};
};

// In a child, has its end (ChildEnd::left_by) say what threads were left.
void NoteLeftThreads(const ThreadCensus& census);

// The state that all code of a process shares, apart from memory: a function
// that leaves it changed harms code that runs later, which then looks guilty.
// Opened descriptors, mapped memory and new threads are not part of it, since
// functions may keep such things for their next call.
class ProcessState {
 public:
  // Returns how it is now; the signal mask is the calling thread's.
  static ProcessState Take();

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
