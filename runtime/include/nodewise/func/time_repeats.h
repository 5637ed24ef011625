#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nodewise/func/packed_func.h"

namespace nodewise {

// A limit, since the seconds of every repeat are kept.
inline constexpr int kMostRepeats = 1'000'000;

// How a call is timed repeatedly, in TVM's terms: each repeat is the mean of
// `number` calls.
struct RepeatOptions {
  int number = 10;
  int repeat = 1;
  // `number` grows until a repeat takes that long. If calls seem to take no
  // time at all, it stops growing after `limit_zero_time_iterations` attempts.
  int min_repeat_ms = 0;
  int limit_zero_time_iterations = 100;
  // A pause after every `repeats_to_cooldown` repeats.
  int cooldown_interval_ms = 0;
  int repeats_to_cooldown = 1;
};

// Fails with kInvalidArgument that names the first option out of its range.
absl::Status CheckRepeatOptions(const RepeatOptions& options);

// Reads the options as packed functions take them: number, repeat,
// min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms,
// repeats_to_cooldown; only the first three until TVM 0.8, and without the
// fourth in TVM 0.9.
absl::StatusOr<RepeatOptions> TakeRepeatOptions(PackedArgs args);

// Returns the seconds of one call, for each repeat. `time_calls(n)` makes n
// calls and returns what they took in nanoseconds; `before_repeat` is called
// before each repeat. One call is made before everything else, so that one-time
// set-up is not timed. Unlike in TVM, all repeats have the same number of
// calls.
// REQUIRES: CheckRepeatOptions(options).ok(). Fails as the calls do.
absl::StatusOr<std::vector<double>> TimeRepeats(
    const RepeatOptions& options,
    absl::FunctionRef<absl::StatusOr<int64_t>(int64_t number)> time_calls,
    absl::FunctionRef<absl::Status()> before_repeat);

// Returns the seconds as TVM's hosts get them: the bytes of the doubles.
Value SecondsAsBytes(const std::vector<double>& seconds);

}  // namespace nodewise
