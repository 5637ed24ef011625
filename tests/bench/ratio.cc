#include "tests/bench/ratio.h"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace nodewise {
namespace {

constexpr int kWarmUps = 2;

double Median(std::vector<double> values) {
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

bool RunContest(const Contest& contest) {
  std::vector<double> ours;
  std::vector<double> baselines;
  std::vector<double> ratios;
  for (int round = -kWarmUps; round < contest.rounds; ++round) {
    // Who comes second may find warmer caches: take turns at that too.
    const bool first = round % 2 == 0;
    double a = first ? contest.ours() : 0;
    const double b = contest.baseline();
    if (!first) a = contest.ours();
    if (round < 0) continue;
    ours.push_back(a);
    baselines.push_back(b);
    ratios.push_back(a / b);
  }
  const double median = Median(ratios);
  std::printf(
      "%s: %.3f (limit %.2f, least %.3f) [ours %.0f ns, baseline %.0f ns, "
      "%d rounds]%s\n",
      contest.name.c_str(), median, contest.limit,
      *std::min_element(ratios.begin(), ratios.end()), Median(ours),
      Median(baselines), contest.rounds,
      median <= contest.limit ? "" : " ABOVE ITS LIMIT");
  std::fflush(stdout);
  return median <= contest.limit;
}

bool ReportValue(const std::string& name, double value, double limit,
                 const char* unit) {
  std::printf("%s: %.1f %s (limit %.1f)%s\n", name.c_str(), value, unit, limit,
              value <= limit ? "" : " ABOVE ITS LIMIT");
  std::fflush(stdout);
  return value <= limit;
}

}  // namespace nodewise
