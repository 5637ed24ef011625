#pragma once

#include <cfenv>
#include <cstdint>
#include <optional>
#include <string>

namespace nodewise {

// How the calling thread calculates with floats is not ours alone. A library
// that was linked with -ffast-math makes the thread that loads it treat
// subnormal numbers as zero; a function may change how numbers are rounded, or
// which exceptions trap, and forget to put that back. Compiled code is to keep
// what its libraries set, since its results depend on it, and what judges it
// must not. So a thread of ours has two environments: the default one, in which
// it judges (DefaultFloatEnvironment), and that of the candidate, into which it
// changes for as long as it runs compiled code (CandidateFloatEnvironment).

// What can be set of it; the flags of exceptions that have occurred are not
// part of it.
struct FloatEnvironment {
#ifdef __x86_64__
  uint32_t sse = 0;  // MXCSR without its flags.
  uint16_t x87 = 0;  // The control word.
#else
  int rounding = 0;
  int traps = 0;
  std::fenv_t whole = {};  // Not compared, since flags are part of it.
#endif

  friend bool operator==(const FloatEnvironment& a, const FloatEnvironment& b) {
#ifdef __x86_64__
    return a.sse == b.sse && a.x87 == b.x87;
#else
    return a.rounding == b.rounding && a.traps == b.traps;
#endif
  }
};

// Return the environment of the calling thread, and the one that every program
// begins with.
FloatEnvironment ReadFloatEnvironment();
FloatEnvironment DefaultFloats();
// Changes that of the calling thread, but for its flags.
void WriteFloatEnvironment(const FloatEnvironment& floats);

// From one environment to another one.
struct FloatChange {
  FloatEnvironment before;
  FloatEnvironment after;
};
// Returns whether normal numbers may come out in another way after the change:
// not if all that it does is to subnormal numbers, or to exceptions.
bool ChangesResults(const FloatChange& change);
// Return an environment as a number, for files and messages, and back again.
// The bits are those of the machine.
uint32_t PackFloats(const FloatEnvironment& floats);
FloatEnvironment UnpackFloats(uint32_t packed);
// Returns what is another after the change: "the rounding mode changed (upward,
// was to nearest) and subnormal numbers treated as zero". REQUIRES: something
// is.
std::string DescribeChange(const FloatChange& change);

// While one exists the calling thread calculates as the standard says, and so
// do the tasks that it launches in the thread pool. At its end the thread has
// its former environment again, with the flags. They may be nested, also in a
// CandidateFloatEnvironment.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment();
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;
  ~DefaultFloatEnvironment();

 private:
  const bool was_default_;
#ifdef __x86_64__
  const uint32_t sse_before_;  // With its flags.
  const uint16_t x87_before_;
#else
  std::fenv_t before_;
#endif
};

// While one exists the calling thread has the candidate's environment: that of
// before the outermost DefaultFloatEnvironment, as compiled code has left it
// since. Does nothing in a thread that has no DefaultFloatEnvironment: its
// environment is the candidate's.
class CandidateFloatEnvironment {
 public:
  CandidateFloatEnvironment();
  CandidateFloatEnvironment(const CandidateFloatEnvironment&) = delete;
  CandidateFloatEnvironment& operator=(const CandidateFloatEnvironment&) =
      delete;
  ~CandidateFloatEnvironment();

 private:
  const bool was_default_;
};

// Returns the candidate's environment in the calling thread.
FloatEnvironment CandidateFloats();
// Returns whether the calling thread judges: it has a DefaultFloatEnvironment,
// and no CandidateFloatEnvironment within that.
bool HasDefaultFloats();

// Gives the candidate its former environment at its end, for libraries that
// have nothing to do with those that are loaded after it.
class KeepCandidateFloats {
 public:
  KeepCandidateFloats() : before_(CandidateFloats()) {}
  KeepCandidateFloats(const KeepCandidateFloats&) = delete;
  KeepCandidateFloats& operator=(const KeepCandidateFloats&) = delete;
  ~KeepCandidateFloats();

 private:
  const FloatEnvironment before_;
};

// What a thread hands over to a thread that it makes, which has the hardware's
// part of its maker's environment and nothing else. Made by the one, adopted by
// the other for as long as that lives.
class ThreadFloats {
 public:
  ThreadFloats();
  void Adopt() const;

 private:
  const bool is_default_;
  const FloatEnvironment candidate_;
};

// Counts how often libraries have changed the candidate's environment. A thread
// of the pool takes over that of the candidate's thread when it first works for
// it, as if it had been made then, and again after such a change.
uint32_t CandidateFloatsGeneration();
void CandidateFloatsChanged();

// Runs compiled code as CandidateFloatEnvironment does, and looks at what it
// makes of the environment, in the calling thread and in the tasks that it
// launches in the thread pool: what is left changed is noted and, if it is to
// be, put back. If a thread has several, the last one looks at tasks.
class FloatWatch {
 public:
  explicit FloatWatch(bool puts_back);
  FloatWatch(const FloatWatch&) = delete;
  FloatWatch& operator=(const FloatWatch&) = delete;
  ~FloatWatch();

  // Ends it, and returns what was changed; if several threads changed it, the
  // calling one counts. Called once, or never if the result is not wanted.
  std::optional<FloatChange> Finish();

  // For the thread pool. Returns the watch that is on in the calling thread;
  // null if there is none.
  static FloatWatch* ForThisThread();
  bool puts_back() const { return puts_back_; }
  // A task on another thread has left this. Not thread-safe.
  void NoteInTask(const FloatChange& change) { in_task_ = change; }

 private:
  const bool puts_back_;
  bool was_default_ = false;
  FloatEnvironment before_;
  FloatWatch* outer_ = nullptr;
  bool is_over_ = false;
  std::optional<FloatChange> in_task_;
};

}  // namespace nodewise
