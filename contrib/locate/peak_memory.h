#pragma once

#include <cstdint>

namespace nodewise {

// Measures how much more memory this process has had at once since the object
// was made than it had then: the high-water mark of its resident memory
// (VmHWM), which is set back at the start, less what was resident. All threads
// count. Where the system does not let the mark be set back, what the process
// needed earlier hides what it needs later.
class PeakMemory {
 public:
  PeakMemory();

  // Returns 0 where the system does not say.
  uint64_t bytes() const;

 private:
  uint64_t start_;
};

// Gives memory that has been freed back to the system, where the C library can
// (glibc). It keeps it otherwise, and in pieces that grow in number: eight
// convolutions, one after the other, needed three times the memory of one.
void ReturnFreedMemory();

}  // namespace nodewise
