#pragma once

#include <chrono>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace nodewise {

// The speed of a machine changes by the minute, so nothing here is compared
// with a number of seconds: it is timed in turns with something that does the
// minimum that must be done, and the ratio of the two counts.

// Runs once and returns how many nanoseconds that took, so that a side may
// leave out what it does before and after.
using TimedSide = std::function<double()>;

// For a ratio that is only printed.
inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

struct Contest {
  std::string name;
  double limit = 0;  // Limit of the ratio.
  int rounds = 0;
  TimedSide ours;
  TimedSide baseline;
};

// Alternates the two and prints
//   name: RATIO (limit L, least R) [ours A ns, baseline B ns, N rounds]
// with the median and the least of the ratios of the rounds, and the medians
// of the times. Returns whether the median is within the limit.
bool RunContest(const Contest& contest);

// The extra cost of a run over a plain one, compared with the minimum cost of
// the extra work.
struct Surplus {
  std::string name;
  double limit = 0;  // Limit of (ours - plain) / unit.
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

// Returns the value below which this share of the values lies, 0.5 for the
// median. REQUIRES: there is at least one.
double Quantile(std::vector<double> values, double share);

// Prints `name: VALUE UNIT (limit L)` and returns whether it is within it.
bool ReportValue(const std::string& name, double value, double limit,
                 const char* unit);

// For lines of other forms: what they say of a limit, and their end. Returns
// whether the value is within the limit.
std::string LimitText(double limit);
bool EndLine(double value, double limit);

// Returns the nanoseconds that `work` takes.
template <typename Work>
double NanosecondsOf(Work work) {
  const auto start = std::chrono::steady_clock::now();
  std::forward<Work>(work)();
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now() - start)
      .count();
}

// Returns the nanoseconds of each of `repeats` calls of `work`.
template <typename Work>
double NanosecondsOfEach(int repeats, Work work) {
  const double all = NanosecondsOf([&] {
    for (int i = 0; i < repeats; ++i) work();
  });
  return all / repeats;
}

}  // namespace nodewise
