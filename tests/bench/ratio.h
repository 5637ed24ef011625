#pragma once

#include <chrono>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace nodewise {

// What a machine can do changes by the minute, so nothing here is held against
// a number of seconds: it is timed in turns with something that does the least
// that must be done, and the ratio of the two is what counts.

// Runs once and returns how many nanoseconds that took, so that a side may
// leave out what it does before and after.
using TimedSide = std::function<double()>;

// Where a ratio is told for what it is worth.
inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

struct Contest {
  std::string name;
  double limit = 0;  // Of the ratio.
  int rounds = 0;
  TimedSide ours;
  TimedSide baseline;
};

// Alternates the two and prints
//   name: RATIO (limit L, least R) [ours A ns, baseline B ns, N rounds]
// with the median and the least of the ratios of the rounds, and the medians
// of the times. Returns whether the median is within the limit.
bool RunContest(const Contest& contest);

// What a run costs on top of a plain one, held against the least that what it
// does besides must cost.
struct Surplus {
  std::string name;
  double limit = 0;  // Of (ours - plain) / unit.
  int rounds = 0;
  TimedSide ours;
  TimedSide plain;
  TimedSide unit;
};

// Takes the three in turns and prints
//   name: RATIO (limit L, quartiles P to Q) [ours A ns, plain B ns, unit C ns,
//   N rounds]
// on one line, where the ratio is the median of those of the rounds. Returns
// whether that is within the limit.
bool RunSurplus(const Surplus& surplus);

// Runs each side once a round, each round beginning with another, and returns
// what they took, by side and round.
std::vector<std::vector<double>> TimeInTurns(
    const std::vector<TimedSide>& sides, int rounds);

// The value below which lies this share of them, 0.5 for the median. REQUIRES:
// there is one.
double Quantile(std::vector<double> values, double share);

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
