#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nodewise/func/packed_func.h"

namespace nodewise {

// The seconds of every repeat are kept, so there may not be more.
inline constexpr int kMostRepeats = 1'000'000;

// How a call is timed again and again, with the meaning that TVM gives the
// words: each repeat is the mean of `number` calls.
struct RepeatOptions {
  int number = 10;
  int repeat = 1;
  // `number` grows until a repeat takes that long; calls that seem to take no
  // time at all end that after `limit_zero_time_iterations` attempts.
  int min_repeat_ms = 0;
  int limit_zero_time_iterations = 100;
  // A rest after every so many repeats.
  int cooldown_interval_ms = 0;
  int repeats_to_cooldown = 1;
};

// kInvalidArgument that names the first option out of its range.
absl::Status CheckRepeatOptions(const RepeatOptions& options);

// The options as packed functions take them: number, repeat, min_repeat_ms,
// limit_zero_time_iterations, cooldown_interval_ms, repeats_to_cooldown; only
// the first three until TVM 0.8, and without the fourth in TVM 0.9.
absl::StatusOr<RepeatOptions> TakeRepeatOptions(PackedArgs args);

// The seconds of one call, for each repeat. `time_calls(n)` makes n calls and
// returns what they took in nanoseconds; `before_repeat` is called before each
// repeat. One call is made before all, for what is only set up once. Unlike in
// TVM all repeats have the same number of calls.
// REQUIRES: CheckRepeatOptions(options).ok(). Fails as the calls do.
absl::StatusOr<std::vector<double>> TimeRepeats(
    const RepeatOptions& options,
    absl::FunctionRef<absl::StatusOr<int64_t>(int64_t number)> time_calls,
    absl::FunctionRef<absl::Status()> before_repeat);

// The seconds as hosts of TVM get them: the bytes of the doubles.
Value SecondsAsBytes(const std::vector<double>& seconds);

}  // namespace nodewise
