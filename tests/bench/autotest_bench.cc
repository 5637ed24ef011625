// Random tests of operators against the loop that people write in Python:
// torch and numpy on random inputs. What counts is processor time for one set
// of values.

#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "nodewise/autotest/autotest_run.h"
#include "nodewise/ops/ops.h"
#include "nodewise/regions/built_in_functions.h"
#include "nodewise/support/check.h"
#include "tests/bench/bench_list.h"
#include "tests/bench/peer.h"
#include "tests/bench/ratio.h"

namespace nodewise {
namespace {

constexpr uint64_t kRuns = 16'000;
constexpr int kLoopCases = 2'000;
constexpr int kRounds = 5;
constexpr std::string_view kPython = "/usr/bin/python3";

double ProcessorNanoseconds() {
  timespec now{};
  NODEWISE_CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0);
  return static_cast<double>(now.tv_sec) * 1e9 +
         static_cast<double>(now.tv_nsec);
}

// Counts what the candidate itself takes.
class TimedCandidate : public Candidate {
 public:
  explicit TimedCandidate(std::unique_ptr<Candidate> inner)
      : inner_(std::move(inner)) {}

  const std::string& name() const override { return inner_->name(); }
  size_t jobs_at_once() const override { return inner_->jobs_at_once(); }
  void Run(absl::Span<const CandidateJob> jobs, Take take) override {
    double since = ProcessorNanoseconds();
    inner_->Run(jobs, [&](CandidateAnswer answer) {
      nanoseconds_ += ProcessorNanoseconds() - since;
      take(std::move(answer));
      since = ProcessorNanoseconds();
    });
    nanoseconds_ += ProcessorNanoseconds() - since;
  }
  double nanoseconds() const { return nanoseconds_; }

 private:
  const std::unique_ptr<Candidate> inner_;
  double nanoseconds_ = 0;
};

// Processor time for one set of values.
struct CaseCost {
  double whole = 0;
  double candidate = 0;  // The part of it that the candidate takes.
};

CaseCost CostOf(std::string_view name, std::unique_ptr<Candidate> candidate,
                AutotestWith with, uint64_t seed) {
  const OperatorDef* row = AllOperators().Find("", name, kNewestOpset);
  NODEWISE_CHECK(row != nullptr);
  TimedCandidate timed(std::move(candidate));
  AutotestOptions options;
  options.seed = seed;
  options.runs = kRuns;
  options.with = with;
  const double start = ProcessorNanoseconds();
  const AutotestResult result = RunAutotest({&row, 1}, timed, options);
  const double spent = ProcessorNanoseconds() - start;
  NODEWISE_CHECK(result.findings.empty());
  const auto runs = static_cast<double>(result.runs);
  return {spent / runs, timed.nanoseconds() / runs};
}

std::unique_ptr<Candidate> BuiltIn() {
  return LoweredCandidate(
      "graph", LoweringFor(AllOperators(), Backend::kReference),
      [] { return BuiltInFunctions(AllOperators(), Backend::kReference); });
}

// The median costs of all operators of the loop, as geometric means.
bool BenchAgainstLoop(const std::string& name,
                      std::unique_ptr<Candidate> (*candidate)(), double limit,
                      bool counts_candidate,
                      AutotestWith with = AutotestWith::kForward) {
  if (!RunProgram({std::string(kPython), "-c", "import torch, numpy"})) {
    std::printf(
        "%s: skipped: %s has no torch (apt-get install python3-torch)\n",
        name.c_str(), std::string(kPython).c_str());
    return true;
  }
  Peer loop(
      {std::string(kPython), NODEWISE_SOURCE_DIR "/tests/bench/torch_loop.py"});
  double log_ratio = 0;
  double log_ours = 0;
  double log_candidate = 0;
  double log_theirs = 0;
  const char* way = with == AutotestWith::kBackward ? "backward" : "forward";
  const std::string listed = loop.AskText("");
  const std::vector<std::string> operators = absl::StrSplit(listed, ' ');
  for (const std::string& op : operators) {
    std::vector<double> ours;
    std::vector<double> own;
    std::vector<double> theirs;
    for (int round = 0; round < kRounds; ++round) {
      const CaseCost cost = CostOf(op, candidate(), with, 1 + round);
      ours.push_back(cost.whole - (counts_candidate ? 0 : cost.candidate));
      own.push_back(cost.candidate);
      theirs.push_back(loop.Ask(fmt::format("{} {} {}", op, way, kLoopCases)));
    }
    log_ratio += std::log(Quantile(ours, 0.5) / Quantile(theirs, 0.5));
    log_ours += std::log(Quantile(ours, 0.5));
    log_candidate += std::log(Quantile(own, 0.5));
    log_theirs += std::log(Quantile(theirs, 0.5));
  }
  const auto mean = [&](double log) {
    return std::exp(log / static_cast<double>(operators.size()));
  };
  std::printf(
      "%s: %.3f (%s) [ours %.0f ns, candidate %.0f ns, loop %.0f ns: "
      "geometric means of %zu operators]",
      name.c_str(), mean(log_ratio), LimitText(limit).c_str(), mean(log_ours),
      mean(log_candidate), mean(log_theirs), operators.size());
  return EndLine(mean(log_ratio), limit);
}

}  // namespace

bool BenchAutotestBuiltIn(const std::string& name) {
  return BenchAgainstLoop(name, &BuiltIn, 0.1, false);
}

bool BenchAutotestGradients(const std::string& name) {
  return BenchAgainstLoop(name, &BuiltIn, 0.1, false, AutotestWith::kBackward);
}

#if NODEWISE_USE_ONEDNN
bool BenchAutotestOneDnn(const std::string& name) {
  return BenchAgainstLoop(
      name,
      []() -> std::unique_ptr<Candidate> {
        return LoweredCandidate("onednn", LoweringFor(AllOperators()), [] {
          return MakeRef<LoweredLibrary>(AllOperators(),
                                         std::vector{OneDnnKernels()});
        });
      },
      0.5, true);
}
#endif

}  // namespace nodewise
