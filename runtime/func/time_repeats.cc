#include "nodewise/func/time_repeats.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// The options in the order in which TVM passes them.
struct OptionRow {
  const char* name;
  int RepeatOptions::*member;
  int least;
};
constexpr OptionRow kOptions[] = {
    {"number", &RepeatOptions::number, 1},
    {"repeat", &RepeatOptions::repeat, 1},
    {"min_repeat_ms", &RepeatOptions::min_repeat_ms, 0},
    {"limit_zero_time_iterations", &RepeatOptions::limit_zero_time_iterations,
     0},
    {"cooldown_interval_ms", &RepeatOptions::cooldown_interval_ms, 0},
    {"repeats_to_cooldown", &RepeatOptions::repeats_to_cooldown, 1}};

constexpr double kGrowth = 1.618;  // TVM's factor for `number`.
// Keeps a repeat of calls that seem to take no time from going on for ever.
constexpr double kMostCalls = 1e9;

// A pause lets a processor that slows down when it gets hot recover.
void CoolDown(const RepeatOptions& options, int repeat) {
  if (options.cooldown_interval_ms <= 0) return;
  if (repeat % options.repeats_to_cooldown != 0) return;
  std::this_thread::sleep_for(
      std::chrono::milliseconds(options.cooldown_interval_ms));
}

// Returns how many calls to try next, if `number` calls took `taken_ns`. The
// number grows by the factor at least, and by as much as the time so far asks
// for. One more call makes up for the division.
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
  for (const OptionRow& row : kOptions) {
    const int value = options.*row.member;
    if (row.member == &RepeatOptions::repeat &&
        (value < 1 || value > kMostRepeats)) {
      return InvalidArgument(
          "repeat is {}, expected 1 to {} (measure several times)", value,
          kMostRepeats);
    }
    if (value >= row.least) continue;
    return InvalidArgument("{} is {}, expected at least {}", row.name, value,
                           row.least);
  }
  return absl::OkStatus();
}

// Later releases put new options at the end or, once, in the middle.
absl::StatusOr<RepeatOptions> TakeRepeatOptions(PackedArgs args) {
  const int count = args.size();
  if (count != 3 && count != 5 && count != 6) {
    return InvalidArgument(
        "got {} timing arguments, expected number, repeat, min_repeat_ms, "
        "limit_zero_time_iterations, cooldown_interval_ms, repeats_to_cooldown "
        "(or the 5 of TVM 0.9, or the 3 before it)",
        count);
  }
  RepeatOptions options;
  for (int i = 0; i < count; ++i) {
    // TVM 0.9 has no limit_zero_time_iterations yet.
    const int place = count == 5 && i >= 3 ? i + 1 : i;
    NODEWISE_ASSIGN_OR_RETURN(options.*kOptions[place].member,
                              args.SmallIntAt(i));
  }
  return options;
}

absl::StatusOr<std::vector<double>> TimeRepeats(
    const RepeatOptions& options,
    absl::FunctionRef<absl::StatusOr<int64_t>(int64_t number)> time_calls,
    absl::FunctionRef<absl::Status()> before_repeat) {
  const int64_t wanted_ns = int64_t{options.min_repeat_ms} * 1'000'000;
  int64_t number = options.number;
  // The warm-up, whose time does not count.
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

// Hosts read the seconds as doubles of this machine.
Value SecondsAsBytes(const std::vector<double>& seconds) {
  return Value(
      Value::Bytes{std::string(reinterpret_cast<const char*>(seconds.data()),
                               seconds.size() * sizeof(double))});
}

}  // namespace nodewise
