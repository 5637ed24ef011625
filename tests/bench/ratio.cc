#include "tests/bench/ratio.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "fmt/format.h"

namespace nodewise {
namespace {

constexpr int kWarmUps = 2;

double Median(std::vector<double> values) {
  return Quantile(std::move(values), 0.5);
}

}  // namespace

std::string LimitText(double limit) {
  return limit == kNoLimit ? "no limit" : fmt::format("limit {:.2f}", limit);
}

bool EndLine(double value, double limit) {
  std::puts(value <= limit ? "" : " ABOVE ITS LIMIT");
  std::fflush(stdout);
  return value <= limit;
}

double Quantile(std::vector<double> values, double share) {
  const auto place = static_cast<std::ptrdiff_t>(
      std::lround(share * static_cast<double>(values.size() - 1)));
  const auto at = values.begin() + place;
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

std::vector<std::vector<double>> TimeInTurns(
    const std::vector<TimedSide>& sides, int rounds) {
  std::vector<std::vector<double>> times(sides.size());
  for (int round = -kWarmUps; round < rounds; ++round) {
    // The second side may find warmer caches, so they take turns at that too.
    const auto first = static_cast<size_t>(round + kWarmUps);
    for (size_t i = 0; i < sides.size(); ++i) {
      const size_t side = (first + i) % sides.size();
      const double time = sides[side]();
      if (round >= 0) times[side].push_back(time);
    }
  }
  return times;
}

bool RunContest(const Contest& contest) {
  const auto times =
      TimeInTurns({contest.ours, contest.baseline}, contest.rounds);
  std::vector<double> ratios;
  for (size_t i = 0; i < times[0].size(); ++i) {
    ratios.push_back(times[0][i] / times[1][i]);
  }
  const double median = Median(ratios);
  std::printf(
      "%s: %.3f (%s, least %.3f) [ours %.0f ns, baseline %.0f ns, %d rounds]",
      contest.name.c_str(), median, LimitText(contest.limit).c_str(),
      *std::min_element(ratios.begin(), ratios.end()), Median(times[0]),
      Median(times[1]), contest.rounds);
  return EndLine(median, contest.limit);
}

bool RunSurplus(const Surplus& surplus) {
  const auto times =
      TimeInTurns({surplus.ours, surplus.plain, surplus.unit}, surplus.rounds);
  std::vector<double> ratios;
  for (size_t i = 0; i < times[0].size(); ++i) {
    ratios.push_back((times[0][i] - times[1][i]) / times[2][i]);
  }
  const double median = Median(ratios);
  std::printf(
      "%s: %.3f (%s, quartiles %.3f to %.3f) [ours %.0f ns, plain %.0f ns, "
      "unit %.0f ns, %d rounds]",
      surplus.name.c_str(), median, LimitText(surplus.limit).c_str(),
      Quantile(ratios, 0.25), Quantile(ratios, 0.75), Median(times[0]),
      Median(times[1]), Median(times[2]), surplus.rounds);
  return EndLine(median, surplus.limit);
}

bool ReportValue(const std::string& name, double value, double limit,
                 const char* unit) {
  std::printf("%s: %.3g %s (%s)", name.c_str(), value, unit,
              LimitText(limit).c_str());
  return EndLine(value, limit);
}

}  // namespace nodewise
