#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "absl/types/span.h"

namespace nodewise {

// Returns the time on the monotonic clock.
inline int64_t ClockNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Returns the first level that this machine can run. The levels are the same
// loops compiled for several instruction sets, from the best to one that runs
// everywhere. A Level has
//   bool (*works_here)();
template <typename Level>
const Level* FirstSupported(absl::Span<const Level> levels) {
  return std::find_if(levels.begin(), levels.end(),
                      [](const Level& level) { return level.works_here(); });
}

// Whether a sanitizer that keeps memory of its own is built in.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kSanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace nodewise
