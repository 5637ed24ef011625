#include "nodewise/func/time_repeats.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr double kGrowth = 1.618;  // TVM's factor for `number`.
constexpr double kMostCalls = 1e9;

void CoolDown(const RepeatOptions& options, int repeat) {
  if (options.cooldown_interval_ms <= 0) return;
  if (repeat % options.repeats_to_cooldown != 0) return;
  std::this_thread::sleep_for(
      std::chrono::milliseconds(options.cooldown_interval_ms));
}

// Returns how many calls to try next, if `number` calls took `taken_ns`.
int64_t Grow(int64_t number, int64_t taken_ns, int64_t wanted_ns) {
  const auto calls = static_cast<double>(number);
  double wanted = std::ceil(calls * kGrowth);
  if (taken_ns > 0) {
    const double per_call = static_cast<double>(taken_ns) / calls;
    wanted = std::max(wanted, static_cast<double>(wanted_ns) / per_call + 1);
  }
  return static_cast<int64_t>(std::min(wanted, kMostCalls));
}

}  // namespace

absl::Status CheckRepeatOptions(const RepeatOptions& options) {
  const auto check = [](const char* name, int value, int min) {
    if (value >= min) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("{} is {}, expected at least {}", name, value, min));
  };
  NODEWISE_RETURN_IF_ERROR(check("number", options.number, 1));
  if (options.repeat < 1 || options.repeat > kMostRepeats) {
    return absl::InvalidArgumentError(
        fmt::format("repeat is {}, expected 1 to {} (measure several times)",
                    options.repeat, kMostRepeats));
  }
  NODEWISE_RETURN_IF_ERROR(check("min_repeat_ms", options.min_repeat_ms, 0));
  NODEWISE_RETURN_IF_ERROR(check("limit_zero_time_iterations",
                                 options.limit_zero_time_iterations, 0));
  NODEWISE_RETURN_IF_ERROR(
      check("cooldown_interval_ms", options.cooldown_interval_ms, 0));
  return check("repeats_to_cooldown", options.repeats_to_cooldown, 1);
}

absl::StatusOr<RepeatOptions> TakeRepeatOptions(PackedArgs args) {
  const int count = args.size();
  if (count != 3 && count != 5 && count != 6) {
    return absl::InvalidArgumentError(fmt::format(
        "got {} timing arguments, expected number, repeat, min_repeat_ms, "
        "limit_zero_time_iterations, cooldown_interval_ms, repeats_to_cooldown "
        "(or the 5 of TVM 0.9, or the 3 before it)",
        count));
  }
  RepeatOptions options;
  int* const all[] = {&options.number,
                      &options.repeat,
                      &options.min_repeat_ms,
                      &options.limit_zero_time_iterations,
                      &options.cooldown_interval_ms,
                      &options.repeats_to_cooldown};
  for (int i = 0; i < count; ++i) {
    const int place = count == 5 && i >= 3 ? i + 1 : i;
    NODEWISE_ASSIGN_OR_RETURN(*all[place], args.SmallIntAt(i));
  }
  return options;
}

absl::StatusOr<std::vector<double>> TimeRepeats(
    const RepeatOptions& options,
    absl::FunctionRef<absl::StatusOr<int64_t>(int64_t number)> time_calls,
    absl::FunctionRef<absl::Status()> before_repeat) {
  const int64_t wanted_ns = int64_t{options.min_repeat_ms} * 1'000'000;
  int64_t number = options.number;
  NODEWISE_RETURN_IF_ERROR(time_calls(1).status());
  NODEWISE_RETURN_IF_ERROR(before_repeat());
  NODEWISE_ASSIGN_OR_RETURN(int64_t taken_ns, time_calls(number));
  int zeros = 0;
  while (taken_ns < wanted_ns && zeros < options.limit_zero_time_iterations) {
    if (taken_ns == 0) ++zeros;
    number = Grow(number, taken_ns, wanted_ns);
    NODEWISE_ASSIGN_OR_RETURN(taken_ns, time_calls(number));
  }
  std::vector<double> seconds;
  for (int r = 0; r < options.repeat; ++r) {
    if (r > 0) {
      NODEWISE_RETURN_IF_ERROR(before_repeat());
      NODEWISE_ASSIGN_OR_RETURN(taken_ns, time_calls(number));
    }
    seconds.push_back(static_cast<double>(taken_ns) * 1e-9 /
                      static_cast<double>(number));
    CoolDown(options, r);
  }
  return seconds;
}

Value SecondsAsBytes(const std::vector<double>& seconds) {
  return Value(
      Value::Bytes{std::string(reinterpret_cast<const char*>(seconds.data()),
                               seconds.size() * sizeof(double))});
}

}  // namespace nodewise
