#pragma once

#include <cstdint>

namespace nodewise {

// How much memory work takes: the process's high-water mark of resident memory
// (VmHWM), which is set back at the start, less what was resident then. All
// threads count, and all numbers are 0 where the system does not say. Only one
// object may be at work in a process at a time.
class PeakMemory {
 public:
  PeakMemory();

  // The most that was resident since the last call, or the start, counts from
  // now on together with `beside`: bytes that another process took meanwhile.
  void Note(uint64_t beside = 0);
  // Returns the most that was resident at once, of what Note() has not seen
  // without such bytes.
  uint64_t bytes() const;

 private:
  uint64_t start_ = 0;
  uint64_t noted_ = 0;
};

// Returns what a forked process has had to itself at most: all that is resident
// now and that its parent does not share, and the memory that it has given back
// since the fork. It is rather too much than too little.
uint64_t MostPrivateBytes();

// Returns how much more memory processes may take before the system has to move
// any out; 0 where it does not say.
uint64_t AvailableMemory();

// While one lives, what the thread computes is to take little memory: kernels
// keep nothing for later calls that they can make again, and read constants
// where they lie.
class LowMemoryScope {
 public:
  LowMemoryScope();
  LowMemoryScope(const LowMemoryScope&) = delete;
  LowMemoryScope& operator=(const LowMemoryScope&) = delete;
  ~LowMemoryScope();

  // Whether one lives in this thread.
  static bool IsWanted();
};

// Gives memory that is not in use back to the system, as far as the allocator
// can: what a run has freed would count in the next one otherwise.
void ReturnFreedMemory();

// Has the allocator take large blocks from the system one by one and give them
// back as soon as they are freed, from now on: memory that was not written to
// is not resident then. It remains so until the process ends.
void ReturnLargeBlocksAtOnce();

}  // namespace nodewise
