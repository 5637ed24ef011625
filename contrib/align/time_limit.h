#pragma once

#include <cstddef>
#include <cstdint>

namespace nodewise {

// Until when something is tried. A plain value.
class TimeLimit {
 public:
  TimeLimit(int64_t (*clock)(), int64_t most_ns)
      : clock_(clock), end_ns_(clock() + most_ns) {}

  bool IsOver() const { return clock_() >= end_ns_; }
  // Returns a limit after one of so many equal parts of what is left.
  TimeLimit Part(size_t parts) const {
    const int64_t now = clock_();
    const int64_t left_ns = end_ns_ > now ? end_ns_ - now : 0;
    return {clock_, left_ns / static_cast<int64_t>(parts)};
  }

 private:
  int64_t (*clock_)();
  int64_t end_ns_;
};

}  // namespace nodewise
