#pragma once

#include <cstdint>
#include <string_view>

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

  // What is measured, for reports.
  static constexpr std::string_view kMeasure =
      "the most that was resident at once (VmHWM), less what was at the start";

 private:
  uint64_t start_;
};

}  // namespace nodewise
