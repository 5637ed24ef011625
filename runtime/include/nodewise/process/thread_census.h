#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>

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
  bool HasLeftThreads() const { return FirstMaker().has_value(); }
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

}  // namespace nodewise
