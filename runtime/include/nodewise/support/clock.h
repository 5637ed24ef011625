#pragma once

#include <chrono>
#include <cstdint>

namespace nodewise {

// Returns the time on the monotonic clock.
inline int64_t ClockNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace nodewise
