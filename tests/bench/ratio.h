#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

namespace nodewise {

// What a machine can do changes by the minute, so nothing here is held against
// a number of seconds: it is timed in turns with something that does the least
// that must be done, and the ratio of the two is what counts.

// Runs once and returns how many nanoseconds that took, so that a side may
// leave out what it does before and after.
using TimedRun = std::function<double()>;

struct Contest {
  std::string name;
  double limit = 0;  // Of the ratio.
  int rounds = 0;
  TimedRun ours;
  TimedRun baseline;
};

// Alternates the two and prints
//   name: RATIO (limit L, least R) [ours A ns, baseline B ns, N rounds]
// with the median and the least of the ratios of the rounds, and the medians
// of the times. Returns whether the median is within the limit.
bool RunContest(const Contest& contest);

// Prints `name: VALUE UNIT (limit L)` and returns whether it is within it.
bool ReportValue(const std::string& name, double value, double limit,
                 const char* unit);

// The nanoseconds that `work` takes.
template <typename Work>
double NanosecondsOf(Work work) {
  const auto start = std::chrono::steady_clock::now();
  std::forward<Work>(work)();
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now() - start)
      .count();
}

// The same, each of `repeats` times.
template <typename Work>
double NanosecondsOfEach(int repeats, Work work) {
  const double all = NanosecondsOf([&] {
    for (int i = 0; i < repeats; ++i) work();
  });
  return all / repeats;
}

}  // namespace nodewise
